"""An environment that lacks what the program needs is known by its folders; where others may add to it, it is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.actions.environments.python_packages import lacking_in, missing_packages
from hpclaunch.actions.preparing.preflight import missing_here
from hpclaunch.core.spec import JobSpec, Step
from tests.builders import a_job, planned

BOTH = ("tensorflow", "horovod")


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """A virtual environment with nothing but TensorFlow."""
    (tmp_path / "lib/python3.11/site-packages/tensorflow").mkdir(parents=True)
    (tmp_path / "lib/python3.11/site-packages/distutils-precedence.pth").write_text("import os; ...")
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    return tmp_path


def spec_in(folder: Path, packages: tuple[str, ...] = BOTH) -> JobSpec:
    step = Step(line=f"source {folder}/bin/activate", failure="activating")
    return replace(planned(job=a_job()), packages=packages, python_folder=str(folder), steps=(step,))


def test_what_an_environment_lacks_is_one_fault_with_what_to_do(venv: Path) -> None:
    (fault,) = missing_packages(spec_in(venv))
    assert fault.where == f"the Python in {venv}" and fault.what == "it has no horovod, which train needs"
    assert "--venv, --conda or --python" in fault.next
    assert fault in missing_here(spec_in(venv), {})
    assert missing_packages(spec_in(venv, ("tensorflow",))) == missing_packages(spec_in(venv, ())) == []


def test_where_packages_may_come_from_elsewhere_nothing_is_known(venv: Path) -> None:
    spec = spec_in(venv)
    module = Step(line="module load horovod", failure="module load horovod")
    assert missing_packages(replace(spec, steps=(module, *spec.steps))) == []
    assert missing_packages(replace(spec, environment=(*spec.environment, ("PYTHONPATH", "/opt")))) == []
    assert missing_packages(replace(spec, python_folder="")) == []


def test_a_folder_of_a_pth_file_counts_and_one_with_code_may_add_any(venv: Path) -> None:
    added = venv / "lib/python3.11/site-packages/own.pth"
    (venv / "checkout").mkdir()
    added.write_text(f"# own\n{venv / 'checkout'}\n")
    assert lacking_in(venv, BOTH) == ["horovod"]
    (venv / "checkout/horovod").mkdir()
    assert lacking_in(venv, BOTH) == []
    (venv / "checkout/horovod").rmdir()
    added.write_text("import finder; finder.install()\n")
    assert lacking_in(venv, BOTH) == []


def test_an_environment_that_sees_the_systems_packages_is_not_known(venv: Path) -> None:
    (venv / "pyvenv.cfg").write_text("include-system-site-packages = TRUE\n")
    assert lacking_in(venv, BOTH) == []


def test_a_conda_environment_is_known_and_any_other_folder_is_not(
    venv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (venv / "pyvenv.cfg").unlink()
    assert lacking_in(venv, BOTH) == []
    (venv / "conda-meta").mkdir()
    assert lacking_in(venv, BOTH) == ["horovod"]
    (tmp_path / "home/.local/lib/python3.11/site-packages/horovod").mkdir(parents=True)
    assert lacking_in(venv, BOTH) == []
