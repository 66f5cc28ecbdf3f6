"""How a job ended, without squeue and accounting: exit code, SIGTERM, the marker of cancel, slurmstepd's line."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.runs import HISTORY, STATES, Run
from hpclaunch.runs.markers import mark_cancelled
from hpclaunch.schedulers import NEVER_BEGUN, UNPROVEN, Status
from hpclaunch.schedulers.slurm.markers import _NOT_YET_PROVEN, status_by_markers, with_proof
from tests.builders import a_run, leave_proof

LINE = "slurmstepd: error: *** {what} ON node1 CANCELLED AT {time}{cause} ***\n"
LATE, EARLY = "2026-11-21T19:28:38", "2026-11-21T05:00:00"
STEP_LINE = LINE.format(what="STEP 7.0", time=LATE, cause="")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = a_run(tmp_path, "7", state="RUNNING")
    (made.path / "spec.json").write_text(json.dumps({"walltime": 3600}))
    return made


def began(run: Run, restart: int = 0, code: int | None = None, term: int | None = None, at: str = LATE) -> None:
    folder = run.path / f"attempts/{run.job_id}.{restart}"
    folder.mkdir(parents=True)
    local = time.mktime(time.strptime(at, "%Y-%m-%dT%H:%M:%S"))
    (folder / "started").write_text(time.strftime("%Y-%m-%dT%H:%M:%SZ\n", time.gmtime(local)))
    if code == 0:
        leave_proof(run.path, folder.name)
    elif code is not None:
        (folder / "exit-code").write_text(f"{code}\n")
    if term is not None:
        (folder / "terminated").write_text(f"{term}\n")


def logged(run: Run, text: str) -> None:
    (run.path / "logs").mkdir(exist_ok=True)
    (run.path / f"logs/slurm-{run.job_id}.out").write_text(f"epoch 1\n{text}")


@pytest.mark.parametrize(
    ("code", "term", "cause", "state"),
    [
        (0, None, None, "COMPLETED"),
        (7, None, None, "FAILED"),
        (137, None, None, "FAILED"),
        (143, None, None, "FAILED"),
        (143, 30, None, "CANCELLED"),
        (143, 3598, None, "TIMEOUT"),
        (143, 3700, None, "TIMEOUT"),
        (0, 30, "", "CANCELLED"),
        (1, 30, "", "CANCELLED"),
        (143, None, "", "CANCELLED"),
        (143, 30, " DUE TO TIME LIMIT", "TIMEOUT"),
        (143, 30, " DUE TO PREEMPTION", "PREEMPTED"),
        (None, None, " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS", "NODE_FAIL"),
        (137, None, " DUE to SIGNAL Killed", "CANCELLED"),
        (143, None, " DUE TO JOB REQUEUE", "FAILED"),
        (None, 30, None, "CANCELLED"),
        (None, None, "", "CANCELLED"),
        (None, None, None, "UNKNOWN"),
        (7, None, "", "FAILED"),
    ],
)
def test_each_end_is_told_by_what_it_leaves(
    run: Run, code: int | None, term: int | None, cause: str | None, state: str
) -> None:
    began(run, code=code, term=term)
    logged(run, "" if cause is None else LINE.format(what="JOB 7", time=LATE, cause=cause))
    found = status_by_markers(run, "")
    assert (found.state, found.exit_code) == (state, "" if code is None else f"{code}:0")


@pytest.mark.parametrize("name", ["slurmstepd", "slurmstepd-node1", "slurmstepd-nid001234.local"])
def test_slurmstepd_may_add_the_name_of_its_node_to_its_own(run: Run, name: str) -> None:
    began(run, code=143, term=30)
    line = LINE.format(what="JOB 7", time=LATE, cause=" DUE TO PREEMPTION")
    logged(run, line.replace("slurmstepd", name))
    assert status_by_markers(run, "").state == "PREEMPTED"


@pytest.mark.parametrize("term", [None, 30])
def test_an_exit_code_of_0_alone_proves_no_success(run: Run, term: int | None) -> None:
    began(run, code=0, term=term)
    (run.path / "attempts/7.0/ranks").mkdir()
    (run.path / "attempts/7.0/completed").write_text("7.1 4\n")
    found = status_by_markers(run, "")
    state, reason = ("FAILED", UNPROVEN) if term is None else ("CANCELLED", "SIGTERM ended it before its walltime")
    assert (found.state, found.exit_code) == (state, "0:0")
    assert found.reason.startswith(reason)


def test_the_proof_counts_although_the_exit_code_is_missing(run: Run) -> None:
    began(run, code=0)
    (run.path / "attempts/7.0/exit-code").unlink()
    assert status_by_markers(run, "") == Status(state="COMPLETED", exit_code="0:0")


@pytest.mark.parametrize(
    ("has_ranks", "code", "state"),
    [(False, 0, "COMPLETED"), (True, 0, "FAILED"), (False, 1, "FAILED"), (False, None, "UNKNOWN")],
)
def test_the_empty_mark_of_an_older_hpclaunch_counts_beside_its_exit_code(
    run: Run, has_ranks: bool, code: int | None, state: str
) -> None:
    began(run, code=code)
    (run.path / "attempts/7.0/completed").write_text("")
    if has_ranks:
        (run.path / "attempts/7.0/ranks").mkdir()
    assert status_by_markers(run, "").state == state


def test_only_the_last_start_of_the_present_job_proves_that_a_run_is_complete(run: Run) -> None:
    began(run, code=0)
    began(run, restart=1, code=3)
    assert status_by_markers(run, "").state == "FAILED"
    leave_proof(run.path, "8.0")
    assert status_by_markers(run, "").state == "FAILED"
    assert status_by_markers(replace(run, job_id="8"), "").state == "COMPLETED"


@pytest.mark.parametrize(("code", "state"), [(143, "CANCELLED"), (None, "CANCELLED"), (0, "COMPLETED")])
def test_a_job_that_hpclaunch_cancelled_is_cancelled_unless_it_was_complete_before(
    run: Run, code: int | None, state: str
) -> None:
    began(run, code=code)
    mark_cancelled(run, "7")
    assert status_by_markers(run, "").state == state


def test_a_job_that_was_cancelled_while_it_waited_never_began(run: Run) -> None:
    waiting = replace(run, state="PENDING")
    assert status_by_markers(waiting, "").state == "UNKNOWN"
    mark_cancelled(waiting, "7")
    assert status_by_markers(waiting, "") == NEVER_BEGUN
    assert status_by_markers(waiting, "squeue: down").state == "UNKNOWN", "it may be ending still"
    again = replace(waiting, job_id="8", earlier=("7",))
    assert status_by_markers(again, "").state == "UNKNOWN", "the marker is of the job before"
    began(waiting, code=1)
    mark_cancelled(again, "8")
    assert status_by_markers(again, "") == NEVER_BEGUN, "the start is of the job before"


def test_the_marker_of_an_array_is_of_all_its_tasks(tmp_path: Path) -> None:
    array = a_run(tmp_path, "9")
    task = replace(array, path=array.path / "0002", index=2, job_id="9_2")
    mark_cancelled(array, "9")
    assert status_by_markers(task, "") == NEVER_BEGUN
    assert status_by_markers(replace(task, job_id="10_2"), "").state == "UNKNOWN"


def test_the_line_of_a_start_that_was_requeued_does_not_end_the_next_one(run: Run) -> None:
    began(run, at=EARLY)
    began(run, restart=1, code=143)
    logged(run, LINE.format(what="JOB 7", time="2026-11-21T06:00:00", cause=" DUE TO PREEMPTION"))
    assert status_by_markers(run, "").state == "FAILED"
    logged(run, LINE.format(what="JOB 7", time="2026-99-99T00:00:00", cause=" DUE TO TIME LIMIT"))
    assert status_by_markers(run, "").state == "FAILED", "of a damaged time it is not known to be later"
    logged(run, LINE.format(what="JOB 7", time="2026-11-21T20:00:00", cause=" DUE TO TIME LIMIT"))
    assert status_by_markers(run, "").state == "TIMEOUT"


def test_the_line_of_another_job_counts_for_nothing(run: Run) -> None:
    began(run, code=143)
    logged(run, LINE.format(what="JOB 70", time=LATE, cause="") + f"my program prints {STEP_LINE}")
    assert status_by_markers(run, "").state == "FAILED"
    logged(run, STEP_LINE)
    assert status_by_markers(run, "").state == "CANCELLED"


@pytest.mark.parametrize("cause", [" DUE TO PREEMPTION", " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"])
def test_while_squeue_is_silent_an_end_after_which_slurm_queues_again_is_not_believed(run: Run, cause: str) -> None:
    began(run, code=143, term=30)
    logged(run, LINE.format(what="JOB 7", time=LATE, cause=cause))
    assert status_by_markers(run, "squeue: down") == Status(state="UNKNOWN", reason="squeue: down")


@pytest.mark.parametrize(
    ("walltime", "term", "state"),
    [
        (3600, 3539, "CANCELLED"),
        (3600, 3540, "TIMEOUT"),
        (300, 269, "CANCELLED"),
        (300, 270, "TIMEOUT"),
        (0, 270, "CANCELLED"),
    ],
)
def test_only_a_sigterm_shortly_before_the_walltime_is_its_end(run: Run, walltime: int, term: int, state: str) -> None:
    """The last minute of a long job, and the last tenth of a short one."""
    (run.path / "spec.json").write_text(json.dumps({"walltime": walltime}))
    began(run, code=143, term=term)
    assert status_by_markers(run, "").state == state


def test_the_nodes_of_the_record_are_kept_and_a_start_that_was_cancelled_has_its_code(run: Run) -> None:
    known = replace(run, nodes="n[1-2]")
    mark_cancelled(known, "7")
    assert status_by_markers(known, "") == NEVER_BEGUN
    began(known, code=143)
    cancelled = Status(state="CANCELLED", exit_code="143:0", nodes="n[1-2]")
    assert status_by_markers(known, "") == status_by_markers(known, "squeue: down") == cancelled
    (run.path / "attempts/7.0/exit-code").unlink()
    assert status_by_markers(known, "") == Status(state="CANCELLED", nodes="n[1-2]")
    leave_proof(run.path, "7.0")
    assert status_by_markers(known, "") == Status(state="COMPLETED", exit_code="0:0", nodes="n[1-2]")


def test_without_any_mark_an_ended_run_stays_as_it_is(run: Run) -> None:
    for state, found in (("TIMEOUT", "TIMEOUT"), ("PENDING", "UNKNOWN")):
        status = status_by_markers(replace(run, state=state, nodes="n1"), "squeue: down")
        assert status == Status(state=found, reason="squeue: down", nodes="n1")


@pytest.mark.parametrize(
    ("code", "restarts", "state"),
    [
        (7, {"most": 3, "by": "requeue"}, "UNKNOWN"),
        (0, {"most": 3, "by": "requeue"}, "FAILED"),
        (7, {"most": 0, "by": "requeue"}, "FAILED"),
        (7, {"most": 3, "by": "resubmit"}, "FAILED"),
        (7, None, "FAILED"),
    ],
)
def test_while_squeue_is_silent_a_script_that_may_have_requeued_its_job_has_not_ended(
    run: Run, code: int, restarts: object, state: str
) -> None:
    (run.path / "spec.json").write_text(json.dumps({"restarts": restarts}))
    began(run, code=7)
    (run.path / "attempts/7.0/exit-code").write_text(f"{code}\n")
    assert status_by_markers(run, "squeue: down").state == state
    assert status_by_markers(run, "").state == "FAILED"


def test_the_line_of_the_same_second_as_a_start_is_its_own(run: Run) -> None:
    """slurmstepd's time and that of the script are whole seconds."""
    began(run, at=EARLY)
    began(run, restart=1, code=143, at=LATE)
    logged(run, LINE.format(what="JOB 7", time=LATE, cause=" DUE TO TIME LIMIT"))
    assert status_by_markers(run, "").state == "TIMEOUT"


