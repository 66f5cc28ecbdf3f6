"""A submission decides once: what resolving found is rendered, written and kept, and nothing is worked out again."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from hpclaunch.actions.load import load
from hpclaunch.actions.start import create_run
from hpclaunch.actions.submit import prepare
from hpclaunch.actions.system import System
from hpclaunch.core.spec import Request
from hpclaunch.planner.measured.calibrations import place_of, run_list_of, with_key

DECIDES = {
    "hpclaunch.planner.forecasting": {"forecast"},
    "hpclaunch.resolve": {"resolve"},
    "hpclaunch.resolve.sizing": {"sizing_of"},
    "hpclaunch.runs.snapshot": {"fingerprint"},
    "hpclaunch.sites.detect": {"choice_of"},
}
REQUEST = Request(target="cifar", site="perlmutter", account="m1234_g", data_dir="/data")


@contextmanager
def calls() -> Iterator[list[str]]:
    """Collect the calls of functions that decide, in their order."""
    found: list[str] = []

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name in DECIDES.get(frame.f_globals.get("__name__", ""), ()):
            found.append(frame.f_code.co_name)

    before: Callable[..., Any] | None = sys.getprofile()
    sys.setprofile(look)
    try:
        yield found
    finally:
        sys.setprofile(before)


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch:  # no run directory at Perlmutter may be in /tmp
        yield System(
            cwd=tmp_path,
            environment={"HOME": str(tmp_path / "home"), "SCRATCH": scratch, "PATH": "/usr/bin:/bin"},
            git_state=lambda folder: "",
        )


@pytest.mark.parametrize(("nodes", "plans"), [(4, 0), (None, 1)])
def test_each_decision_of_a_submission_is_taken_once(system: System, nodes: int | None, plans: int) -> None:
    with calls() as found:
        prepared = prepare(system, replace(REQUEST, nodes=nodes))
    assert prepared.text
    assert found.count("forecast") == plans
    assert [found.count(name) for name in ("choice_of", "fingerprint", "resolve")] == [1, 1, 1]
    assert found.index("fingerprint") < found.index("resolve")
    assert found[found.index("resolve") :] == ["resolve", "sizing_of"]
    with calls() as found:
        create_run(system, prepared)
    assert found == []


def test_a_run_directory_tells_where_a_plan_finds_what_it_measured(system: System) -> None:
    run = create_run(system, prepare(system, replace(REQUEST, nodes=4)))
    key = json.loads((run.path / "spec.json").read_text())["calibration_key"]
    assert key.startswith("perlmutter/gpu40/cifar-")
    assert key == with_key(load(system, REQUEST)).calibration_key
    assert run_list_of(place_of(system.environment, key)).read_text() == f"{run.path}\n"


def test_a_run_that_no_plan_would_choose_is_under_no_key(system: System) -> None:
    prepared = prepare(system, replace(REQUEST, nodes=4, sbatch=("--exclusive",)))
    assert prepared.case.calibration_key
    run = create_run(system, prepared)
    assert run.spec()["calibration_key"] == ""
    assert not list(system.cwd.rglob("*.runs"))
