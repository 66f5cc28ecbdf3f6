from __future__ import annotations

import pytest

from hpclaunch.runs.retry_policy import Ending, RetryDecision, decide, merged

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


def test_a_launchers_0_without_all_ranks_is_a_fault_of_the_machine() -> None:
    found = failed(f"epoch 1\n{NODE_FAILURE}\n", code="69:0")
    assert (found.again, list(found.exclude)) == (True, ["node3"])
    assert found.reason == "its launcher ended with 0 although not every rank did"
    assert failed("", code="69:0").again
    assert not failed("", code="69:0", ranks_failed=True).again, "the program's own 69"
    assert not failed("", code="74:0").again, "the disk is full"


NODE_FAILURE = "srun: error: Node failure on node3"


@pytest.mark.parametrize("state", ["NODE_FAIL", "BOOT_FAIL"])
def test_a_node_that_srun_reported_is_avoided_also_if_it_is_back_at_once(state: str) -> None:
    found = decide(Ending(state=state, log=f"step 1\n{NODE_FAILURE}\n", nodes=("node2", "node3")))
    assert (found.again, dict(found.exclude)) == (True, {"node3": f"in the log: {NODE_FAILURE}"})
    several = decide(Ending(state=state, log="srun: error: Node failure on n[1-2]\n", nodes=("n1", "n2", "n3")))
    assert list(several.exclude) == ["n1", "n2"]


def test_a_node_failure_in_the_log_is_a_fault_of_the_machine_unless_a_rank_failed_by_itself() -> None:
    assert list(failed(f"{NODE_FAILURE}\n").exclude) == ["node3"]
    assert not failed(f"{NODE_FAILURE}\n", code="7:0", ranks_failed=True).again


def test_the_lines_of_nodes_that_live_blame_none_of_them() -> None:
    lines = """srun: error: node2: task 1: Killed
slurmstepd: error: *** STEP 7.0 ON node2 CANCELLED AT 2026-11-21T19:28:38 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***
slurmstepd: error: *** JOB 7 ON node2 CANCELLED AT 2026-11-21T19:28:38 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***
"""  # noqa: E501
    assert decide(Ending(state="NODE_FAIL", log=lines, nodes=("node1", "node2"))).exclude == {}
    assert decide(Ending(state="NODE_FAIL", log="print(srun: error: Node failure on n1)")).exclude == {}


def test_a_task_that_could_not_be_launched_blames_its_node() -> None:
    nodes = ("node1", "node2")
    one = decide(Ending(state="FAILED", exit_code="137:0", log=NO_STEP, nodes=nodes, tasks_per_node=1))
    assert list(one.exclude) == ["node1"]
    late = NO_STEP.replace("task 0 launch failed", "tasks 4-7 launch failed")
    assert list(decide(Ending(state="FAILED", log=late, nodes=nodes, tasks_per_node=4)).exclude) == ["node2"]
    assert decide(Ending(state="FAILED", log=NO_STEP, nodes=nodes)).exclude == {}, "how tasks are spread is not known"
    assert decide(Ending(state="FAILED", log=late, nodes=nodes, tasks_per_node=1)).exclude == {}


def test_slurms_own_report_and_the_only_node_count_too() -> None:
    reported = {"node2": "Slurm reports it as down"}
    assert decide(Ending(state="NODE_FAIL", nodes=("node1", "node2"), unwell=reported)).exclude == reported
    only = decide(Ending(state="NODE_FAIL", nodes=("node1",)))
    assert dict(only.exclude) == {"node1": "the only node of a run that ended as NODE_FAIL"}


def test_a_name_that_gets_a_new_machine_is_never_avoided() -> None:
    new = {"node3": "", "node1": ""}
    assert decide(Ending(state="NODE_FAIL", nodes=("node1",), unwell=new)).exclude == {}, "nor as the only node"
    assert decide(Ending(state="NODE_FAIL", nodes=("node3", "node4"), log=NODE_FAILURE, unwell=new)).exclude == {}
    mixed = decide(Ending(state="NODE_FAIL", log=NODE_FAILURE, unwell={"node4": "Slurm reports it as down", **new}))
    assert mixed.again and dict(mixed.exclude) == {"node4": "Slurm reports it as down"}


def test_nodes_are_merged_and_none_is_named_twice() -> None:
    assert merged("node[1-3]", ["node2", "node4", "node4", ""]) == "node[1-3],node4"
    assert merged("", ["a", "b"]) == "a,b"