def test_the_only_start_has_the_lines_of_its_log_whatever_its_clock_says(run: Run) -> None:
    began(run, code=143, at=LATE)
    logged(run, LINE.format(what="JOB 7", time=EARLY, cause=" DUE TO TIME LIMIT"))
    assert status_by_markers(run, "").state == "TIMEOUT"


def test_a_start_whose_time_is_damaged_has_the_last_line(run: Run) -> None:
    began(run)
    began(run, restart=1, code=143)
    (run.path / "attempts/7.1/started").write_text("then\n")
    logged(run, LINE.format(what="JOB 7", time=EARLY, cause=" DUE TO TIME LIMIT"))
    assert status_by_markers(run, "").state == "TIMEOUT"
    logged(run, LINE.format(what="JOB 7", time="2026-99-99T00:00:00", cause=" DUE TO TIME LIMIT"))
    assert status_by_markers(run, "").state == "TIMEOUT"


def test_the_last_line_of_a_log_counts(run: Run) -> None:
    began(run, code=143)
    first = LINE.format(what="JOB 7", time=EARLY, cause=" DUE TO PREEMPTION")
    logged(run, first + LINE.format(what="JOB 7", time=LATE, cause=" DUE TO TIME LIMIT"))
    assert status_by_markers(run, "").state == "TIMEOUT"


