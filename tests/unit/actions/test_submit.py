"""A submission decides once: what resolving found is rendered, written and kept, and nothing is worked out again."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hpclaunch.actions.preparing.load import load
from hpclaunch.actions.preparing.submit import prepare
from hpclaunch.actions.queueing.start import create_run
from hpclaunch.actions.system import System
from hpclaunch.core.spec import Request
from hpclaunch.planner.measured.calibrations import place_of, run_list_of, with_key
from tests.unit.actions.conftest import calls

REQUEST = Request(target="cifar", site="perlmutter", account="m1234_g", data_dir="/data")


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
