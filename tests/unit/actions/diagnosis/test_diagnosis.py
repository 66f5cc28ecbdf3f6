"""What a probe job says as a whole: all is well, it never began, or it never reached the ranks."""

from __future__ import annotations

import pytest

from hpclaunch.actions.clusters.diagnosis import diagnose
from tests.unit.actions.diagnosis.probes import SPEC, evidence, failed


def test_where_all_is_well_every_check_passes() -> None:
    checks = diagnose(evidence())
    assert {check.verdict for check in checks} == {"PASS"}
    names = [check.name for check in checks]
    assert names[:4] == ["shared paths", "ranks", "MPI", "GPUs"]
    assert set(names) >= {"CPUs per task", "CPU binding", "environment", "TensorFlow", "Horovod"}


@pytest.mark.parametrize("state", ["CANCELLED", "NODE_FAIL", "PREEMPTED"])
def test_a_job_that_never_began_says_nothing_of_its_folders(state: str) -> None:
    (check,) = diagnose(evidence(ranks=[], log=None, state=state, reason="by 1000", exit_code="0:0"))
    assert (check.name, check.verdict, check.what) == ("job", "FAIL", f"the job ended as {state} (by 1000)")
    assert check.next == "try again: hpclaunch doctor"


def test_a_job_of_which_nobody_knows_accuses_nothing() -> None:
    (check,) = diagnose(evidence(ranks=[], log=None, state="UNKNOWN"))
    assert check.what == "the state of the job is unknown"


def test_a_job_that_never_reached_the_ranks_says_why() -> None:
    log = "hpclaunch: module load tensorflow/9: failed with exit code 1\n"
    (check,) = failed(evidence(ranks=[], log=log, state="FAILED", exit_code="78:0"))
    assert check.name == "job"
    assert "module load tensorflow/9" in check.what
    assert check.next == f"read its log: hpclaunch logs {SPEC['run_dir'].rpartition('/')[2]}"
