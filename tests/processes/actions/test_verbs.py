"""What verbs write into records and hand to the scheduler: fields that a further start needs, and refusals."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpclaunch import runs
from hpclaunch.actions.continuing.resume import Changes, resume
from hpclaunch.actions.following.adopt import adopt
from hpclaunch.actions.following.cancel import all_cancellable, cancel, cancellable, forget, has_a_job
from hpclaunch.actions.following.clean import explain_kept
from hpclaunch.actions.following.identity import other_users
from hpclaunch.actions.following.repair import repair, wanted_reason, wanted_state
from hpclaunch.actions.queueing.hand_over import hand_over
from hpclaunch.actions.queueing.retry import ending_of, for_another_start, retry
from hpclaunch.actions.queueing.retry import script_of as script_to_submit
from hpclaunch.actions.queueing.wait import exit_code_of, wait
from hpclaunch.actions.system import System
from hpclaunch.core.errors import (
    HpclaunchError,
    Interrupted,
    InvalidRequest,
    NotRecorded,
    Refused,
    SchedulerError,
    Unanswered,
)
from hpclaunch.core.job_script import read_job_script
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.runs import Run, leases
from hpclaunch.runs.ended import EndedRuns
from hpclaunch.schedulers import QueuedJob
from tests.builders import leave_proof, partition_line
from tests.processes.actions.conftest import FakeSlurm

SAME = Changes()


def began(run: Run, start: str, **marks: str) -> None:
    folder = run.path / "attempts" / start
    folder.mkdir(parents=True)
    for name, text in {"started": "", **marks}.items():
        (folder / name.replace("_", "-")).write_text(text)


def spec(run: Run, **values: object) -> None:
    (run.path / "spec.json").write_text(json.dumps({"run_dir": str(run.path), "walltime": 3600, **values}))


def submitted(slurm: FakeSlurm) -> str:
    """The script that sbatch got."""
    return (slurm.folder / "script").read_text()


@pytest.fixture
def keeping(slurm: FakeSlurm) -> FakeSlurm:
    """A Slurm whose sbatch keeps the script, and answers with job 99."""
    slurm.put("sbatch", f'for last; do :; done; cat "$last" > {slurm.folder}/script\necho Submitted batch job 99\n')
    return slurm


# --- hand_over


def test_a_submission_replaces_all_that_the_record_said_of_the_job_before(keeping: FakeSlurm) -> None:
    run = keeping.run("7", "FAILED", exit_code="7:0", reason="x", nodes="n1", repaired="2026-01-02T03:04:05Z")
    run = runs.change(run, printed="old", held={"nodes": "1"}, differs="x", allocation="4", cluster="y", controller="z")
    (run.path / "attempts").mkdir()
    found = hand_over(run, "#!/bin/sh\n", 60, earlier=("7",))
    assert found == runs.load(run.path)
    assert (found.state, found.job_id, found.earlier, found.submission) == ("PENDING", "99", ("7",), "hpclaunch")
    assert (found.exit_code, found.reason, found.nodes, found.repaired, found.allocation) == ("", "", "", "", "")
    assert (found.printed, found.held, found.differs) == ("", {}, "")
    assert (found.host, found.cluster, found.controller) == (os.uname().nodename, "lab", "ctl")
    assert found.submitted > "2026-01-02T03:04:06Z"
    assert (run.path / "logs").is_dir()
    lease = leases.newest(run.path)
    assert lease and lease.outcome == "99"
    assert runs.holder_of(run.path) == "99", "no other start takes the directory before the job"


def test_what_sbatch_printed_is_recorded_although_another_process_found_the_job_first(slurm: FakeSlurm) -> None:
    run = slurm.run("7", "FAILED")
    slurm.put("sbatch", "echo Welcome; echo Submitted batch job 99\n")
    other = f"from pathlib import Path as P; from hpclaunch import runs; run = runs.load(P({str(run.path)!r}))"
    other += '; runs.change(run, job_id="99", state="RUNNING", nodes="n1")'
    (slurm.folder / "other.py").write_text(other)
    line = f"99|2|1:00|acc|high|long|{run.path}"
    slurm.put("squeue", f"case \"$*\" in *'|%Z') {sys.executable} other.py; echo '{line}' ;; esac\n")
    hand_over(run, "#!/bin/sh\n", 60, earlier=("7",))
    found = runs.load(run.path)
    assert (found.job_id, found.state, found.nodes) == ("99", "RUNNING", "n1"), "nothing of the other's is lost"
    assert (found.printed, found.held["nodes"], found.held["partition"]) == ("Welcome", "2", "long")


def test_a_job_that_status_has_found_on_another_cluster_is_recorded_there(slurm: FakeSlurm) -> None:
    run = slurm.run("7", "FAILED")
    other = f"from pathlib import Path as P; from hpclaunch import runs; run = runs.load(P({str(run.path)!r}))"
    other += '; runs.change(run, job_id="99", state="PENDING", cluster="beta", via="lab", controller="")'
    (slurm.folder / "other.py").write_text(other)
    settle = f"echo 99 > {run.path}/submissions/1.ended; {sys.executable} other.py"
    slurm.put("sbatch", f"{settle}; echo 'sbatch: error: x' >&2; exit 1\n")
    found = hand_over(run, "#!/bin/sh\n", 60, earlier=("7",))
    assert found == runs.load(run.path)
    assert (found.job_id, found.cluster, found.via, found.controller) == ("99", "beta", "lab", "")


def test_a_claim_of_an_ended_job_is_freed_and_the_new_job_holds_the_directory(keeping: FakeSlurm) -> None:
    run = keeping.run("7", "FAILED")
    runs.reserve(run, "7")
    hand_over(run, "#!/bin/sh\n", 60, earlier=("7",))
    assert [(run.path / f"claims/{number}").read_text() for number in (1, 2, 3)] == ["7.0\n", "free\n", "99.0\n"]


def test_the_record_says_submitting_before_sbatch_is_called_and_after_write(slurm: FakeSlurm) -> None:
    run = slurm.run("7", "FAILED")
    seen: list[str] = []
    slurm.put("sbatch", f"cp {run.path}/run.json {slurm.folder}/seen\necho Submitted batch job 99\n")
    hand_over(run, "#!/bin/sh\n", 60, write=lambda: seen.append(runs.load(run.path).state), earlier=("7",))
    record = json.loads((slurm.folder / "seen").read_text())
    assert (seen, record["state"], record["job_id"], record["earlier"]) == (["FAILED"], "SUBMITTING", "", ["7"])


def test_what_cannot_be_written_leaves_the_lease_to_the_next(slurm: FakeSlurm) -> None:
    run = slurm.run("7", "FAILED")

    def fail() -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(HpclaunchError, match="No space left"):
        hand_over(run, "#!/bin/sh\n", 60, write=fail)
    lease = leases.newest(run.path)
    assert lease and lease.outcome == leases.NOT_SUBMITTED
    assert runs.load(run.path) == run
    assert not slurm.calls("sbatch")


def test_where_no_lease_can_be_taken_nothing_is_submitted(slurm: FakeSlurm) -> None:
    run = slurm.run("7", "FAILED")
    (run.path / leases.FOLDER).write_text("a file in the place of the folder")
    with pytest.raises(HpclaunchError) as caught:
        hand_over(run, "#!/bin/sh\n", 60)
    assert caught.value.faults[0].where == str(run.path)
    assert runs.load(run.path) == run and not slurm.calls("sbatch")


def test_a_run_that_is_started_again_leaves_the_index_of_ended_runs(keeping: FakeSlurm) -> None:
    ended, open_run = keeping.run("7", "FAILED"), keeping.run("8", "FAILED")
    stamps = {run.path: (runs.stamp_of(run.path) or [], run, dict[str, Any]()) for run in (ended, open_run)}
    runs.keep_ended(keeping.state, stamps, [])
    hand_over(ended, "#!/bin/sh\n", 60, earlier=("7",))
    known = EndedRuns(keeping.state)
    assert (ended.path in known, open_run.path in known) == (False, True)


def test_a_run_that_changed_meanwhile_is_not_submitted(slurm: FakeSlurm) -> None:
    run = slurm.run("7", "FAILED")
    runs.change(run, state="CANCELLED")
    with pytest.raises(Refused, match="is being submitted by another process"):
        hand_over(run, "#!/bin/sh\n", 60)
    lease = leases.newest(run.path)
    assert lease and lease.outcome == leases.NOT_SUBMITTED
    assert not slurm.calls("sbatch")


@pytest.mark.parametrize(
    ("tasks", "is_ours", "again"), [(2, True, True), (2, False, False), (0, True, False), (0, False, False)]
)
def test_only_an_array_goes_on_after_its_state_has_changed_and_only_where_its_last_part_was_submitted(
    slurm: FakeSlurm, tasks: int, is_ours: bool, again: bool
) -> None:
    """Its first part may run before the next one is submitted; another process may not come between them."""
    run = slurm.run("", "RENDERED", tasks=tasks)
    first = hand_over(run, "#!/bin/sh\n", 60)
    if not is_ours:
        (run.path / "submissions/1").write_text("elsewhere x x 1 1 1.0 x\n")
    runs.change(first, state="RUNNING")
    slurm.put("sbatch", "echo Submitted batch job 100\n")
    if again:
        assert hand_over(first, "#!/bin/sh\n", 60, earlier=("99",)).job_id == "100"
        return
    with pytest.raises(Refused, match="is being submitted by another process"):
        hand_over(first, "#!/bin/sh\n", 60, earlier=("99",))
    assert len(slurm.calls("sbatch")) == 1 and runs.load(run.path).state == "RUNNING"


def test_a_refusal_is_recorded_in_slurms_words(slurm: FakeSlurm) -> None:
    slurm.put("sbatch", "echo 'sbatch: error: no such   partition' >&2; exit 1\n")
    run = slurm.run("7", "FAILED", earlier=("6",))
    with pytest.raises(SchedulerError, match="no such partition"):
        hand_over(run, f"#!/bin/sh\n#SBATCH --chdir={run.path}\n", 60, earlier=("6", "7"))
    found = runs.load(run.path)
    assert (found.state, found.reason, found.job_id) == ("NOT_SUBMITTED", "sbatch: no such partition", "")
    assert found.earlier == ("6", "7")
    lease = leases.newest(run.path)
    assert lease and lease.outcome == leases.NOT_SUBMITTED


def test_a_job_that_another_process_found_meanwhile_counts_although_sbatch_refused(slurm: FakeSlurm) -> None:
    run = slurm.run("7", "FAILED")
    slurm.put("sbatch", f"echo 12 > {run.path}/submissions/1.ended; echo 'sbatch: error: no' >&2; exit 1\n")
    found = hand_over(run, f"#!/bin/sh\n#SBATCH --chdir={run.path}\n", 60, earlier=("7",))
    assert (found.job_id, found.state) == ("12", "PENDING")


def test_the_number_of_an_earlier_start_is_cancelled_and_the_script_submitted_again(slurm: FakeSlurm) -> None:
    run = slurm.run("9", "FAILED", earlier=("7", "8"))
    count = f"n=$(grep -c '^sbatch' {slurm.folder}/calls)"
    slurm.put("sbatch", f"{count}; [ $n = 1 ] && echo Submitted batch job 7 || echo Submitted batch job 10\n")
    for job in ("7", "10"):
        slurm.queue(run, "PENDING", job_id=job)
    found = hand_over(run, "#!/bin/sh\n", 60, earlier=("7", "8", "9"))
    assert (found.job_id, slurm.calls("scancel")) == ("10", ["scancel 7"])
    slurm.put("sbatch", "echo Submitted batch job 8\n")
    with pytest.raises(SchedulerError, match="gives run-9 the number of an earlier start, 8, again and again"):
        hand_over(runs.change(found, state="FAILED"), "#!/bin/sh\n", 60, earlier=("7", "8", "9", "10"))
    assert len(slurm.calls("sbatch")) == 2 + 5


def test_the_options_of_a_start_are_sbatchs_at_each_try(slurm: FakeSlurm) -> None:
    run = slurm.run("9", "FAILED", earlier=("7",))
    count = f"n=$(grep -c '^sbatch' {slurm.folder}/calls)"
    slurm.put("sbatch", f"{count}; [ $n = 1 ] && echo Submitted batch job 7 || echo Submitted batch job 10\n")
    slurm.queue(run, "PENDING", job_id="7")
    assert hand_over(run, "#!/bin/sh\n", 60, options=("--exclude=n1",), earlier=("7", "9")).job_id == "10"
    calls = slurm.calls("sbatch")
    assert len(calls) == 2 and all(" --exclude=n1 " in call for call in calls)


# --- retry and resume


def test_a_run_is_started_again_without_the_nodes_of_this_and_earlier_failures(keeping: FakeSlurm) -> None:
    run = keeping.run("7", "NODE_FAIL", nodes="n[1-3]", excluded="n9", excluded_because="n9: old", earlier=("6",))
    spec(run)
    began(run, "7.0")
    (run.path / "logs").mkdir()
    (run.path / "logs/slurm-7.out").write_text("srun: error: Node failure on n2\n")
    told: list[str] = []
    found = retry(run, told.append)
    because = "n9: old; n2: in the log: srun: error: Node failure on n2"
    assert (found.excluded, found.excluded_because, found.earlier) == ("n9,n2", because, ("6", "7"))
    assert "#SBATCH --exclude=n9,n2\n" in submitted(keeping)
    words = "a node failed; starting it again without n9,n2 (n2: in the log: srun: error: Node failure on n2)"
    assert told == [f"run-7: {words}"]


def test_the_nodes_that_were_typed_are_avoided_too_and_a_required_node_cannot_be(keeping: FakeSlurm) -> None:
    run = keeping.run("7", "NODE_FAIL", nodes="n1,n2")
    spec(run, directives=[["exclude", "n8"], ["nodelist", "n1"]])
    run.script.write_text("#!/bin/bash\n#SBATCH --exclude=n8\n#SBATCH --nodelist=n1\n")
    began(run, "7.0")
    (run.path / "logs").mkdir()
    (run.path / "logs/slurm-7.out").write_text("srun: error: Node failure on n[1-2]\n")
    told: list[str] = []
    assert retry(run, told.append).excluded == "n8,n2"
    assert told[0].endswith("; n1 cannot be avoided: --nodelist names it")


@pytest.mark.parametrize(
    ("state", "code", "words", "step"),
    [
        ("COMPLETED", "0:0", "it completed", "hpclaunch results run-7"),
        ("RUNNING", "", "it has not ended", "hpclaunch wait run-7, or hpclaunch cancel run-7"),
        (
            "FAILED",
            "7:0",
            "it failed with exit code 7",
            "correct the program, then hpclaunch submit; or hpclaunch resume",
        ),
        ("OUT_OF_MEMORY", "137:0", "it ran out of memory", "hpclaunch resume run-7 with more --memory or fewer"),
        ("TIMEOUT", "0:0", "it reached its walltime", "hpclaunch resume run-7, which continues from its checkpoints"),
    ],
)
def test_a_failure_of_the_program_is_not_started_again(
    slurm: FakeSlurm, state: str, code: str, words: str, step: str
) -> None:
    run = slurm.run("7", state, exit_code=code)
    with pytest.raises(Refused) as caught:
        retry(run, print)
    (fault,) = caught.value.faults
    assert words in fault.what and (fault.next or "").startswith(step)
    assert not slurm.calls("sbatch") and runs.load(run.path) == run


def test_a_run_inside_an_allocation_has_no_job_that_could_be_repeated(slurm: FakeSlurm) -> None:
    with pytest.raises(Refused, match="it ran inside the allocation 4"):
        retry(slurm.run("by-hand-7", "NODE_FAIL", allocation="4"), print)


def test_the_end_of_a_run_as_a_new_start_is_decided_on(slurm: FakeSlurm) -> None:
    run = slurm.run("7", "FAILED", exit_code="7:0", nodes="n[1-2]")
    spec(run, layout={"nodes": 2, "tasks_per_node": 4}, launch=["srun"])
    asked: list[tuple[str, object]] = []

    def unwell(nodes: str, since: float | None) -> dict[str, str]:
        asked.append((nodes, since))
        return {"n1": "down"}

    found = ending_of(run, unwell)
    assert (found.ranks_failed, found.nodes, found.tasks_per_node, found.unwell) == (
        False,
        ("n1", "n2"),
        4,
        {"n1": "down"},
    )
    assert asked == [("n[1-2]", None)]
    began(run, "7.0")
    os.utime(run.path / "attempts/7.0/started", (5, 5))
    (run.path / "attempts/7.0/first-failure").touch()
    assert ending_of(run, unwell).ranks_failed and asked[-1] == ("n[1-2]", 5.0)
    began(run, "7.1")
    assert not ending_of(run, unwell).ranks_failed, "that was the start before"
    for state in ("TIMEOUT", "COMPLETED", "PREEMPTED"):
        assert ending_of(replace(run, state=state), unwell).unwell == {}
    assert len(asked) == 3
    for words in (["srun", "-m", "cyclic"], ["srun", "--distribution=cyclic"]):
        spec(run, layout={"nodes": 2, "tasks_per_node": 4}, launch=words)
        assert ending_of(run, unwell).tasks_per_node == 0
    spec(run, layout={"nodes": 2, "tasks_per_node": 4}, directives=[["distribution", "cyclic"]])
    assert ending_of(run, unwell).tasks_per_node == 0


def test_a_resumed_run_keeps_the_nodes_to_avoid_and_counts_its_restarts_anew(keeping: FakeSlurm) -> None:
    run = keeping.run("7", "TIMEOUT", exit_code="0:0", excluded="n9", earlier=("6",))
    spec(run, after=["5"])
    run.script.write_text("#!/bin/bash\n#SBATCH --dependency=afterok:5\n")
    os.utime(run.script, (5, 5))
    found, warnings = resume(System(), run, SAME)
    assert (found.job_id, found.earlier, found.excluded, warnings) == ("99", ("6", "7"), "n9", [])
    assert "#SBATCH --exclude=n9\n" in submitted(keeping) and "dependency" not in submitted(keeping)
    assert run.script.stat().st_mtime > 5


@pytest.mark.parametrize(
    ("job_id", "earlier", "waits"), [("7", (), False), ("7", ("6",), False), ("", ("6",), False), ("", (), True)]
)
def test_only_a_run_that_no_start_was_queued_of_waits_again(
    slurm: FakeSlurm, job_id: str, earlier: tuple[str, ...], waits: bool
) -> None:
    run = slurm.run(job_id, "FAILED", earlier=earlier)
    text = "#!/bin/bash\n#SBATCH --dependency=afterok:5\ntrue\n"
    script = read_job_script(text, scheduler_row("slurm"))
    assert ("afterok:5" in for_another_start(run, script, "n1").text) is True, "nothing is known to wait for"
    spec(run, after=["5"])
    found = for_another_start(run, script, "n1").text
    assert ("afterok:5" in found) is waits and "--exclude=n1" in found


def test_a_run_that_was_never_queued_still_waits_for_others(keeping: FakeSlurm) -> None:
    run = keeping.run("", "NOT_SUBMITTED")
    spec(run, after=["5"])
    run.script.write_text("#!/bin/bash\n#SBATCH --dependency=afterok:5\n")
    found, _ = resume(System(), run, SAME)
    assert found.earlier == ()
    assert "#SBATCH --dependency=afterok:5\n" in submitted(keeping)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("COMPLETED", "run-7 has completed: there is nothing to resume"),
        ("RENDERED", "run-7 was rendered but not submitted"),
        ("RUNNING", "run-7 has not ended: its last known state is RUNNING"),
        ("UNKNOWN", "run-7 has not ended: its last known state is UNKNOWN"),
    ],
)
def test_only_a_run_that_ended_and_did_not_complete_is_resumed(slurm: FakeSlurm, state: str, words: str) -> None:
    run = slurm.run("7", state)
    with pytest.raises(Refused, match=words):
        resume(System(), run, SAME)
    assert not slurm.calls("sbatch")


def test_a_script_of_another_directory_or_without_a_text_is_not_started_again(slurm: FakeSlurm) -> None:
    run = slurm.run("7", "TIMEOUT")
    spec(run, run_dir="/elsewhere")
    with pytest.raises(Refused, match="was moved or copied from /elsewhere"):
        resume(System(), run, SAME)
    spec(run)
    run.script.write_text("")
    with pytest.raises(Refused, match="cannot be read: it is empty"):
        resume(System(), run, SAME)
    run.script.unlink()
    with pytest.raises(Refused, match="cannot be read: No such file"):
        resume(System(), run, SAME)


def test_nodes_that_were_typed_do_not_replace_those_of_failures_before(keeping: FakeSlurm) -> None:
    run = keeping.run("7", "NODE_FAIL", nodes="n[1-3]", excluded="n8,n2", excluded_because="n2: old")
    spec(run, directives=[["exclude", "n8"]])
    run.script.write_text("#!/bin/bash\n#SBATCH --exclude=n8\n")
    began(run, "7.0")
    (run.path / "logs").mkdir()
    (run.path / "logs/slurm-7.out").write_text("srun: error: Node failure on n3\n")
    assert retry(run, lambda words: None).excluded == "n8,n2,n3"
    assert "#SBATCH --exclude=n8,n2,n3\n" in submitted(keeping)


def test_a_node_that_is_avoided_already_gets_no_second_reason(keeping: FakeSlurm) -> None:
    """The scheduler may give it all the same, as with a node list that changed meanwhile."""
    run = keeping.run("7", "NODE_FAIL", nodes="n[1-3]", excluded="n[1-2]", excluded_because="n1: old")
    spec(run)
    began(run, "7.0")
    (run.path / "logs").mkdir()
    (run.path / "logs/slurm-7.out").write_text("srun: error: Node failure on n[2-3]\n")
    found = retry(run, lambda words: None)
    because = "n1: old; n3: in the log: srun: error: Node failure on n[2-3]"
    assert (found.excluded, found.excluded_because) == ("n[1-2],n3", because)


@pytest.mark.parametrize(
    ("walltime", "partitions", "longest"),
    [
        (3600, {"partition": "long"}, None),
        (3600, {"partition": "hour"}, None),
        (3601, {"partition": "hour"}, "01:00:00"),
        (3601, {"partition": "free"}, None),
        (3601, {"partition": "gone"}, None),
        (3601, {"partition": "long,hour"}, None),
        (3601, {"partition": "long", "further": [{"partition": "hour"}]}, "01:00:00"),
        (3601, {}, "01:00:00"),
        (0, {"partition": "hour"}, None),
        ("1:00:01", {"partition": "hour"}, None),
    ],
)
def test_a_script_that_asks_for_more_time_than_a_job_gets_now_is_not_queued_for_ever(
    keeping: FakeSlurm, walltime: object, partitions: dict[str, Any], longest: str | None
) -> None:
    times = {"hour": "01:00:00", "long": "2-00:00:00", "free": "UNLIMITED"}
    lines = "\n".join(
        partition_line(name, longest=time, default="YES" if name == "hour" else "NO") for name, time in times.items()
    )
    (keeping.folder / "partitions").write_text(f"{lines}\n")
    keeping.put("scontrol", 'case "$*" in *partition*) cat partitions ;; *config*) echo "ClusterName = lab" ;; esac\n')
    run = keeping.run("7", "TIMEOUT")
    spec(run, **partitions, walltime=walltime)
    if longest is None:
        assert resume(System(), run, SAME)[0].job_id == "99"
        return
    for one, step in (
        (run, "hpclaunch resume run-7 --walltime"),
        (replace(run, tasks=2), "hpclaunch submit --walltime"),
    ):
        with pytest.raises(Refused) as caught:
            script_to_submit(one)
        (fault,) = caught.value.faults
        assert fault.what == f"its script asks for 01:00:01, but Slurm allows {longest} per job now"
        assert (fault.where, fault.next) == (str(run.script), f"{step} {longest}")


@pytest.mark.parametrize(
    ("array", "layout", "step"),
    [
        (False, {"nodes": 1, "tasks_per_node": 1}, "hpclaunch resume run-7 --nodes N writes it again; or "),
        (False, {"nodes": 1, "further": [{"nodes": 1}]}, "hpclaunch resume run-7 --walltime T writes it again; or "),
        (True, {"nodes": 1, "tasks_per_node": 1}, ""),
    ],
)
def test_what_to_do_with_the_script_of_a_directory_that_was_moved(
    slurm: FakeSlurm, array: bool, layout: dict[str, Any], step: str
) -> None:
    run = slurm.run("7", "TIMEOUT", tasks=2 if array else 0)
    spec(run, run_dir="/elsewhere", layout=layout)
    for one in [run, runs.task_of(run, 0)] if array else [run]:
        with pytest.raises(
            Refused, match="was moved or copied from /elsewhere, which its script still names"
        ) as caught:
            script_to_submit(one)
        (fault,) = caught.value.faults
        assert fault.next == f"{step}a new run of its code: hpclaunch submit {run.path}/code"


def test_a_directory_by_another_name_is_the_one_where_it_was_made(slurm: FakeSlurm, tmp_path: Path) -> None:
    run = slurm.run("7", "TIMEOUT")
    (tmp_path / "other-mount").symlink_to(run.path)
    for made_in in (str(tmp_path / "other-mount"), None, 7):
        spec(run, run_dir=made_in)
        assert script_to_submit(run).text == run.script.read_text()


# --- repair


def test_a_repaired_end_says_who_why_and_what_it_was(slurm: FakeSlurm) -> None:
    run = slurm.run("7", "COMPLETED", exit_code="0:0")
    began(run, "7.0")
    found = repair(run, "FAILED", "the weights are wrong")
    assert (found.state, found.exit_code, bool(found.repaired)) == ("FAILED", "", True)
    assert found == runs.load(run.path)
    assert found.reason.startswith("the weights are wrong (repaired by ")
    assert f", uid {os.getuid()}, on {found.repaired}; it was COMPLETED 0:0)" in found.reason
    again = repair(found, "COMPLETED", "they are right")
    assert (again.state, again.exit_code) == ("COMPLETED", "0:0")
    other = repair(slurm.run("8", "FAILED", exit_code="7:0"), "CANCELLED", "x")
    assert other.exit_code == "7:0"
    assert "; it was FAILED 7:0)" in other.reason
    assert not slurm.calls()


def test_a_repaired_run_leaves_the_index_of_ended_runs(slurm: FakeSlurm) -> None:
    run, other = slurm.run("7", "FAILED"), slurm.run("8", "FAILED")
    stamps = {one.path: (runs.stamp_of(one.path) or [], one, dict[str, Any]()) for one in (run, other)}
    runs.keep_ended(slurm.state, stamps, [])
    repair(run, "CANCELLED", "x")
    known = EndedRuns(slurm.state)
    assert (run.path in known, other.path in known) == (False, True)


@pytest.mark.parametrize(
    ("state", "what", "next_step"),
    [
        ("RENDERED", "run-7 is RENDERED and is kept", "check that it was not submitted by hand, then: rm -r {path}"),
        ("UNKNOWN", "run-7 is UNKNOWN and is kept", "it may still be running; to ask the scheduler again: "),
        ("SUBMITTING", "run-7 is SUBMITTING and is kept", "to see whether it was queued: hpclaunch status run-7"),
        ("INCOMPLETE", "run-7 is INCOMPLETE and is kept", "a submission may still be writing it; try again in an hour"),
        ("RUNNING", "run-7 is RUNNING and is kept", "hpclaunch cancel run-7"),
    ],
)
def test_a_directory_that_clean_keeps_says_why_and_what_to_do(
    slurm: FakeSlurm, state: str, what: str, next_step: str
) -> None:
    run = slurm.run("7", state)
    fault = explain_kept(run)
    assert fault.what == what and fault.next.startswith(next_step.format(path=run.path))


def test_clean_keeps_one_run_of_an_array_and_what_is_not_known_as_the_users(slurm: FakeSlurm) -> None:
    array = slurm.run("7", "COMPLETED", tasks=2)
    for index in (0, 1):
        fault = explain_kept(runs.task_of(array, index))
        assert (fault.what, fault.next) == (
            f"run-7/{index:04d} is one run of the job array run-7, which can only be deleted completely",
            "hpclaunch runs clean run-7",
        )
    ended = slurm.run("8", "COMPLETED", listed=False, uid=str(os.getuid()))
    assert explain_kept(ended).what == "run-8 is not known as a run of yours"


def test_what_cannot_be_repaired_is_refused(slurm: FakeSlurm) -> None:
    for run, state, words in (
        (slurm.run("1", "FAILED"), "FAILED", "run-1 is FAILED already"),
        (slurm.run("2", "FAILED"), "COMPLETED", "no start of its script has left a mark"),
        (slurm.run("", "NOT_SUBMITTED"), "FAILED", "it was never queued"),
        (slurm.run("3", "RUNNING"), "FAILED", "run-3 has not ended: it is RUNNING"),
        (slurm.run("4", "UNKNOWN"), "FAILED", "run-4 has not ended: it is UNKNOWN"),
        (slurm.run("5", "RENDERED"), "FAILED", "run-5 was rendered but not submitted"),
        (slurm.run("6", "FAILED", uid="4711"), "CANCELLED", "belongs to the user with uid 4711"),
        (slurm.run("7", "FAILED", tasks=3), "CANCELLED", "whose state follows from those of its runs"),
    ):
        with pytest.raises(Refused, match=words):
            repair(run, state, "x")
        assert runs.load(run.path) == run
    seen = slurm.run("8", "FAILED")
    runs.change(seen, state="CANCELLED")
    with pytest.raises(Refused, match="was changed by another process at this moment"):
        repair(seen, "TIMEOUT", "x")
    assert runs.load(seen.path).state == "CANCELLED"


def test_the_state_and_the_reason_of_a_repair_are_checked(slurm: FakeSlurm) -> None:
    assert (wanted_state(" failed "), wanted_reason(" x ")) == ("FAILED", "x")
    assert wanted_reason("r" * 500) == "r" * 500
    for state in ("RUNNING", "NOT_SUBMITTED", "FORGOTTEN", ""):
        with pytest.raises(InvalidRequest, match="a run cannot be given the state"):
            wanted_state(state)
    for reason in ("", "  ", "r" * 501, "a\nb", "a\x1b[1m"):
        with pytest.raises(InvalidRequest):
            wanted_reason(reason)


def test_a_repair_that_cannot_be_written_is_said(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    run = slurm.run("7", "FAILED")

    def fail(old: str, new: str, **more: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(HpclaunchError, match="No space left on device") as caught:
        repair(run, "CANCELLED", "x")
    assert caught.value.faults[0].where == str(run.path)
    assert runs.load(run.path) == run


@pytest.mark.parametrize(
    ("state", "job_id", "attempts", "wanted", "is_allowed"),
    [
        ("FAILED", "7", True, "COMPLETED", True),
        ("FAILED", "7", False, "COMPLETED", False),
        ("FAILED", "7", False, "TIMEOUT", True),
        ("COMPLETED", "7", False, "FAILED", True),
        ("FORGOTTEN", "7", True, "COMPLETED", True),
        ("NOT_SUBMITTED", "", True, "COMPLETED", False),
        ("COMPLETED", "7", True, "COMPLETED", False),
    ],
)
def test_which_end_a_run_can_be_given(
    slurm: FakeSlurm, state: str, job_id: str, attempts: bool, wanted: str, is_allowed: bool
) -> None:
    run = slurm.run(job_id, state)
    if attempts:
        began(run, "7.0")
    if not is_allowed:
        with pytest.raises(Refused):
            repair(run, wanted, "x")
        assert runs.load(run.path) == run
        return
    assert repair(run, wanted, "x").state == wanted
    (end,) = [line for line in run.history() if line.get("repaired")]
    assert end["state"] == wanted


# --- cancel and forget


def test_only_the_jobs_that_slurm_lists_as_the_runs_are_cancelled(slurm: FakeSlurm) -> None:
    one, two, ended = slurm.run("7"), slurm.run("8"), slurm.run("9", "FAILED")
    slurm.queue(one, "RUNNING")
    slurm.account(one, "CANCELLED by 0")
    with pytest.raises(Refused, match="nothing was cancelled for run-8: Slurm lists no job of this run"):
        cancel([one, two, ended])
    assert slurm.calls("scancel") == ["scancel 7"]
    assert (one.path / "cancelled/7").exists() and not (two.path / "cancelled").exists()
    slurm.forget()
    assert runs.load(ended.path) == ended
    assert [run.state for run in cancel([ended])] == ["FAILED"]


def test_a_successor_that_was_submitted_just_before_is_cancelled_too(slurm: FakeSlurm) -> None:
    run = slurm.run("7")
    began(run, "7.0")
    slurm.queue(run, "RUNNING")
    slurm.queue(run, "PENDING", job_id="8")
    slurm.put("scancel", f'[ "$1" != 7 ] || {{ echo 8 > {run.path}/attempts/7.0/next-job; }}\n')
    (found,) = cancel([run])
    assert slurm.calls("scancel") == ["scancel 7", "scancel 8"]
    assert (found.job_id, found.earlier) == ("8", ("7",))


def test_a_run_without_a_job_or_of_others_cannot_be_cancelled(slurm: FakeSlurm) -> None:
    for run, words in (
        (slurm.run("", "SUBMITTING"), "is being submitted"),
        (slurm.run("1", "RUNNING", uid="4711"), "belongs to the user"),
        (slurm.run("2", "RUNNING", cluster="other"), "is a run of the cluster other"),
    ):
        with pytest.raises(Refused, match=words):
            cancellable([run])
    part = slurm.run("", "NOT_SUBMITTED", tasks=3, earlier=("5",))
    assert cancellable([part]) == [] and cancellable([replace(part, state="PENDING")])
    with pytest.raises(Refused):
        cancellable([replace(part, state="SUBMITTING")])


@pytest.mark.parametrize(
    ("job_id", "tasks", "earlier", "state", "has_one"),
    [
        ("7", 0, (), "PENDING", True),
        ("", 0, (), "PENDING", False),
        ("", 0, ("6",), "PENDING", False),
        ("7", 3, (), "SUBMITTING", True),
        ("", 3, ("6",), "PENDING", True),
        ("", 3, (), "PENDING", False),
        ("", 3, ("6",), "SUBMITTING", False),
    ],
)
def test_of_which_runs_a_job_may_be_queued(
    slurm: FakeSlurm, job_id: str, tasks: int, earlier: tuple[str, ...], state: str, has_one: bool
) -> None:
    assert has_a_job(slurm.run(job_id, state, tasks=tasks, earlier=earlier)) is has_one


def test_a_run_that_ended_by_itself_meanwhile_is_no_error_of_cancel(slurm: FakeSlurm) -> None:
    run = slurm.run("7")
    slurm.account(run, "TIMEOUT")
    assert [found.state for found in cancel([run])] == ["TIMEOUT"]
    assert not slurm.calls("scancel") and not (run.path / "cancelled").exists()


def test_cancel_all_leaves_what_cannot_be_ended_from_here(slurm: FakeSlurm) -> None:
    here = os.uname().nodename
    own = [slurm.run("1"), slurm.run("by-hand-2", scheduler="local", host=here, cluster="")]
    others = [
        slurm.run("3", "FAILED"),
        slurm.run("", "PENDING"),
        slurm.run("4", uid="4711"),
        slurm.run("5", cluster="other"),
        slurm.run("by-hand-6", scheduler="local", host="elsewhere", cluster=""),
    ]
    assert all_cancellable([*own, *others]) == own


def test_a_run_whose_state_nobody_knows_is_closed_with_its_last_state(slurm: FakeSlurm) -> None:
    run = slurm.run("7", "UNKNOWN")
    (found,) = forget([run])
    assert (found.state, runs.load(run.path)) == ("FORGOTTEN", found)
    assert found.reason.startswith(f"closed by the user with uid {os.getuid()} on ")
    assert found.reason.endswith("its last known state was UNKNOWN")
    for other, words in (
        (slurm.run("8"), "run-8 is RUNNING"),
        (slurm.run("9", "FAILED"), "run-9 has ended: it is FAILED"),
        (slurm.run("10", "RENDERED"), "was rendered but not submitted"),
        (slurm.run("11", "UNKNOWN", uid="4711"), "belongs to the user"),
    ):
        with pytest.raises(Refused, match=words):
            forget([other])
        assert runs.load(other.path) == other
    assert forget([slurm.run("12", cluster="other")])[0].state == "FORGOTTEN"


def test_a_submission_that_is_closed_is_settled_first(slurm: FakeSlurm) -> None:
    run = slurm.run("", "SUBMITTING")
    lease = leases.take(run)
    assert lease
    fields = lease.text.split(" ")
    (lease.folder / "1").write_text(" ".join([*fields[:3], "1", "7", "-9000.0", "x"]) + "\n")
    assert forget([run])[0].state == "FORGOTTEN"
    assert lease.outcome == leases.NOT_SUBMITTED


@pytest.mark.parametrize(
    ("state", "words", "step"),
    [
        ("RENDERED", "run-7 was rendered but not submitted", "to start it: "),
        ("INCOMPLETE", "run-7 is not ready: ", "if no submission is still running, submit again"),
        ("SUBMITTING", "run-7 is being submitted", "hpclaunch status run-7"),
        ("PENDING", "run-7 is PENDING", "hpclaunch cancel run-7"),
        ("COMPLETED", "run-7 has ended: it is COMPLETED", "hpclaunch runs clean run-7"),
    ],
)
def test_a_run_whose_state_is_known_or_may_become_so_is_not_closed(
    slurm: FakeSlurm, state: str, words: str, step: str
) -> None:
    run = slurm.run("7", state)
    if state == "SUBMITTING":
        assert leases.take(run)
    with pytest.raises(Refused) as caught:
        forget([run])
    (fault,) = caught.value.faults
    assert fault.what.startswith(words) and (fault.next or "").startswith(step)
    assert runs.load(run.path) == run


@pytest.mark.parametrize("index", [-1, 0, 1])
def test_of_an_array_only_what_has_not_ended_is_closed(slurm: FakeSlurm, index: int) -> None:
    array = runs.change(array_of(slurm, a="UNKNOWN", b="UNKNOWN", c="FAILED 7:0"), state="UNKNOWN")
    (found,) = forget([array if index < 0 else runs.task_of(array, index)])
    assert (found.index, found.state) == (index, "FORGOTTEN" if index >= 0 else runs.load(array.path).state)
    states = [runs.task_of(runs.load(array.path), number) for number in range(3)]
    closed = {0, 1} if index < 0 else {index}
    assert [one.state for one in states] == [
        "FORGOTTEN" if n in closed else ("UNKNOWN", "UNKNOWN", "FAILED")[n] for n in range(3)
    ]
    assert all(states[number].reason.startswith("closed by the user with uid ") for number in closed)
    assert states[2].exit_code == "7:0"


def test_an_array_that_was_never_queued_is_closed_as_a_whole(slurm: FakeSlurm) -> None:
    array = runs.save(replace(slurm.run("", "UNKNOWN"), tasks=2))
    (found,) = forget([array])
    assert (found.state, runs.load(array.path).state) == ("FORGOTTEN", "FORGOTTEN")


def test_a_submission_that_got_its_job_at_last_is_not_closed(slurm: FakeSlurm) -> None:
    run = slurm.run("", "SUBMITTING")
    lease = leases.take(run)
    assert lease
    fields = lease.text.split(" ")
    (lease.folder / "1").write_text(" ".join([*fields[:3], "1", "7", "-9000.0", "x"]) + "\n")
    leases.end(lease, "99")
    slurm.queue(run, "RUNNING", job_id="99")
    (found,) = forget([run])
    assert (found.state, found.job_id) == ("RUNNING", "99")


def test_a_run_that_cannot_be_closed_is_said(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    run = slurm.run("7", "UNKNOWN")

    def fail(old: str, new: str, **more: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(HpclaunchError, match="No space left on device") as caught:
        forget([run])
    assert caught.value.faults[0].where == str(run.path)


def test_what_slurm_says_of_a_cancelled_job_is_recorded_and_nothing_else(slurm: FakeSlurm) -> None:
    """It may end with another state, as when it had completed just before."""
    run = slurm.run("7")
    slurm.queue(run, "COMPLETING")
    (found,) = cancel([run])
    assert (found.state, runs.load(run.path).state) == ("COMPLETING", "COMPLETING")
    assert (run.path / "cancelled/7").exists()


# --- adopt


def test_a_run_directory_is_adopted_where_it_is_now(slurm: FakeSlurm, tmp_path: Path) -> None:
    run = slurm.run("7", listed=False, uid="", user="")
    warned: list[str] = []
    system = System(warn=warned.append)
    assert other_users(run) is not None
    (tmp_path / "link").symlink_to(run.path)
    (found,) = adopt(system, [tmp_path / "link"])
    assert (found.path, found.uid, other_users(found), warned) == (run.path, str(os.getuid()), None, [])
    assert run.path in runs.indexed(system.index)
    with pytest.raises(HpclaunchError):
        adopt(system, [run.path, tmp_path / "nothing"])


def test_nothing_is_adopted_if_one_directory_cannot_be(slurm: FakeSlurm, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("group root: gives files to other users")
    one, theirs = slurm.run("7", listed=False), slurm.run("8", listed=False)
    os.chown(theirs.path / "run.json", 4711, 4711)
    with pytest.raises(Refused, match="belongs to the user with uid 4711"):
        adopt(System(), [one.path, theirs.path])
    assert other_users(one) is not None
    os.chown(theirs.path / "run.json", 0, 0)
    os.chown(theirs.path, 4711, 4711)
    with pytest.raises(Refused, match="belongs to the user with uid 4711"):
        adopt(System(), [theirs.path])


# --- wait


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ([("COMPLETED", "0:0")], 0),
        ([("FAILED", "7:0")], 7),
        ([("FAILED", "255:0")], 255),
        ([("FAILED", "256:0")], 1),
        ([("FAILED", "2:0")], 1),
        ([("FAILED", "124:0")], 1),
        ([("FAILED", "130:0")], 1),
        ([("FAILED", "0:9")], 1),
        ([("FAILED", "")], 1),
        ([("FAILED", "\u00b2:0")], 1),
        ([("FAILED", "007:0")], 7),
        ([("FAILED", f"{'7' * 5000}:0")], 1),
        ([("TIMEOUT", "0:0")], 1),
        ([("COMPLETED", "0:0"), ("FAILED", "7:0"), ("FAILED", "8:0")], 7),
        ([("FAILED", "7:0"), ("RUNNING", "")], 124),
        ([("COMPLETED", "0:0"), ("UNKNOWN", "")], 1),
    ],
)
def test_the_exit_code_of_wait(slurm: FakeSlurm, ends: Sequence[tuple[str, str]], code: int) -> None:
    found = [slurm.run(str(number), state, exit_code=text) for number, (state, text) in enumerate(ends)]
    assert exit_code_of(found) == code


def test_wait_ends_with_the_last_run_and_asks_at_growing_intervals(slurm: FakeSlurm) -> None:
    one, two = slurm.run("7"), slurm.run("8")
    slurm.queue(one, "RUNNING")
    slurm.queue(two, "RUNNING")
    pauses: list[float] = []

    def poll(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            slurm.forget()
            slurm.account(one, "COMPLETED")
            slurm.account(two, "FAILED", "7:0")
            leave_proof(one.path, "7.0")

    *_, last = wait([one, two], None, 0, print, poll)
    assert [run.state for run in last] == ["COMPLETED", "FAILED"]
    assert len(pauses) == 3 and pauses[0] < pauses[1] < pauses[2] <= 15


def test_wait_starts_a_run_again_as_often_as_asked_for(keeping: FakeSlurm) -> None:
    run = keeping.run("7")
    spec(run)
    keeping.account(run, "NODE_FAIL", "0:0")
    keeping.put("sbatch", f"n=$(grep -c '^sbatch' {keeping.folder}/calls); echo Submitted batch job $((98 + n))\n")
    told: list[str] = []

    def poll(seconds: float) -> None:
        keeping.account(run, "NODE_FAIL", "0:0", job_id="99")
        keeping.account(run, "NODE_FAIL", "0:0", job_id="100")

    *_, last = wait([run], None, 2, told.append, poll)
    assert (last[0].state, last[0].job_id, last[0].earlier) == ("NODE_FAIL", "100", ("7", "99"))
    assert (len(told), len(keeping.calls("sbatch"))) == (2, 2)


def test_wait_does_not_wait_for_what_no_question_can_change(slurm: FakeSlurm) -> None:
    pauses: list[float] = []
    for run in (slurm.run("7", cluster="other"), slurm.run("8", uid="4711"), slurm.run("", "RENDERED")):
        list(wait([run], None, 0, print, pauses.append))
    assert not pauses
    list(wait([slurm.run("10", "UNKNOWN")], None, 0, print, pauses.append))
    assert len(pauses) == 5, "its state cannot be known six times in a row"


def test_wait_stops_at_its_deadline(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    run = slurm.run("7")
    slurm.queue(run, "RUNNING")
    pauses: list[float] = []

    def poll(seconds: float) -> None:
        pauses.append(seconds)
        clock[0] += seconds

    *_, last = wait([run], 5, 0, print, poll)
    assert (last[0].state, sum(pauses), exit_code_of(last)) == ("RUNNING", 5.0, 124)


# --- a submission that meets another one

DOUBT = "echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2; exit 1\n"


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    sleep = time.sleep
    monkeypatch.setattr("time.sleep", lambda seconds: None if seconds >= 1 else sleep(seconds))


def script_of(run: Run) -> str:
    return f"#!/bin/sh\n#SBATCH --chdir={run.path}\n"


def test_an_answer_that_leaves_a_doubt_is_recorded_and_the_submission_stays_open(
    slurm: FakeSlurm, no_pauses: None
) -> None:
    run = slurm.run("7", "FAILED")
    slurm.put("sbatch", DOUBT)
    with pytest.raises(Unanswered):
        hand_over(run, script_of(run), 60, earlier=("7",))
    found = runs.load(run.path)
    assert (found.state, found.job_id, found.earlier) == ("SUBMITTING", "", ("7",))
    assert found.reason.startswith("it is unknown whether run-7 was queued: Batch job submission failed: Socket timed")
    lease = leases.newest(run.path)
    assert lease and lease.outcome == ""


def test_a_run_that_another_process_submits_is_not_submitted(slurm: FakeSlurm) -> None:
    run = slurm.run("7", "FAILED")
    lease = leases.take(run)
    assert lease
    with pytest.raises(Refused) as caught:
        hand_over(run, script_of(run), 60)
    (fault,) = caught.value.faults
    what = f"run-7 is being submitted by another process (process {os.getpid()} on {os.uname().nodename})"
    assert (fault.what, fault.next) == (what, "hpclaunch status run-7")
    assert runs.load(run.path) == run and not slurm.calls("sbatch")
    leases.end(lease, "12")
    with pytest.raises(Refused, match=r"is being submitted by another process\n"):
        hand_over(run, script_of(run), 60)


@pytest.mark.parametrize(("seconds", "state"), [(700, "SUBMITTING"), (500, "FAILED")])
def test_status_is_left_to_find_out_what_a_process_did_that_ended_without_a_word(
    slurm: FakeSlurm, seconds: int, state: str
) -> None:
    run = slurm.run("7", "FAILED")
    lease = leases.take(run)
    assert lease
    fields = lease.text.split(" ")
    (lease.folder / "1").write_text(" ".join([*fields[:3], "1", "7", *fields[5:]]) + "\n")
    (lease.folder / "1.renewed").write_text(f"{time.monotonic() - seconds:.3f}\n")
    with pytest.raises(Refused):
        hand_over(run, script_of(run), 60)
    assert runs.load(run.path).state == state


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_second_job_is_cancelled_or_named(slurm: FakeSlurm, is_listed: bool) -> None:
    run = slurm.run("7", "FAILED")
    slurm.put("sbatch", f"echo 12 > {run.path}/submissions/1.ended; echo Submitted batch job 99\n")
    if is_listed:
        slurm.queue(run, "PENDING", job_id="99")
    with pytest.raises(Refused, match="run-7 was given another job while this submission waited") as caught:
        hand_over(run, script_of(run), 60, earlier=("7",))
    words = "its job 99 was cancelled" if is_listed else "its own job 99 could not be cancelled: the scheduler does not"
    assert words in caught.value.faults[0].what
    assert slurm.calls("scancel") == (["scancel 99"] if is_listed else [])
    assert runs.load(run.path).job_id == ""


def test_a_job_that_status_recorded_meanwhile_is_no_second_one(slurm: FakeSlurm) -> None:
    run = slurm.run("7", "FAILED")
    change = 's/"job_id": ""/"job_id": "99"/; s/"state": "SUBMITTING"/"state": "PENDING"/'
    edition = 's/"edition": [0-9]*/"edition": 9/'
    found = f"sed -i '{change}; {edition}' {run.path}/run.json; echo 12 > {run.path}/submissions/1.ended"
    slurm.put("sbatch", f"{found}\necho Submitted batch job 99\n")
    assert hand_over(run, script_of(run), 60, earlier=("7",)).job_id == "99"
    assert not slurm.calls("scancel")


def test_a_submission_that_was_called_lost_takes_the_next_lease_for_its_job(slurm: FakeSlurm) -> None:
    run = slurm.run("7", "FAILED")
    slurm.put("sbatch", f"echo NOT_SUBMITTED > {run.path}/submissions/1.ended; echo Submitted batch job 99\n")
    found = hand_over(run, script_of(run), 60, earlier=("7",))
    assert (found.job_id, found.state) == ("99", "PENDING")
    lease = leases.newest(run.path)
    assert lease and (lease.number, lease.outcome) == (2, "99")


def test_a_job_is_not_given_up_while_other_processes_take_the_leases(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them called this submission lost, and ended its own one without a job."""
    run = slurm.run("7", "FAILED")
    slurm.put("sbatch", f"echo NOT_SUBMITTED > {run.path}/submissions/1.ended; echo Submitted batch job 99\n")
    take, others = leases.take, ["1", "2", "3"]

    def take_after_others(started: runs.Run) -> leases.Lease | None:
        if others.pop(0) == "1":
            return take(started)  # of the submission itself
        number = 4 - len(others) - 1
        (started.path / f"submissions/{number}").write_text("h b s 9 8 1 x\n")
        (started.path / f"submissions/{number}.ended").write_text("NOT_SUBMITTED\n")
        return None

    monkeypatch.setattr(leases, "take", lambda started: take_after_others(started) if others else take(started))
    found = hand_over(run, script_of(run), 60, earlier=("7",))
    assert (found.job_id, found.state, slurm.calls("scancel")) == ("99", "PENDING", [])
    lease = leases.newest(run.path)
    assert lease and (lease.number, lease.outcome) == (4, "99")


