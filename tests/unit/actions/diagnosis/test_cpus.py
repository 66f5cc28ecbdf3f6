"""The CPUs of tasks, and the binding of ranks."""

from __future__ import annotations

import pytest

from hpclaunch.actions.clusters.diagnosis import diagnose
from tests.unit.actions.diagnosis.probes import SPEC, evidence, failed, with_ranks


def test_cpus_of_a_task_are_held_against_what_was_asked_for() -> None:
    told = {"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_CPUS_PER_TASK": "1"}
    (check,) = failed(evidence(ranks=with_ranks(assigned=told)))
    assert (check.name, check.verdict) == ("CPUs per task", "FAIL")


@pytest.mark.parametrize(
    ("cpus", "node_cpus", "verdict"),
    [([3], 64, "FAIL"), (list(range(32)), 32, "WARN"), (list(range(8)), 8, "WARN")],
)
def test_binding(cpus: list[int], node_cpus: int, verdict: str) -> None:
    checks = diagnose(evidence(ranks=with_ranks(cpus=cpus, node_cpus=node_cpus)))
    assert next(check.verdict for check in checks if check.name == "CPU binding") == verdict


def test_the_hint_about_binding_is_that_of_the_launcher() -> None:
    by_launcher = {}
    for launcher in ("srun", "mpirun"):
        found = evidence(spec={**SPEC, "launcher": launcher}, ranks=with_ranks(cpus=[3], node_cpus=64))
        (by_launcher[launcher],) = [check.next for check in failed(found) if check.name == "CPU binding"]
    assert by_launcher["srun"] == "set cpu_bind: cores under launchers.options.srun in the site file"
    assert "srun" not in by_launcher["mpirun"]


def test_a_task_is_a_rank_only_under_a_launcher_of_the_scheduler() -> None:
    told = {"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_CPUS_PER_TASK": "1"}
    names = {}
    for launcher in ("srun", "mpirun"):
        found = evidence(spec={**SPEC, "launcher": launcher}, ranks=with_ranks(assigned=told))
        names[launcher] = [check.name for check in failed(found)]
    assert names == {"srun": ["CPUs per task"], "mpirun": []}