def test_a_line_in_the_log_of_a_task_has_another_number(tmp_path: Path) -> None:
    array = a_run(tmp_path, "9")
    task = replace(array, path=array.path / "0002", index=2, job_id="9_2")
    task.path.mkdir()
    began(task, code=143)
    logged(array, "")
    (array.path / "logs/slurm-9_2.out").write_text(LINE.format(what="JOB 4712", time=LATE, cause=" DUE TO TIME LIMIT"))
    assert status_by_markers(task, "").state == "TIMEOUT"


@pytest.mark.parametrize("index", [-1, 2])
def test_the_proof_may_be_two_minutes_late(tmp_path: Path, index: int) -> None:
    home = a_run(tmp_path, "9")
    run = home if index < 0 else replace(home, path=home.path / "0002", index=index, job_id="9_2")
    changed = home.path / (HISTORY if index < 0 else STATES)
    completed = Status(state="COMPLETED", exit_code="0:0", nodes="n1")
    late = replace(completed, state="COMPLETING", exit_code="", reason=_NOT_YET_PROVEN)
    for state, age, found in (
        ("RUNNING", 10**6, late),
        ("COMPLETING", 60, late),
        ("COMPLETING", 121, replace(completed, state="FAILED", reason=UNPROVEN)),
    ):
        changed.touch()
        os.utime(changed, (time.time() - age, time.time() - age))
        assert with_proof(replace(run, state=state), completed) == found
    changed.unlink()
    assert with_proof(replace(run, state="COMPLETING"), completed) == late
    running = Status(state="RUNNING")
    assert with_proof(run, running) == running