def test_a_run_without_a_queue_runs_as_soon_as_it_is_submitted(slurm: FakeSlurm) -> None:
    run = slurm.run("", "RENDERED", scheduler="local", cluster="", controller="")
    run.script.write_text("#!/bin/sh\ntrue\n")
    found = hand_over(run, "", 60)
    assert (found.state, runs.load(run.path).state) == ("RUNNING", "RUNNING")
    assert found.job_id.isdigit() and (found.submission, found.host) == ("hpclaunch", os.uname().nodename)
    first = hand_over(slurm.run("3", "FAILED", tasks=2), "#!/bin/sh\n", 60, earlier=("3",))
    assert first.job_id == "99"
    assert not list(first.path.glob("claims/*")), "each run of an array has claims of its own"


def test_without_a_queue_the_number_of_an_earlier_start_is_that_of_another_process(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system gives the numbers of processes again; the run is not ended for that."""
    run = slurm.run("7", "FAILED", scheduler="local", cluster="", controller="", host=os.uname().nodename)
    ended: list[object] = []
    monkeypatch.setattr("hpclaunch.schedulers.local.submit", lambda *_: QueuedJob(job_id="5"))
    monkeypatch.setattr("hpclaunch.schedulers.local.cancel", ended.append)
    found = hand_over(run, "", 60, earlier=("5", "7"))
    assert (found.job_id, found.state, ended) == ("5", "RUNNING", [])


def test_a_job_whose_record_cannot_be_written_is_named(slurm: FakeSlurm) -> None:
    run = slurm.run("7", "FAILED")
    slurm.put("sbatch", f"mv {run.path}/run.json {run.path}/gone; echo Submitted batch job 99\n")
    with pytest.raises(NotRecorded) as caught:
        hand_over(run, script_of(run), 60, earlier=("7",))
    assert (caught.value.job_id, caught.value.run_dir) == ("99", str(run.path))
    (fault,) = caught.value.faults
    assert fault.what.startswith("run-7 was submitted as job 99, but its record could not be written: ")
    assert fault.next == f"do not submit it again; hpclaunch status {run.path}"
    lease = leases.newest(run.path)
    assert lease and lease.outcome == "99", "so it is found again"


@pytest.mark.parametrize(
    ("other", "own"),
    [
        pytest.param("rm -r SUBMISSIONS", "", id="no leases at all"),
        pytest.param("rm -r SUBMISSIONS; touch SUBMISSIONS", "", id="no folder of leases"),
        pytest.param("echo NOT_SUBMITTED > SUBMISSIONS/1.ended; echo 'h b s 9 8 1 x' > SUBMISSIONS/2", "2", id="begun"),
    ],
)
def test_a_job_that_was_queued_is_the_runs_whatever_became_of_its_lease(slurm: FakeSlurm, other: str, own: str) -> None:
    """The last one: another process called the submission lost, and has begun the next, without a job so far."""
    run = slurm.run("7", "FAILED")
    folder = run.path / leases.FOLDER
    slurm.put("sbatch", f"{other.replace('SUBMISSIONS', str(folder))}; echo Submitted batch job 99\n")
    found = hand_over(run, script_of(run), 60, earlier=("7",))
    assert (found.job_id, found.state, runs.load(run.path).job_id) == ("99", "PENDING", "99")
    assert not slurm.calls("scancel")
    assert not own or (folder / f"{own}.ended").read_text() == "99\n"


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (r"""sed -i 's/"job_id": ""/"job_id": "100"/; s/\["7"\]/["7", "99"]/' RECORD""", ""),
        ("mv RECORD RECORD.gone", "so its job 99 was cancelled"),
        ("rm SLURM/squeue.*; touch SLURM/squeue.silent", "job 99 could not be cancelled: "),
    ],
    ids=["of an earlier part", "no record", "no answer"],
)
def test_a_job_beside_that_of_a_later_submission_is_kept_only_if_the_record_has_it(
    slurm: FakeSlurm, record: str, words: str
) -> None:
    run = slurm.run("7", "FAILED")
    slurm.queue(run, "PENDING", job_id="99")
    change = record.replace("RECORD", str(run.path / "run.json")).replace("SLURM", str(slurm.folder))
    slurm.put("sbatch", f"echo 12 > {run.path}/submissions/1.ended; {change}; echo Submitted batch job 99\n")
    if not words:
        assert hand_over(run, script_of(run), 60, earlier=("7",)).job_id == "100"
        assert not slurm.calls("scancel")
        return
    with pytest.raises(Refused, match="run-7 was given another job while this submission waited") as caught:
        hand_over(run, script_of(run), 60)
    (fault,) = caught.value.faults
    assert words in fault.what and fault.next.endswith("hpclaunch status run-7")
    if "could not" in words:
        assert "Unable to contact slurm controller" in fault.what
        assert (fault.where, fault.next.partition(",")[0]) == (str(run.path), "end the job 99")


@pytest.mark.parametrize("moment", ["sbatch", "held"])
def test_whoever_interrupts_a_submission_is_told_what_is_known(slurm: FakeSlurm, moment: str) -> None:
    run = slurm.run("7", "FAILED")
    stop = f"kill -INT {os.getpid()}; exit 1\n"
    if moment == "sbatch":
        slurm.put("sbatch", stop)
    else:  # the job is queued, and Slurm is asked what it holds of it
        slurm.put("squeue", "cat > /dev/null; " + stop)  # once its end is waited for
    with pytest.raises(Interrupted) as caught:
        hand_over(run, script_of(run), 60)
    (fault,), found, lease = caught.value.faults, runs.load(run.path), leases.newest(run.path)
    assert lease
    if moment == "sbatch":
        assert fault.what == "interrupted while run-7 was being submitted: it may be queued"
        assert fault.next == "to see whether it is: hpclaunch status run-7; to end it: hpclaunch cancel run-7"
        assert (found.state, found.job_id, lease.outcome) == ("SUBMITTING", "", "")
    else:
        assert (fault.where, fault.what) == (str(run.path), "interrupted, but run-7 was submitted as job 99")
        assert fault.next == "hpclaunch status run-7"
        assert (found.state, found.job_id, lease.outcome) == ("PENDING", "99", "99")


def test_a_record_that_cannot_be_written_after_the_answer_names_the_job_and_the_reason(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = slurm.run("7", "FAILED")
    slurm.put("sbatch", f"mkdir {run.path}/full; echo Submitted batch job 99\n")
    replaced = os.replace

    def replace_unless_full(old: str, new: str, **more: int) -> None:
        if (run.path / "full").exists() and str(new).endswith("run.json"):
            raise OSError(28, "No space left on device")
        replaced(old, new, **more)

    monkeypatch.setattr("os.replace", replace_unless_full)
    with pytest.raises(NotRecorded) as caught:
        hand_over(run, script_of(run), 60, earlier=("7",))
    (fault,) = caught.value.faults
    what = "run-7 was submitted as job 99, but its record could not be written: No space left on device"
    assert (fault.where, fault.what) == (str(run.path), what)


# --- runs of an array


def array_of(slurm: FakeSlurm, **states: str) -> Run:
    """An array 7 whose runs have these states and codes: ``of_0="FAILED 7:0"``."""
    array = slurm.run("7", "FAILED", tasks=len(states), excluded="n9", excluded_because="n9: old")
    spec(array, array_index="SLURM_ARRAY_TASK_ID")
    array.script.write_text(f"#!/bin/bash\n#SBATCH --chdir={array.path}\n#SBATCH --array=0-{len(states) - 1}\n")
    known = {}
    for number, text in enumerate(states.values()):
        state, _, code = text.partition(" ")
        known[number] = runs.TaskState(f"7_{number}", state, code, "", f"n{number}")
        (array.path / f"{number:04}").mkdir(exist_ok=True)
    runs.record_tasks(array, known)
    return runs.load(array.path)


def test_only_the_runs_of_an_array_that_a_start_can_help_are_started_again(keeping: FakeSlurm) -> None:
    array = array_of(keeping, a="COMPLETED 0:0", b="NODE_FAIL 0:0", c="FAILED 7:0", d="PREEMPTED 0:0")
    told: list[str] = []
    found = retry(array, told.append)
    assert (found.job_id, found.earlier, found.parts[-1]) == ("99", ("7",), "1,3")
    assert (found.excluded, "n9: old; n1: the only node" in found.excluded_because) == ("n9,n1", True)
    assert told[0].startswith("2 runs of run-7: a node failed, it was preempted; starting again without n9,n1 (n1: ")
    assert "#SBATCH --exclude=n9,n1\n" in submitted(keeping)
    assert "--array=1,3\n" in submitted(keeping)


def test_each_run_of_an_array_is_judged_by_its_own_nodes_which_are_asked_about_once(keeping: FakeSlurm) -> None:
    array = array_of(keeping, a="NODE_FAIL 0:0", b="NODE_FAIL 0:0", c="NODE_FAIL 0:0", d="FAILED 69:0")
    known = runs.present_states(array)
    runs.record_tasks(array, {number: known[number]._replace(nodes="n1,n2") for number in (1, 3)}, any_state=True)
    show = "show node n1,n2"
    keeping.put(
        "scontrol",
        f"""case "$*" in
  *'{show}') echo 'NodeName=n1 X=1 State=IDLE Y=1'; echo 'NodeName=n2 X=1 State=DOWN* Y=1' ;;
  *config) echo 'ClusterName = lab'; echo 'SlurmctldHost[0] = ctl(10.0.0.1)' ;;
