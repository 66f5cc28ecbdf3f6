"""The wheel that is packed again from an installation: the recorded files as they were, and no others."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from hpclaunch.actions.sharing import own_wheel
from hpclaunch.actions.sharing.own_wheel import make_own_wheel, required_by
from hpclaunch.core.errors import Refused
from hpclaunch.core.version import __version__

ABOUT = f"hpclaunch-{__version__}.dist-info"
FILES = {
    "hpclaunch/__init__.py": "one = 1\n",
    "hpclaunch/_bundled/a.yaml": "b: 2\n",
    f"{ABOUT}/METADATA": "Name: hpclaunch\nRequires-Dist: x>=1\n\nRequires-Dist: of the readme\n",
    f"{ABOUT}/WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n",
}
BY_THE_INSTALLER = {f"{ABOUT}/INSTALLER": "pip\n", "hpclaunch/__pycache__/a.pyc": "x", "../../bin/hpclaunch": "#!\n"}


def digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed hpclaunch, first on the path of modules."""
    folder = tmp_path / "lib/site-packages"
    for name, text in {**FILES, **BY_THE_INSTALLER}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    record = [f"{name},sha256={digest(text)},{len(text)}\n" for name, text in {**FILES, **BY_THE_INSTALLER}.items()]
    (folder / ABOUT / "RECORD").write_text("".join([*record, f"{ABOUT}/RECORD,,\n"]))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(own_wheel, "PACKAGE", (folder / "hpclaunch").resolve())
    return folder


def run_nothing(words: Sequence[str]) -> None:
    raise AssertionError(words)


def test_it_holds_the_files_of_the_first_wheel_with_their_sums(installation: Path, tmp_path: Path) -> None:
    wheel = make_own_wheel(tmp_path, run_nothing)
    assert wheel.name == f"hpclaunch-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as packed:
        content = {name: packed.read(name).decode() for name in packed.namelist()}
    record = content.pop(f"{ABOUT}/RECORD")
    assert content == FILES
    assert record.splitlines() == [
        *(f"{name},sha256={digest(text)},{len(text)}" for name, text in FILES.items()),
        f"{ABOUT}/RECORD,,",
    ]
    assert required_by(wheel, []) == ["x>=1"]
    first = wheel.read_bytes()
    assert make_own_wheel(tmp_path, run_nothing).read_bytes() == first, "the same bytes each time"


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("hpclaunch/__init__.py", "two = 2\n", "was changed after it was installed"),
        ("hpclaunch/_bundled/a.yaml", None, "cannot be read: No such file"),
        (f"{ABOUT}/WHEEL", "Wheel-Version: 1.0\n", "was changed after it was installed"),
        (f"{ABOUT}/RECORD", f"hpclaunch/__init__.py,,\n{ABOUT}/RECORD,,\n", "was changed after it was installed"),
        (f"{ABOUT}/RECORD", f"{ABOUT}/RECORD,,\n", "names no kind of wheel"),
    ],
)
def test_an_installation_that_is_not_as_it_was_recorded_is_not_packed(
    installation: Path, tmp_path: Path, name: str, text: str | None, what: str
) -> None:
    file = installation / name
    file.unlink() if text is None else file.write_text(text)
    with pytest.raises(Refused, match=what) as caught:
        make_own_wheel(tmp_path, run_nothing)
    assert caught.value.faults[0].next == "install hpclaunch again, from a wheel or from a checkout"
    assert not list(tmp_path.glob("*.whl"))


def test_the_record_of_another_installation_is_not_taken(
    installation: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other/hpclaunch/_bundled").mkdir(parents=True)
    monkeypatch.setattr(own_wheel, "PACKAGE", tmp_path / "other/hpclaunch")
    with pytest.raises(Refused, match="has no record of its installation"):
        make_own_wheel(tmp_path, run_nothing)
    (tmp_path / "other/hpclaunch/_bundled").rmdir()
    with pytest.raises(Refused, match="is neither installed nor in a checkout"):
        make_own_wheel(tmp_path, run_nothing)