def test_a_log_that_blames_very_many_nodes_blames_none() -> None:
    few, many = (decide(Ending(state="NODE_FAIL", log=f"srun: error: Node failure on n[1-{n}]\n")) for n in (256, 257))
    assert (len(few.exclude), many.again, many.exclude) == (256, True, {})


def test_the_evidence_is_a_line_of_ordinary_length() -> None:
    names = ",".join(f"node{number}" for number in range(200))
    for state in ("NODE_FAIL", "FAILED"):
        found = decide(Ending(state=state, log=f"srun: error: Node failure on {names}\n"))
        assert len(found.exclude) == 200
        assert max(map(len, [found.reason, *found.exclude.values()])) < 300


@pytest.mark.parametrize(
    ("state", "again", "reason"),
    [
        ("NODE_FAIL", True, "a node failed"),
        ("BOOT_FAIL", True, "a node did not boot"),
        ("PREEMPTED", True, "it was preempted"),
        ("NOT_SUBMITTED", True, "it was never queued"),
        ("COMPLETED", False, "it completed"),
        ("CANCELLED", False, "it was cancelled"),
        ("TIMEOUT", False, "it reached its walltime"),
        ("DEADLINE", False, "it reached its deadline"),
        ("FORGOTTEN", False, "it was closed with hpclaunch runs forget"),
        ("OUT_OF_MEMORY", False, "it ran out of memory"),
        ("RUNNING", False, "it has not ended: its state is RUNNING"),
        ("FAILED", False, "it failed with exit code unknown, and no fault of the machine is known"),
    ],
)
def test_each_state_is_started_again_or_not_for_its_reason(state: str, again: bool, reason: str) -> None:
    assert decide(Ending(state=state)) == RetryDecision(again=again, reason=reason)


def test_the_exit_code_of_a_failure_is_in_the_reason() -> None:
    assert failed("", code="7:0").reason == "it failed with exit code 7, and no fault of the machine is known"


def test_a_node_that_is_known_to_be_broken_is_the_one_to_avoid_and_not_the_only_one() -> None:
    ending = Ending(state="NODE_FAIL", nodes=("node1",), unwell={"node2": "Slurm reports it as down"})
    assert dict(decide(ending).exclude) == {"node2": "Slurm reports it as down"}


def test_log_and_slurm_are_put_together_and_slurms_word_counts() -> None:
    log = f"{NODE_FAILURE}\n{LOST_CONNECTION}\n"
    ending = Ending(state="FAILED", exit_code="137:0", log=log, unwell={"n2": "down", "n9": "drained"})
    assert dict(decide(ending).exclude) == {"n2": "down", "node3": f"in the log: {NODE_FAILURE}", "n9": "drained"}
    for state, code in (("FAILED", "69:0"), ("NODE_FAIL", "")):
        found = decide(Ending(state=state, exit_code=code, log=NODE_FAILURE, unwell={"n9": "drained"}))
        assert list(found.exclude) == ["node3", "n9"]


@pytest.mark.parametrize(
    "line",
    [
        "srun: error: Task launch for StepId=7.0 failed on node n2: Socket timed out on send/recv operation",
        "srun: error: Task launch for StepId=7.0 failed on node n2: Job credential expired",
        "srun: error: Task launch for StepId=7.0 failed on node n2: Connection refused",
        "srun: error: Unable to create step for job 7: Socket timed out on send/recv operation",
        "srun: error: Unable to confirm allocation for job 7: Unable to contact slurm controller",
        "srun: error: Unable to allocate resources: Zero Bytes were transmitted or received",
    ],
)
def test_lines_of_srun_about_a_fault_of_the_machine(line: str) -> None:
    found = failed(f"x\n{line}\n", code="1:0")
    assert found.again and found.reason.startswith(f"its launcher failed: {line[:50]}")
    assert not failed("srun: error: Unable to create step for job 7: Requested nodes are busy", code="1:0").again


def test_a_number_that_no_task_has_blames_no_node() -> None:
    log = f"srun: error: task {'9' * 5000} launch failed: Unspecified error\n"
    found = decide(Ending(state="FAILED", exit_code="1:0", log=log, nodes=("n1", "n2"), tasks_per_node=1))
    assert (found.again, found.exclude) == (True, {})


def test_more_than_256_nodes_are_too_many_in_every_failure() -> None:
    log = "srun: error: Node failure on n[1-257]\n"
    for state, code in (("NODE_FAIL", ""), ("FAILED", "69:0"), ("FAILED", "137:0")):
        found = decide(Ending(state=state, exit_code=code, log=log))
        assert (found.again, found.exclude) == (True, {})
