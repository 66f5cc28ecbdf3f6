"""Which Keras tf.keras will be, and what a person is told where it is Keras 3; no TensorFlow is imported."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from hpclaunch.training.rank import keras_version
from hpclaunch.training.rank.failure import TrainingError

VARIABLE = keras_version.VARIABLE
OF_TWO, OF_THREE = SimpleNamespace(), SimpleNamespace(__version__="3.8.0")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Installs a Keras of this version, and tf-keras or not."""

    def install(keras: str, tf_keras: bool) -> None:
        (tmp_path / f"keras-{keras}.dist-info").mkdir()
        (tmp_path / f"keras-{keras}.dist-info" / "METADATA").write_text(f"Name: keras\nVersion: {keras}\n")
        (tmp_path / "tf_keras.py").touch()
        monkeypatch.syspath_prepend(str(tmp_path))
        if tf_keras:
            monkeypatch.delitem(sys.modules, "tf_keras", raising=False)
        else:
            monkeypatch.setitem(sys.modules, "tf_keras", None)

    return install


@pytest.mark.parametrize(
    ("keras", "tf_keras", "imported", "before", "after"),
    [
        ("3.8.0", True, (), None, "1"),
        ("3.8.0", True, (), "", "1"),  # of a script whose own Python has no tf-keras
        ("3.8.0", True, (), "0", "0"),
        ("3.8.0", True, ("tensorflow",), None, None),
        ("3.8.0", False, (), None, None),
        ("3.8.0", False, (), "1", None),
        ("2.15.0", True, (), None, None),
        ("2.15.0", True, (), "1", "1"),
        ("2.15.0", False, (), "1", None),  # with it TensorFlow 2.15 finds no Keras
        ("2.15.0", False, ("tensorflow",), "1", None),
    ],
)
def test_keras_2_is_preferred_where_it_is_installed(  # type: ignore[no-untyped-def]
    installed, keras: str, tf_keras: bool, imported: tuple[str, ...], before: str | None, after: str | None
) -> None:
    installed(keras, tf_keras)
    environ = {} if before is None else {VARIABLE: before}
    keras_version.prefer_keras_2(environ, imported)
    assert environ.get(VARIABLE) == after


def test_keras_2_passes() -> None:
    keras_version.require(SimpleNamespace(keras=OF_TWO, __version__="2.18.1"))
    assert not keras_version.is_loaded_keras_3(SimpleNamespace(keras=OF_TWO))


def test_a_missing_package_is_named_with_its_version(installed) -> None:  # type: ignore[no-untyped-def]
    installed("3.8.0", tf_keras=False)
    assert keras_version.is_loaded_keras_3(SimpleNamespace(keras=OF_THREE))
    with pytest.raises(TrainingError, match=r"TensorFlow 2\.18\.1 .* pip install --no-deps 'tf-keras==2\.18\.\*'$"):
        keras_version.require(SimpleNamespace(keras=OF_THREE, __version__="2.18.1"))


@pytest.mark.parametrize(("value", "ends"), [(None, "program starts."), ("0", r"starts \(it is '0' now\)\.")])
def test_the_line_to_add_is_named(  # type: ignore[no-untyped-def]
    installed, monkeypatch: pytest.MonkeyPatch, value: str | None, ends: str
) -> None:
    installed("3.8.0", tf_keras=True)
    monkeypatch.delenv(VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(TrainingError, match=f"add the line `from hpclaunch import training` above .*{ends}$"):
        keras_version.require(SimpleNamespace(keras=OF_THREE, __version__="2.20.0"))


@pytest.mark.parametrize("version", ["2.9.3", "2.15.1", "2.20.0", "unknown"])
def test_nothing_is_said_about_versions_that_were_tried(version: str) -> None:
    assert keras_version.untried(version) == ""


@pytest.mark.parametrize("version", ["2.8.4", "2.21.0", "3.0.0"])
def test_other_versions_give_one_line(version: str) -> None:
    line = keras_version.untried(version)
    assert line == f"TensorFlow {version}: hpclaunch.training was not tried with it, but with 2.9 to 2.20"