KILLS = {
    "18.08": "Detected 1 oom-kill event(s) in step {step} cgroup. Some of your processes may have been killed by the "
    "cgroup out-of-memory handler.",
    "20.11": "Detected 2 oom-kill event(s) in StepId={step} cgroup. Some of your processes may have been killed by "
    "the cgroup out-of-memory handler.",
    "22.05": "Detected 1 oom-kill event(s) in StepId={step}. Some of your processes may have been killed by the "
    "cgroup out-of-memory handler.",
    "25.11": "Detected 3 oom_kill events in StepId={step}. Some of the step tasks have been OOM Killed.",
}


def kill(version: str = "25.11", step: str = "7.0", program: str = "slurmstepd") -> str:
    return f"{program}: error: {KILLS[version].format(step=step)}\n"


@pytest.mark.parametrize("version", KILLS)
@pytest.mark.parametrize(("code", "exit_code"), [(0, "0:0"), (1, "1:0"), (137, "137:0"), (None, "")])
def test_a_process_that_got_too_much_memory_ends_the_run_so(
    run: Run, version: str, code: int | None, exit_code: str
) -> None:
    began(run, code=code)
    logged(run, kill(version))
    told = status_by_markers(run, silence="")
    assert (told.state, told.exit_code) == ("OUT_OF_MEMORY", exit_code)
    assert told.reason == KILLS[version].format(step="7.0").partition(".0")[0] + ".0"


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("srun: error: g1: task 0: Out Of Memory", 1, "g1: task 0: Out Of Memory"),
        ("srun: error: g[1-2]: tasks 0-3,5: Out Of Memory", 0, "g[1-2]: tasks 0-3,5: Out Of Memory"),
        (
            "slurmstepd: error: StepId=7.0 exceeded memory limit (31 > 20), being killed",
            143,
            "StepId=7.0 exceeded memory limit (31 > 20)",
        ),
        (
            "slurmstepd: error: Job 7 exceeded memory limit (31 > 20), being killed",
            None,
            "Job 7 exceeded memory limit (31 > 20)",
        ),
        (
            "slurmstepd: error: Exceeded step memory limit at some point.",
            137,
            "Exceeded step memory limit at some point",
        ),
        ("slurmstepd: error: Exceeded step memory limit at some point.", 1, ""),
        ("slurmstepd: error: Exceeded job memory limit at some point.", 0, ""),
        ("slurmstepd: error: Job 8 exceeded memory limit (31 > 20), being killed", 1, ""),
        ("srun: error: g1: task 0: Killed", 137, ""),
        ("rank 0: srun: error: g1: task 0: Out Of Memory", 1, ""),
    ],
)
def test_each_program_of_slurm_says_in_its_own_words_that_memory_ran_out(
    run: Run, line: str, code: int | None, words: str
) -> None:
    # SchedMD's jobacct_gather.c and launch of srun; aiida's and galaxy's issues on jobs that were killed for memory
    began(run, code=code)
    logged(run, f"{line}\n")
    told = status_by_markers(run, silence="")
    assert (told.state == "OUT_OF_MEMORY", told.reason if words else "") == (bool(words), words)


