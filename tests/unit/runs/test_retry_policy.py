from __future__ import annotations

import pytest

from hpclaunch.runs.retry_policy import Ending, RetryDecision, decide

LOST_CONNECTION = "srun: error: Task launch for StepId=7.0 failed on node n2: Communication connection failure"
# As after a lost node (Slurm 22.05.8): the next start of the job finds the PMIx socket of the first.
NO_STEP = """epoch 1/3 step 1/13
srun: launch/slurm: launch_p_step_launch: StepId=7.0 aborted before step completely launched.
srun: error: task 0 launch failed: Unspecified error
srun: error: node2: task 1: Killed
"""


def failed(log: str, code: str = "137:0", ranks_failed: bool = False) -> RetryDecision:
    return decide(Ending(state="FAILED", exit_code=code, log=log, ranks_failed=ranks_failed))


def test_a_launcher_that_could_not_reach_a_node_is_tried_again_without_it() -> None:
    found = failed(LOST_CONNECTION)
    assert (found.again, dict(found.exclude)) == (True, {"n2": f"in the log: {LOST_CONNECTION}"})


def test_a_step_that_could_not_be_set_up_is_tried_again() -> None:
    found = failed(NO_STEP)
    assert (found.again, dict(found.exclude)) == (True, {})
    assert "task 0 launch failed: Unspecified error" in found.reason


@pytest.mark.parametrize("log", [NO_STEP, LOST_CONNECTION])
def test_where_a_rank_left_its_exit_code_the_program_failed_by_itself(log: str) -> None:
    assert not failed(log, code="7:0", ranks_failed=True).again
    assert not failed(log, code="78:0").again


@pytest.mark.parametrize("code", ["137:0", "143:0"])
def test_ranks_that_srun_ended_because_others_could_not_be_launched_have_not_failed(code: str) -> None:
    assert failed(NO_STEP, code=code, ranks_failed=True).again
    assert not failed("srun: error: node2: task 3: Killed", code=code, ranks_failed=True).again


@pytest.mark.parametrize(
    "log",
    [
        "",
        "srun: error: task 0 launch failed: Slurmd could not execve job",
        "srun: error: node2: task 1: Exited with exit code 7",
        "task 0 launch failed: Unspecified error",
    ],
)
def test_other_failures_are_the_programs_own(log: str) -> None:
    assert not failed(log).again
