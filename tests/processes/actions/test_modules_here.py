"""A module that is gone is found on a login node: ``module`` is asked once, and what is not known refuses nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.actions.preparing.modules_here import gone_modules, modules_of
from hpclaunch.config.fileformat import Environment
from hpclaunch.core.errors import Fault
from tests.builders import a_job, planned

HEADER = "/opt/modulefiles:"
LMOD = f"{HEADER}\ntensorflow/\ntensorflow/2.12.0\ntensorflow/2.15.0\n"
TCL = f"{HEADER}\ntensorflow/2.12.0\ntensorflow/2.15.0(default)\n"


class Node:
    """A login node whose ``module`` lists this, and notes every call."""

    def __init__(self, folder: Path, listed: str, loads: str = "true") -> None:
        (folder / "listed").write_text(listed)
        self._calls = folder / "calls"
        body = f'echo "$*" >> {self._calls}; [ "$1" != load ] || {{ {loads}; return; }}; cat {folder}/listed >&2'
        self.environment = {
            "PATH": "/usr/bin:/bin",
            "XDG_CACHE_HOME": str(folder / "cache"),
            "BASH_FUNC_module%%": f"() {{  {body}\n}}",
        }

    @property
    def calls(self) -> list[str]:
        return self._calls.read_text().splitlines() if self._calls.exists() else []

    def gone(self, *modules: str, now: float | None = None) -> list[Fault]:
        spec = planned(job=a_job(environment=Environment(modules=modules)))
        return gone_modules(spec, self.environment, now)


@pytest.mark.parametrize("listed", [LMOD, TCL], ids=["Lmod", "Tcl"])
def test_a_version_that_is_gone_beside_others_is_refused_with_these(tmp_path: Path, listed: str) -> None:
    node = Node(tmp_path, listed)
    (fault,) = node.gone("tensorflow/2.9.0")
    assert fault.what == "this node has no module tensorflow/2.9.0, which the script loads"
    assert fault.allowed == "tensorflow/2.12.0, tensorflow/2.15.0"
    assert fault.next.startswith("--module tensorflow/2.15.0; or --accept-unverified")
    assert node.calls == ["--terse avail tensorflow"]


@pytest.mark.parametrize("name", ["tensorflow/2.15.0", "tensorflow/2.15", "tensorflow", "pytorch/2.6", "a b/1"])
def test_one_that_is_there_or_of_which_nothing_is_listed_is_no_fault(tmp_path: Path, name: str) -> None:
    assert Node(tmp_path, TCL).gone(name) == []


def test_module_is_asked_once_a_day_and_again_for_other_modules(tmp_path: Path) -> None:
    node = Node(tmp_path, TCL)
    assert node.gone("tensorflow/2.9.0") == node.gone("tensorflow/2.9.0") != []
    assert len(node.calls) == 1
    node.gone("tensorflow/2.8.0")
    assert len(node.calls) == 2
    cached = next((tmp_path / "cache").rglob("*.txt"))
    node.gone("tensorflow/2.9.0", now=cached.stat().st_mtime + 25 * 3600)
    assert len(node.calls) == 3


def test_what_is_loaded_before_may_bring_the_next(tmp_path: Path) -> None:
    node = Node(tmp_path, TCL)
    assert len(node.gone("stage/2026", "tensorflow/2.9.0")) == 1
    assert node.calls == ["--terse avail stage", "load stage/2026", "--terse avail tensorflow"]


def test_what_comes_after_a_module_that_cannot_be_loaded_is_not_known(tmp_path: Path) -> None:
    node = Node(tmp_path, TCL, loads="false")
    assert node.gone("stage/2026", "tensorflow/2.9.0") == []
    assert node.calls == ["--terse avail stage", "load stage/2026"]


def test_a_module_that_does_not_answer_refuses_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path, TCL)
    node.environment["BASH_FUNC_module%%"] = "() {  exec sleep 1000\n}"
    assert node.gone("tensorflow/2.9.0") == []


def test_without_module_nothing_is_started(tmp_path: Path) -> None:
    node = Node(tmp_path, TCL)
    del node.environment["BASH_FUNC_module%%"]
    assert node.gone("tensorflow/2.9.0") == []
    assert not (tmp_path / "cache").exists()


SET_UP = ("module load d/2 e", "echo x", "module load f && x", "module load g'")


def test_the_modules_of_lines_of_set_up_count_too() -> None:
    spec = planned(job=a_job(environment=Environment(modules=("a/1", "b c"), setup=SET_UP)))
    assert modules_of(spec) == ["a/1", "b c", "d/2", "e"]
    assert modules_of(replace(spec, steps=())) == []
