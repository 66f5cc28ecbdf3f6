"""The short runs of a profile: what is the same for all of them is loaded, hashed and decided once."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hpclaunch.actions.measuring import program_profile
from hpclaunch.actions.measuring.profile import EPOCHS, design
from hpclaunch.actions.system import System
from hpclaunch.core.errors import Refused
from hpclaunch.core.spec import Request
from hpclaunch.planner.measured.log_formats import FORMATS
from hpclaunch.planner.measured.log_rates import LogRate, rate_in
from tests.unit.actions.conftest import calls

REQUEST = Request(target="cifar", site="perlmutter", account="m1234_g", data_dir="/data")


def test_site_job_and_code_are_read_once_for_all_runs(system: System) -> None:
    with calls() as found:
        plan = design(system, REQUEST)
    counted = {name: found.count(name) for name in ("choice_of", "fingerprint", "forecast", "resolve")}
    assert counted == {"choice_of": 1, "fingerprint": 1, "forecast": 0, "resolve": len(plan.trials)}
    assert [(trial.nodes, trial.per_rank) for trial in plan.trials] == [(1, 512), (1, 256), (2, 512)]


def test_each_run_has_a_directory_of_its_own_and_the_key_of_all(system: System) -> None:
    plan = design(system, REQUEST)
    specs = [trial.prepared.spec for trial in plan.trials]
    assert len({spec.run_dir for spec in specs}) == len(specs) == 3
    assert {spec.calibration_key for spec in specs} == {plan.case.calibration_key} != {""}
    assert {dict(spec.parameters)["epochs"] for spec in specs} == {str(EPOCHS)}
    assert [dict(spec.parameters)["batch_size_per_rank"] for spec in specs] == ["512", "256", "512"]


def test_an_epoch_has_complete_steps_and_at_most_as_many_as_asked_for(system: System) -> None:
    specs = [trial.prepared.spec for trial in design(system, REQUEST, steps=20).trials]
    samples = [int(dict(spec.parameters)["train_samples"]) for spec in specs]
    batches = [spec.layout.world_size * int(dict(spec.parameters)["batch_size_per_rank"]) for spec in specs]
    assert samples == [min(20, 50_000 // batch) * batch for batch in batches]


def test_node_counts_that_the_site_refuses_are_left_out_unless_they_were_typed(system: System) -> None:
    request = replace(REQUEST, site="local", account=None)
    plan = design(system, request)
    assert {trial.nodes for trial in plan.trials} == {1}
    assert plan.remarks == ("2 nodes cannot be measured: 2 nodes requested, but local is a single machine",)
    with pytest.raises(Refused, match="local is a single machine"):
        design(system, replace(request, nodes=2))


def test_one_node_alone_is_measured_where_one_is_typed(system: System) -> None:
    assert [trial.nodes for trial in design(system, replace(REQUEST, nodes=1)).trials] == [1, 1]


def test_a_run_is_not_ended_by_its_first_short_loop(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[Any] = []
    monkeypatch.setattr(program_profile, "cancel", ended.extend)
    run = cast("Any", SimpleNamespace(id="1", final=False, state="RUNNING", label="train-1"))
    for line, number, is_ended in (
        ("{}/5000 [00:05<00:02, 800.00it/s]", 4000, False),
        ("{}it [00:05, 800.00it/s]", 4000, False),
        ("{}/? [00:05<?, 800.00it/s]", 4000, False),
        ("{}it [00:80, 8.00it/s]", 640, True),
        ("train: {}/640 [00:80<00:00, 8.00it/s]", 640, True),
    ):
        ended.clear()
        watch = program_profile.Watcher(system, program_profile.ProgramWish())
        rate = rate_in([line.format(step) for step in range(0, number, 10)], FORMATS, 1)
        monkeypatch.setattr(program_profile, "measured_rate", lambda *_, rate=rate, **__: rate)
        assert "steps measured" in watch(run) and bool(ended) == is_ended, line


def test_a_loop_without_an_end_is_ended_at_once(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[Any] = []
    monkeypatch.setattr(program_profile, "cancel", ended.extend)
    rate = LogRate(kind="step_s", middle=0.1, low=0.1, high=0.1, steps=100, left_out=20, source="nanogpt")
    monkeypatch.setattr(program_profile, "measured_rate", lambda *_, **__: rate)
    watch = program_profile.Watcher(system, program_profile.ProgramWish())
    watch(cast("Any", SimpleNamespace(id="1", final=False, state="RUNNING", label="train-1")))
    assert len(ended) == 1