esac
""",
    )
    found = retry(runs.load(array.path), lambda words: None)
    assert (found.job_id, found.parts[-1]) == ("99", ""), "all of them"
    reasons = dict(part.split(": ", 1) for part in found.excluded_because.split("; "))
    alone = dict.fromkeys(("n0", "n2"), "the only node of a run that ended as NODE_FAIL")
    assert reasons == {"n9": "old", **alone, "n2": "Slurm reports it as down and not responding"}
    assert len([call for call in keeping.calls("scontrol") if call.endswith(show)]) == 1


@pytest.mark.parametrize("verb", ["retry", "resume"])
def test_an_array_of_another_cluster_is_not_started_here(slurm: FakeSlurm, verb: str) -> None:
    array = runs.change(array_of(slurm, a="NODE_FAIL 0:0", b="NODE_FAIL 0:0"), cluster="other")
    for run in (array, runs.task_of(array, 0)):
        with pytest.raises(Refused, match="is a run of the cluster other"):
            retry(run, lambda words: None) if verb == "retry" else resume(System(), run, SAME)
    assert not slurm.calls("sbatch") and not list(array.path.glob("*/resumed"))


def test_one_run_of_an_array_is_started_again_alone(keeping: FakeSlurm) -> None:
    array = array_of(keeping, a="NODE_FAIL 0:0", b="NODE_FAIL 0:0")
    told: list[str] = []
    found = retry(runs.task_of(array, 0), told.append)
    assert (found.index, found.job_id) == (0, "99_0")
    assert told[0].startswith(f"{runs.task_of(array, 0).label}: a node failed; starting again")
    assert runs.load(array.path).parts[-1] == "0"


@pytest.mark.parametrize(
    ("states", "why"),
    [
        (("COMPLETED 0:0", "FAILED 7:0"), "it failed with exit code 7"),
        (("RUNNING", "FAILED 7:0", "FAILED 8:0"), "it failed with exit code 7"),
        (("RUNNING", "COMPLETED 0:0"), "none of its runs has failed"),
    ],
)
def test_an_array_in_which_no_start_helps_is_refused(slurm: FakeSlurm, states: tuple[str, ...], why: str) -> None:
    array = array_of(slurm, **{f"of_{number}": state for number, state in enumerate(states)})
    with pytest.raises(Refused, match=f"run-7 is not started again: {why}"):
        retry(array, print)
    assert not slurm.calls("sbatch")


def test_the_ended_runs_of_an_array_are_resumed_together(keeping: FakeSlurm) -> None:
    array = array_of(keeping, a="COMPLETED 0:0", b="FAILED 7:0", c="RUNNING", d="TIMEOUT 0:0")
    (array.path / "0003").rmdir()
    found, warnings = resume(System(), array, SAME)
    assert (found.job_id, found.earlier, found.parts[-1], warnings) == ("99", ("7",), "1,3", [])
    assert (found.excluded, found.excluded_because) == ("n9", "n9: old")
    assert "#SBATCH --exclude=n9\n" in submitted(keeping)
    begun = [number for number in range(4) if (array.path / f"{number:04}/resumed").exists()]
    assert begun == [1, 3], "their restarts are counted from now"
    assert (array.path / "0003").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("index", [0, 1])
def test_one_run_of_an_array_is_resumed_alone(keeping: FakeSlurm, index: int) -> None:
    array = array_of(keeping, a="FAILED 7:0", b="FAILED 7:0")
    found, _ = resume(System(), runs.task_of(array, index), SAME)
    assert (found.index, found.job_id, runs.load(array.path).parts[-1]) == (index, f"99_{index}", str(index))
    assert not (array.path / f"{1 - index:04}/resumed").exists()


@pytest.mark.parametrize(
    ("states", "index", "words"),
    [
        (("COMPLETED 0:0", "FAILED 7:0"), 0, "0000 has completed: there is nothing to resume"),
        (("RUNNING", "FAILED 7:0"), 0, "0000 has not ended: its last known state is RUNNING"),
        (("COMPLETED 0:0", "COMPLETED 0:0"), -1, "run-7 has completed: there is nothing to resume"),
    ],
)
def test_runs_of_an_array_that_need_no_further_start_are_not_resumed(
    slurm: FakeSlurm, states: tuple[str, str], index: int, words: str
) -> None:
    array = array_of(slurm, a=states[0], b=states[1])
    array = replace(array, state="COMPLETED") if index < 0 else array
    with pytest.raises(Refused, match=words):
        resume(System(), array if index < 0 else runs.task_of(array, index), SAME)
    assert not slurm.calls("sbatch") and not list(array.path.glob("*/resumed"))


def test_the_runs_of_an_array_share_one_script_and_its_options(slurm: FakeSlurm) -> None:
    array = array_of(slurm, a="FAILED 7:0", b="FAILED 7:0")
    for changes in (Changes(nodes=2), Changes(walltime=60), Changes(recipe="recommended")):
        with pytest.raises(Refused, match="belongs to a job array, whose runs share one script") as caught:
            resume(System(), array, changes)
        assert caught.value.faults[0].next == "resume it without --nodes, --walltime and --recipe"
    (array.path / "0000").rmdir()
    (array.path / "0000").write_text("a file in the place of the folder")
    with pytest.raises(HpclaunchError, match="0000"):
        resume(System(), array, SAME)
    assert not slurm.calls("sbatch")


def test_one_run_of_an_array_is_repaired_and_the_arrays_history_keeps_it(slurm: FakeSlurm) -> None:
    array = array_of(slurm, a="FAILED 7:0", b="COMPLETED 0:0")
    first = runs.task_of(array, 0)
    found = repair(first, "CANCELLED", "it was me")
    assert (found.index, found.state, found.exit_code) == (0, "CANCELLED", "7:0")
    note, *_ = (line for line in array.history() if "repaired" in line)
    assert note["task"] == first.path.name and note["repaired"].startswith("CANCELLED: it was me (repaired by ")
    assert found.reason.startswith("it was me (repaired by ") and found == runs.task_of(runs.load(array.path), 0)
    completed = repair(runs.task_of(runs.load(array.path), 1), "FAILED", "x")
    assert (completed.state, completed.exit_code) == ("FAILED", "")
    assert runs.task_of(runs.load(array.path), 0).state == "CANCELLED"


def test_a_lost_run_is_to_be_forgotten_and_not_repaired(slurm: FakeSlurm) -> None:
    with pytest.raises(Refused) as caught:
        repair(slurm.run("7", "UNKNOWN"), "FAILED", "x")
    assert caught.value.faults[0].next == "if its state cannot be known: hpclaunch runs forget run-7"