@pytest.mark.parametrize(
    ("text", "code", "state"),
    [
        (kill(step="8.0"), 1, "FAILED"),  # another job's
        (kill(step="7.batch"), 1, "OUT_OF_MEMORY"),
        (kill(step="7.extern", program="slurmstepd-node1"), 137, "OUT_OF_MEMORY"),
        (kill() + STEP_LINE, 137, "OUT_OF_MEMORY"),  # srun ends the other ranks
        (kill() + LINE.format(what="JOB 7", time=LATE, cause=" DUE TO TIME LIMIT"), 137, "TIMEOUT"),
        (kill().replace("slurmstepd: ", "rank 3: "), 1, "FAILED"),
        ("RuntimeError: CUDA out of memory\n", 1, "FAILED"),
        ("", 0, "COMPLETED"),
    ],
)
def test_only_slurmstepds_own_line_about_this_job_tells_of_its_memory(
    run: Run, text: str, code: int, state: str
) -> None:
    began(run, code=code)
    logged(run, text)
    assert status_by_markers(run, silence="").state == state


def test_a_memory_kill_of_an_earlier_start_or_of_a_job_that_may_run_tells_nothing(run: Run) -> None:
    logged(run, kill())
    began(run, restart=0, code=75)
    began(run, restart=1, code=1)
    assert status_by_markers(run, silence="").state == "FAILED"
    (run.path.parent / "other").mkdir()
    again = a_run(run.path.parent / "other", "7", state="RUNNING")
    began(again)
    logged(again, kill())
    assert status_by_markers(again, silence="squeue: no answer").state == "UNKNOWN"
    mark_cancelled(again, "7")
    assert status_by_markers(again, silence="").state == "CANCELLED"
