"""What becomes of records when the scheduler is asked: whose they are, what is asked, and what an answer changes."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpclaunch import runs
from hpclaunch.actions.following import states
from hpclaunch.actions.following.identity import (
    cluster_obstacle,
    controller_differs,
    elsewhere,
    may_be_own,
    obstacle,
    other_users,
)
from hpclaunch.actions.following.states import (
    all_runs,
    awaitable,
    explanation,
    in_states,
    is_lost,
    list_runs,
    recorded_runs,
    refreshed,
    warn_not_permitted,
)
from hpclaunch.actions.system import System
from hpclaunch.core.errors import Refused
from hpclaunch.runs import Run, arrays, leases
from hpclaunch.runs.ended import EndedRuns
from tests.processes.actions.conftest import FakeSlurm


def now(run: Run) -> Run:
    return refreshed([run])[0]


def began(run: Run, start: str, **marks: str) -> None:
    folder = run.path / "attempts" / start
    folder.mkdir(parents=True)
    for name, text in {"started": "", **marks}.items():
        (folder / name.replace("_", "-")).write_text(text)


def claimed(folder: Path, *starts: str) -> None:
    """Leave the claims that these starts of a script write, in this order."""
    (folder / "claims").mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(starts, 1):
        (folder / "claims" / str(number)).write_text(f"{start} n1 77 1234\n")


def test_an_answer_is_recorded_but_the_reason_of_waiting_is_only_shown(slurm: FakeSlurm) -> None:
    run = slurm.run(state="PENDING")
    slurm.queue(run, "PENDING", reason="Priority", nodes="")
    lines = len(run.history())
    assert (now(run).reason, len(run.history()), runs.load(run.path).reason) == ("Priority", lines, "")
    slurm.forget()
    slurm.queue(run, "RUNNING", nodes="n[1-2]")
    found = now(run)
    assert (found.state, found.nodes, found.reason) == ("RUNNING", "n[1-2]", "")
    assert runs.load(run.path) == found
    lines = len(run.history())
    assert now(found) == found
    assert len(run.history()) == lines, "nothing is written where nothing has changed"
    slurm.forget()
    slurm.account(run, "TIMEOUT", nodes="")
    ended = now(found)
    assert (ended.state, ended.exit_code, ended.nodes) == ("TIMEOUT", "0:0", "n[1-2]")
    assert runs.load(run.path) == ended


def test_of_many_runs_each_gets_its_own_answer_with_one_question(slurm: FakeSlurm) -> None:
    one, two = slurm.run("7"), slurm.run("8")
    slurm.queue(one, "RUNNING", nodes="a")
    slurm.queue(two, "PENDING", nodes="")
    assert [run.state for run in refreshed([two, one])] == ["PENDING", "RUNNING"]
    assert len(slurm.calls("squeue")) == 1


def test_what_slurms_programs_are_asked(slurm: FakeSlurm) -> None:
    """Without --array squeue joins the tasks that wait; without --allocations sacct lists the steps, too."""
    one, two = slurm.run("7"), slurm.run("8")
    refreshed([one, two])
    queue, past = slurm.calls("squeue")[0], slurm.calls("sacct")[0]
    assert queue == "squeue --noheader --array --states=all --format=%i|%T|%r|%N|%V|%Z --jobs=7,8"
    fields = "JobID,State,ExitCode,NodeList,Cluster,Submit,WorkDir"
    options = f"--noheader --parsable2 --allocations --format={fields} --starttime=now-365days"
    assert past == f"sacct {options} --jobs=7,8"


def test_an_ended_run_is_not_asked_about(slurm: FakeSlurm) -> None:
    for state, code in (("COMPLETED", "0:0"), ("FAILED", "7:0"), ("TIMEOUT", ""), ("NOT_SUBMITTED", "")):
        run = slurm.run("7", state, exit_code=code)
        slurm.account(run, "CANCELLED")
        assert now(run) == run
    assert not slurm.calls("sq") and not slurm.calls("sacct")


@pytest.mark.parametrize(
    ("age", "accounted", "repaired", "code"),
    [
        (0, ("FAILED", "7:0"), "", "7:0"),
        (290, ("FAILED", "7:0"), "", "7:0"),
        (310, ("FAILED", "7:0"), "", ""),
        (0, ("TIMEOUT", "7:0"), "", ""),
        (0, ("FAILED", "7:0"), "2026-01-02T03:04:05Z", ""),
    ],
)
def test_only_the_exit_code_of_a_fresh_failure_may_come_later(
    slurm: FakeSlurm, age: int, accounted: tuple[str, str], repaired: str, code: str
) -> None:
    run = slurm.run(state="FAILED", repaired=repaired, nodes="n9")
    slurm.account(run, *accounted)
    changed = time.time() - age
    os.utime(run.path / runs.HISTORY, (changed, changed))
    assert now(run) == runs.load(run.path) == replace(run, exit_code=code, edition=runs.load(run.path).edition)


def test_the_run_of_another_user_or_of_no_list_is_shown_as_recorded_and_not_asked_about(slurm: FakeSlurm) -> None:
    theirs = slurm.run("7", uid="4711", user="eve")
    unlisted = slurm.run("8", token="x", listed=False)
    for run in (theirs, unlisted):
        slurm.queue(run, "COMPLETED")
    slurm.forget()
    found = refreshed([theirs, unlisted])
    assert [run.state for run in found] == ["RUNNING", "RUNNING"]
    assert found[0].reason == "belongs to eve (uid 4711); only they can act on it"
    assert found[1].reason.startswith("is not known as a run of yours; if it is yours: hpclaunch runs adopt ")
    assert runs.load(theirs.path).reason == ""
    assert not slurm.calls("sq")
    ended = slurm.run("9", "FAILED", uid="4711")
    assert now(ended).reason == "belongs to the user with uid 4711"
    array = slurm.run("10", uid="4711", tasks=3)
    assert (now(array).tasks, now(array).state) == (0, "RUNNING")


@pytest.mark.parametrize("state", ["RUNNING", "UNKNOWN", "PENDING"])
def test_a_run_that_could_not_be_listed_is_proven_by_its_job_in_its_folder(slurm: FakeSlurm, state: str) -> None:
    run = slurm.run("7", state, listed=False)
    slurm.queue(run, "RUNNING", job_id="8")
    assert other_users(now(run)) is not None, "another job of the folder"
    slurm.queue(run, "RUNNING")
    assert (other_users(now(run)), now(run).reason) == (None, "")


def test_a_submission_that_could_not_be_listed_is_proven_by_any_job_in_its_folder(slurm: FakeSlurm) -> None:
    run = slurm.run("", "SUBMITTING", listed=False)
    assert other_users(now(run)) is not None
    slurm.queue(run, "RUNNING", job_id="8")
    found = now(run)
    assert (other_users(found), found.job_id, found.state) == (None, "8", "RUNNING")


@pytest.mark.parametrize(
    "fields", [{"state": "FAILED"}, {"state": "RENDERED"}, {"state": "INCOMPLETE"}, {"cluster": "other"}]
)
def test_nothing_is_proven_about_a_run_that_is_not_queued_here(slurm: FakeSlurm, fields: dict[str, str]) -> None:
    run = slurm.run("7", listed=False, **fields)
    slurm.queue(run, "RUNNING")
    now(run)
    assert other_users(run) is not None
    assert not slurm.calls("squeue")


@pytest.mark.parametrize("state", ["RUNNING", "SUBMITTING", "UNKNOWN", "PENDING"])
def test_marks_in_its_own_directory_prove_nothing_about_a_run(slurm: FakeSlurm, state: str) -> None:
    """A clone has them too; without a queue they are all that its scheduler could look at."""
    here = os.uname().nodename
    clone = slurm.run("7", state, listed=False, scheduler="local", cluster="", controller="", host=here)
    queued = slurm.run("8", state, listed=False)
    for run in (clone, queued):
        began(run, f"{run.job_id}.0")
        now(run)
        assert other_users(run) is not None
    nothing = slurm.run("", "SUBMITTING", listed=False)
    now(nothing)
    assert other_users(nothing) is not None


def test_who_may_own_a_run_that_is_not_listed(slurm: FakeSlurm) -> None:
    assert may_be_own(slurm.run("7", listed=False))
    assert not may_be_own(slurm.run("8")), "it is listed"
    assert not may_be_own(slurm.run("9", listed=False, uid="4711")), "the record names another user"
    gone = slurm.run("10", listed=False)
    assert not may_be_own(replace(gone, path=gone.path / "gone"))
    if os.geteuid() == 0:
        os.chown(gone.path, 4711, 4711)
        assert not may_be_own(replace(gone, uid=str(os.getuid())))


def test_whose_a_run_is(slurm: FakeSlurm) -> None:
    me = str(os.getuid())
    assert other_users(slurm.run("7", uid=me)) is None
    for fields, words in (
        ({"uid": "4711", "user": "eve"}, "belongs to eve (uid 4711)"),
        ({"uid": "4711", "user": "4711"}, "belongs to the user with uid 4711"),
        ({"uid": "4711"}, "belongs to the user with uid 4711"),
    ):
        fault = other_users(slurm.run("8", **fields))
        assert fault is not None and fault.what == f"run-8 {words}"
    if os.geteuid() == 0:
        without = slurm.run("6", uid="")
        os.chown(without.path / "run.json", 4711, 4711)
        fault = other_users(without)
        assert fault is not None and fault.what == "run-6 belongs to the user with uid 4711", "whose the record is"
    unlisted = slurm.run("9", listed=False, uid=me)
    fault = other_users(unlisted)
    assert fault is not None and fault.next == f"if it is yours: hpclaunch runs adopt {unlisted.path}"


def test_on_which_cluster_a_job_is(slurm: FakeSlurm) -> None:
    assert cluster_obstacle(slurm.run("7")) is cluster_obstacle(slurm.run("8", cluster="")) is None
    elsewhere = slurm.run("9", cluster="other", controller="c9")
    fault = cluster_obstacle(elsewhere)
    assert fault is not None and obstacle(elsewhere) == fault
    assert "the cluster other (controller c9); Slurm on this machine is the cluster lab" in fault.what
    assert fault.next.endswith("log in to other and type there: hpclaunch status run-9")
    ended = cluster_obstacle(replace(elsewhere, state="FAILED", controller=""))
    assert ended is not None and "the cluster other; Slurm" in ended.what and "hpclaunch resume run-9" in ended.next
    for controller, differs in (("ctl", False), ("", False), ("ctl2", True)):
        assert controller_differs(replace(elsewhere, controller=controller)) is differs


def test_what_holds_for_a_run_is_asked_of_the_cluster_where_it_goes(slurm: FakeSlurm) -> None:
    assert elsewhere(slurm.run("7")) == elsewhere(slurm.run("", cluster="")) == ""
    assert elsewhere(slurm.run("8", "FAILED", cluster="other", via="lab", controller="")) == "other"
    unsent = slurm.run("", "CREATED", cluster="", controller="")
    for clusters in ("other", "lab", "other,lab"):
        (unsent.path / "spec.json").write_text(json.dumps({"clusters": clusters}))
        assert elsewhere(unsent) == ("" if clusters == "lab" else clusters)


def test_a_run_of_another_cluster_is_not_asked_about_unless_its_end_is_known(slurm: FakeSlurm) -> None:
    run = slurm.run("7", cluster="other")
    slurm.queue(run, "COMPLETED")
    found = now(run)
    assert found.state == "RUNNING" and "is a run of the cluster other" in found.reason
    ended = slurm.run("8", "COMPLETED", cluster="other")
    assert now(ended) == ended


@pytest.mark.parametrize(
    ("state", "fields", "is_settled"),
    [
        ("COMPLETED", {}, True),
        ("FAILED", {"exit_code": "7:0"}, True),
        ("FAILED", {}, False),
        ("FAILED", {"repaired": "2026-01-02T03:04:05Z"}, True),
        ("CANCELLED", {}, True),
        ("PENDING", {}, False),
        ("COMPLETED", {"tasks": 2}, True),
        ("NOT_SUBMITTED", {"tasks": 2}, True),
        ("NOT_SUBMITTED", {"tasks": 2, "earlier": ("6",)}, False),
        ("NOT_SUBMITTED", {"earlier": ("6",)}, True),
    ],
)
def test_of_which_runs_the_end_is_known_wherever_their_cluster_is(
    slurm: FakeSlurm, state: str, fields: dict[str, Any], is_settled: bool
) -> None:
    """Of an array of which a part was refused, earlier jobs may run."""
    run = slurm.run("7", state, cluster="other", **fields)
    found = now(run)
    assert ("is a run of the cluster other" in found.reason) is not is_settled
    assert (found.state, found.tasks) == (state, run.tasks)
    assert not slurm.calls("sq") and runs.load(run.path) == run


def test_an_array_of_others_is_shown_as_one_run(slurm: FakeSlurm) -> None:
    """Its record may claim 100,000 runs, which nobody asked for."""
    theirs = slurm.run("7", "RUNNING", uid="4711", tasks=9, parts=("0-4",), earlier=("6",))
    mine = slurm.run("8", "RUNNING", tasks=9, cluster="other", parts=("0-4",), earlier=("6",))
    found, own = refreshed([theirs, mine])
    assert (found.tasks, found.parts, own.tasks, own.parts) == (0, (), 9, ("0-4",))


def test_a_start_by_hand_is_found_by_the_newest_claim_and_by_no_time_of_a_file(slurm: FakeSlurm) -> None:
    run = slurm.run(
        "7", "FAILED", submission="by hand", exit_code="1:0", reason="why", submitted="2026-01-03T00:00:00Z"
    )
    claimed(run.path, "7.0", "9.0", "10.0", "free", "8.0")
    for age, start in ((30, "9.0"), (20, "8.0"), (10, "10.0")):
        began(run, start)
        os.utime(run.path / f"attempts/{start}/started", (time.time() - age,) * 2)
    slurm.queue(run, "RUNNING", job_id="8")
    found = now(run)
    assert (found.job_id, found.state, found.exit_code, found.submission) == ("8", "RUNNING", "", "by hand")
    assert (runs.load(run.path), found.claim) == (found, 5)
    assert (found.submitted, found.reason) == ("", ""), "those of the job before"


def test_an_ended_record_does_not_go_back_to_an_earlier_start(slurm: FakeSlurm) -> None:
    run = slurm.run("30", "", submission="by hand", exit_code="")
    run = runs.save(replace(run, state="RENDERED", job_id="", submission=""))
    claimed(run.path, "30.0", "40.0")
    began(run, "30.0", exit_code="3\n")
    began(run, "40.0", exit_code="0\n", completed="40.0 1\n")
    found = now(run)
    assert (found.job_id, found.state, found.claim) == ("40", "COMPLETED", 2)
    (run.path / "attempts/30.0/started").touch()
    assert now(found) == found, "a file was touched"
    (run.path / "attempts/40.0/started").unlink()
    assert now(found) == found, "a marker was purged"
    (run.path / "claims/2").unlink()
    assert now(found) == found, "its claim was purged"
    (run.path / "claims/1").unlink()
    (run.path / "claims/7").write_text("50.0 n1 77 1234\n")  # the number with which a script begins anew
    slurm.queue(run, "RUNNING", job_id="50")
    later = now(found)
    assert (later.job_id, later.state, later.claim) == ("50", "RUNNING", 7)


def test_without_a_claim_of_the_recorded_start_no_other_one_is_known_to_be_later(slurm: FakeSlurm) -> None:
    run = slurm.run("40", "COMPLETED", submission="by hand", exit_code="0:0")
    claimed(run.path, "30.0")
    began(run, "30.0", exit_code="3\n")
    assert now(run) == run


def test_the_jobs_before_a_successor_are_no_later_starts(slurm: FakeSlurm) -> None:
    run = slurm.run("42", "CANCELLED", submission="by hand", earlier=("40", "41"), claim=1)
    claimed(run.path, "40.0", "41.0")
    assert now(run) == run
    claimed(run.path, "40.0", "41.0", "50.0")
    slurm.queue(run, "RUNNING", job_id="50")
    assert (now(run).job_id, now(run).claim) == ("50", 3)


@pytest.mark.parametrize(
    "fields", [{"submission": "hpclaunch"}, {"repaired": "2026-01-02T03:04:05Z"}, {"state": "INCOMPLETE"}]
)
def test_a_mark_of_another_start_counts_only_where_a_person_started_the_script(
    slurm: FakeSlurm, fields: dict[str, str]
) -> None:
    run = slurm.run("7", **{"state": "FAILED", "submission": "by hand", "exit_code": "1:0", **fields})
    claimed(run.path, "7.0", "8.0")
    assert now(run).job_id == "7"


@pytest.mark.parametrize("start", ["7.1", "x.0", "../8.0", ""])
def test_a_claim_of_the_same_job_or_of_no_job_is_no_new_start(slurm: FakeSlurm, start: str) -> None:
    run = slurm.run("7", "FAILED", submission="by hand", exit_code="1:0")
    claimed(run.path, "7.0", start)
    assert now(run) == run


def test_a_chain_is_followed_to_its_last_job(slurm: FakeSlurm) -> None:
    run = slurm.run("7", "FAILED", exit_code="75:0", reason="x", nodes="n1")
    began(run, "7.0", next_job="8\n")
    began(run, "8.0", next_job="9;lab\n")
    slurm.queue(run, "PENDING", job_id="9", nodes="")
    found = now(run)
    assert (found.job_id, found.earlier, found.state, found.exit_code) == ("9", ("7", "8"), "PENDING", "")
    assert (found.reason, found.nodes) == ("", "")
    repaired = slurm.run("17", "FAILED", exit_code="75:0", repaired="2026-01-02T03:04:05Z")
    began(repaired, "17.0", next_job="18\n")
    assert now(repaired).job_id == "17"


def test_runs_of_two_schedulers_get_the_answers_of_both(slurm: FakeSlurm) -> None:
    there = slurm.run("8", "PENDING")
    slurm.queue(there, "RUNNING")
    here = slurm.run("5", scheduler="local", cluster="", controller="", host=os.uname().nodename)
    began(here, "5.0", exit_code="3\n")
    assert [(run.job_id, run.state) for run in refreshed([here, there])] == [("5", "FAILED"), ("8", "RUNNING")]


def test_a_chain_that_names_an_earlier_job_ends(slurm: FakeSlurm) -> None:
    run = slurm.run("7", "FAILED", exit_code="75:0", earlier=("6",))
    began(run, "7.0", next_job="6\n")
    assert now(run).job_id == "7"
    (run.path / "attempts/7.0/next-job").write_text("7\n")
    assert now(run).job_id == "7"


@pytest.mark.parametrize("text", ["", None])
def test_a_successor_whose_number_the_script_did_not_get_is_looked_up(slurm: FakeSlurm, text: str | None) -> None:
    run = slurm.run("7")
    began(run, "7.0", **({} if text is None else {"next_job": text}))
    slurm.account(run, "FAILED", "75:0")
    slurm.queue(run, "PENDING", job_id="8", nodes="")
    found = now(run)
    assert (found.job_id, found.earlier) == (("8", ("7",)) if text == "" else ("7", ()))
    assert (found.state, found.exit_code) == (("PENDING", "") if text == "" else ("FAILED", "75:0"))


# --- a submission without an answer


def silent(run: Run, seconds: float = 700) -> None:
    """Let the process that submits a run have been silent for so long, on this host."""
    lease = leases.newest(run.path)
    assert lease
    fields = lease.text.split(" ")
    (lease.folder / str(lease.number)).write_text(" ".join([*fields[:3], "1", "7", *fields[5:]]) + "\n")
    (lease.folder / f"{lease.number}.renewed").write_text(f"{time.monotonic() - seconds:.3f}\n")


def submitting(slurm: FakeSlurm, seconds: float = 700, **fields: object) -> Run:
    run = slurm.run("", "SUBMITTING", **fields)
    assert leases.take(run)
    silent(run, seconds)
    return run


def test_a_job_that_is_found_is_the_outcome_of_the_submission(slurm: FakeSlurm) -> None:
    run = submitting(slurm, seconds=5, reason="no answer")
    slurm.queue(run, "PENDING", job_id="8", nodes="")
    found = now(run)
    assert (found.job_id, found.state, found.reason, found.submission) == ("8", "PENDING", "", "hpclaunch")
    lease = leases.newest(run.path)
    assert lease and lease.outcome == "8"


def test_of_several_jobs_the_oldest_new_one_is_the_outcome(slurm: FakeSlurm) -> None:
    run = submitting(slurm, seconds=5, earlier=("7",))
    for job_id in ("10", "9", "7"):
        slurm.queue(run, "PENDING", job_id=job_id, nodes="")
    began(run, "11.0")
    assert now(run).job_id == "9"


@pytest.mark.parametrize(("silence", "is_over"), [(599.9, False), (600.0, True)])
def test_a_submission_is_given_up_after_ten_minutes_without_a_sign(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, silence: float, is_over: bool
) -> None:
    run = submitting(slurm)
    monkeypatch.setattr(leases, "silence", lambda path: silence)
    assert is_lost(run) is is_over
    assert now(run).state == ("NOT_SUBMITTED" if is_over else "SUBMITTING")


def test_while_an_answer_is_awaited_the_recorded_reason_stays(slurm: FakeSlurm) -> None:
    assert now(submitting(slurm, 5, reason="Socket timed out")).reason == "Socket timed out"


def test_a_job_of_an_earlier_start_is_not_the_outcome(slurm: FakeSlurm) -> None:
    run = submitting(slurm, earlier=("8",))
    began(run, "8.0")
    slurm.queue(run, "RUNNING", job_id="8")
    assert now(run).state == "NOT_SUBMITTED"


def test_a_start_that_left_a_mark_is_the_outcome_although_nobody_lists_it(slurm: FakeSlurm) -> None:
    run = submitting(slurm)
    began(run, "8.0")
    assert now(run).job_id == "8"


def test_a_first_submission_that_left_a_mark_was_hpclaunchs(slurm: FakeSlurm) -> None:
    run = submitting(slurm, submission="")
    began(run, "8.0")
    found = now(run)
    lease = leases.newest(run.path)
    assert (found.job_id, found.submission) == ("8", "hpclaunch")
    assert lease and lease.outcome == "8"


def test_a_submission_that_could_be_listed_nowhere_is_found_by_its_job_and_listed_then(slurm: FakeSlurm) -> None:
    run = slurm.run("", "SUBMITTING", listed=False, uid=str(os.getuid()))
    assert (now(run).state, runs.is_own(slurm.state, run)) == ("SUBMITTING", False)
    slurm.queue(run, "PENDING", job_id="8")
    found = now(run)
    assert (found.job_id, found.state, runs.is_own(slurm.state, found)) == ("8", "PENDING", True)


def test_each_scheduler_is_asked_about_its_own_submissions_alone(slurm: FakeSlurm) -> None:
    """Slurm is sure that it queued no job of a folder; of a run without a queue it knows nothing."""
    queued = submitting(slurm)
    queued = runs.load(queued.path.rename(slurm.home / "queued"))
    here = submitting(slurm, scheduler="local", cluster="", controller="", host=os.uname().nodename)
    runs.list_own(slurm.state, queued)
    states = {run.scheduler: run.state for run in refreshed([queued, here])}
    assert states == {"slurm": "NOT_SUBMITTED", "local": "SUBMITTING"}


@pytest.mark.parametrize(
    ("seconds", "silent_programs", "controller", "state", "reason"),
    [
        (700, (), "ctl", "NOT_SUBMITTED", "the scheduler knows no job of this run, queued or ended"),
        (590, (), "ctl", "SUBMITTING", "the scheduler has not answered yet"),
        (700, (), "ctl2", "SUBMITTING", "the scheduler has no job of this run in its queue, and does not know about"),
        (700, ("sacct",), "ctl", "SUBMITTING", "the scheduler has no job of this run in its queue, and does not know"),
        (700, ("squeue",), "ctl", "SUBMITTING", "squeue: Unable to contact slurm controller"),
    ],
)
def test_nothing_was_queued_only_if_all_are_sure_and_long_enough(
    slurm: FakeSlurm, seconds: float, silent_programs: tuple[str, ...], controller: str, state: str, reason: str
) -> None:
    run = submitting(slurm, seconds, controller=controller)
    slurm.silence(*silent_programs)
    found = now(run)
    assert (found.state, found.job_id) == (state, "")
    assert found.reason.startswith(reason)
    lease = leases.newest(run.path)
    assert lease and lease.outcome == ("NOT_SUBMITTED" if state == "NOT_SUBMITTED" else "")


@pytest.mark.parametrize(
    ("recorded", "listed", "job_id"), [("9", "", "9"), ("9", "12", "9"), ("NOT_SUBMITTED", "12", "12")]
)
def test_what_was_recorded_first_counts_and_a_job_is_never_left_out(
    slurm: FakeSlurm, recorded: str, listed: str, job_id: str
) -> None:
    run = submitting(slurm)
    lease = leases.newest(run.path)
    assert lease
    leases.end(lease, recorded)
    if listed:
        slurm.queue(run, "PENDING", job_id=listed, nodes="")
    assert now(run).job_id == job_id


def test_a_run_that_is_submitted_again_meanwhile_is_not_judged(slurm: FakeSlurm) -> None:
    run = submitting(slurm)
    (run.path / "submissions/1.ended").write_text("NOT_SUBMITTED\n")
    slurm.put("sacct", f"echo 'a b c 1 2 3 4' > {run.path}/submissions/2\n")
    assert now(run).state == "SUBMITTING"


def test_which_states_nobody_may_ever_learn(slurm: FakeSlurm) -> None:
    assert is_lost(submitting(slurm, 601)) and not is_lost(slurm.run("7"))
    assert is_lost(slurm.run("8", "UNKNOWN"))
    fresh = slurm.run("9", "SUBMITTING")
    assert leases.take(fresh) and not is_lost(fresh)


def test_permission_is_refused_with_every_reason(slurm: FakeSlurm) -> None:
    from hpclaunch.actions.following.identity import require_own_site, require_permission

    theirs, elsewhere, own = slurm.run("7", uid="4711"), slurm.run("8", cluster="other"), slurm.run("9")
    require_permission([own])
    require_own_site(own)
    with pytest.raises(Refused) as caught:
        require_permission([theirs, own, elsewhere])
    assert [fault.what.split(" ")[0] for fault in caught.value.faults] == ["run-7", "run-8"]
    with pytest.raises(Refused, match="run-8 is a run of the cluster other"):
        require_own_site(elsewhere)
    with pytest.raises(Refused, match="for the site x, whose controller was ctl2; the one here is another"):
        require_own_site(slurm.run("10", controller="ctl2"))
    require_own_site(slurm.run("11", cluster="", controller=""))


def test_the_site_of_the_machine_decides_where_no_cluster_is_recorded(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hpclaunch.actions.following.identity import require_own_site

    site = "title: t\nscheduler: local\ndefaults: {node_type: n}\nnode_types: {n: {title: n, cores_per_node: 1}}\n"
    (slurm.home / "site_configs").mkdir()
    (slurm.home / "site_configs/mine.yaml").write_text(f"{site}detect: {{environment: {{WHERE: mine}}}}\n")
    monkeypatch.setenv("WHERE", "mine")
    here = {"cluster": "", "controller": "", "scheduler": "local"}
    require_own_site(slurm.run("7", host=os.uname().nodename, **here))
    require_own_site(slurm.run("8", host="other", site="mine", **here))
    for scheduler in ("local", "slurm"):
        with pytest.raises(Refused, match="is for the site x, and this machine belongs to mine") as caught:
            require_own_site(slurm.run("9", host="other", **{**here, "scheduler": scheduler}))
        assert caught.value.faults[0].next.startswith("log in to x; ")
    with pytest.raises(Refused, match="this machine belongs to mine"):
        require_own_site(slurm.run("10", host=os.uname().nodename, **{**here, "scheduler": "slurm"}))
    array = slurm.run("11", tasks=2, **{**here, "scheduler": "slurm"})
    for run in (array, runs.task_of(array, 0)):
        with pytest.raises(Refused) as caught:
            require_own_site(run)
        assert (caught.value.faults[0].next or "").endswith(f": hpclaunch submit {array.path}/code"), "it has one code"


def test_a_run_of_an_array_is_answered_through_its_array(slurm: FakeSlurm) -> None:
    array = slurm.run("7", "PENDING", tasks=3)
    for line in ("7_0|RUNNING|None|n1", "7_1|PENDING|Priority|", "7_2|PENDING|Priority|"):
        with (slurm.folder / "squeue.states").open("a") as file:
            file.write(f"{line}|{int(time.time()) + 10}|{array.path}\n")
    found = refreshed([runs.task_of(array, 1), array, runs.task_of(array, 0)])
    assert [(run.index, run.state) for run in found] == [(1, "PENDING"), (-1, "RUNNING"), (0, "RUNNING")]
    assert found[0].path.parent == array.path


def test_an_array_whose_runs_have_ended_is_not_asked_about(slurm: FakeSlurm) -> None:
    array = slurm.run("7", "COMPLETED", tasks=2)
    runs.record_tasks(array, {i: runs.TaskState(f"7_{i}", "COMPLETED", "0:0", "", "") for i in range(2)})
    before = len(slurm.calls("sq"))
    assert refreshed([runs.load(array.path)])[0].state == "COMPLETED"
    assert len(slurm.calls("sq")) == before


def test_the_states_of_an_array_that_ended_long_ago_are_not_read(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have 100,000 runs. Within five minutes accounting may add exit codes."""
    array = slurm.run("7", "FAILED", tasks=2)
    runs.record_tasks(array, {0: task("COMPLETED", 0, "0:0"), 1: task("FAILED", 1, "7:0")})
    array, read = runs.load(array.path), list[object]()
    present_states = runs.present_states

    def note(*words: Any) -> Any:
        read.append(words)
        return present_states(*words)

    monkeypatch.setattr(runs, "present_states", note)
    for age, is_read in ((400, False), (200, True)):
        os.utime(array.path / runs.STATES, (time.time() - age, time.time() - age))
        read.clear()
        assert refreshed([array])[0].state == "FAILED"
        assert bool(read) is is_read
    assert not slurm.calls("sq")


def test_a_run_without_a_cluster_is_proven_here_too(slurm: FakeSlurm) -> None:
    run = slurm.run("7", listed=False, cluster="", controller="")
    slurm.queue(run, "RUNNING")
    assert other_users(now(run)) is None


def test_a_run_that_was_never_submitted_is_asked_about_by_nobody(slurm: FakeSlurm) -> None:
    run = slurm.run("", "RENDERED")
    assert now(run) == run
    assert not slurm.calls("sq") and not slurm.calls("sacct")


def line_of_task(slurm: FakeSlurm, array: Run, program: str, *fields: str) -> None:
    """Let squeue (``ID|STATE|REASON|NODES``) or sacct (``ID|STATE|CODE|NODES``) list a task in the array's folder."""
    when = str(int(time.time()) + 10)
    known = (*fields, *(("lab",) if program == "sacct" else ()), when, str(array.path))
    with (slurm.folder / f"{program}.states").open("a") as file:
        file.write("|".join(known) + "\n")


def task(state: str, number: int, code: str = "", nodes: str = "") -> runs.TaskState:
    return runs.TaskState(f"7_{number}", state, code, "", nodes)


def test_of_an_array_only_what_may_change_is_changed(slurm: FakeSlurm) -> None:
    array = slurm.run("7", "RUNNING", tasks=4)
    runs.record_tasks(
        array,
        {
            0: task("COMPLETED", 0, "0:0"),
            1: task("FAILED", 1),
            2: task("RUNNING", 2, nodes="n5"),
            3: task("FAILED", 3, "7:0"),
        },
    )
    for number, state, code in (
        (0, "FAILED", "9:0"),
        (1, "FAILED", "3:0"),
        (2, "TIMEOUT", "0:0"),
        (3, "FAILED", "9:0"),
    ):
        line_of_task(slurm, array, "sacct", f"7_{number}", state, code, "")
    found = refreshed([runs.task_of(runs.load(array.path), number) for number in range(4)])
    assert [(run.state, run.exit_code) for run in found] == [
        ("COMPLETED", "0:0"),
        ("FAILED", "3:0"),
        ("TIMEOUT", "0:0"),
        ("FAILED", "7:0"),
    ]
    assert found[2].nodes == "n5", "the answer named none"


def test_a_failure_of_an_old_array_stays_without_a_code(slurm: FakeSlurm) -> None:
    array = slurm.run("7", "FAILED", tasks=2)
    runs.record_tasks(array, {0: task("COMPLETED", 0, "0:0"), 1: task("FAILED", 1)})
    line_of_task(slurm, array, "sacct", "7_1", "FAILED", "3:0", "")
    long_ago = time.time() - 400
    os.utime(array.path / runs.STATES, (long_ago, long_ago))
    assert refreshed([runs.task_of(runs.load(array.path), 1)])[0].exit_code == ""
    os.utime(array.path / runs.STATES)
    assert refreshed([runs.task_of(runs.load(array.path), 1)])[0].exit_code == "3:0"


def test_of_an_old_array_that_goes_on_only_its_open_runs_are_asked_about(slurm: FakeSlurm) -> None:
    array = slurm.run("7", "RUNNING", tasks=4)
    known = {0: task("COMPLETED", 0, "0:0"), 1: task("FAILED", 1), 2: task("RUNNING", 2), 3: task("FAILED", 3, "5:0")}
    runs.record_tasks(array, known)
    for number in range(1, 4):
        line_of_task(slurm, array, "sacct", f"7_{number}", "FAILED", "3:0", "")
    long_ago = time.time() - 400
    os.utime(array.path / runs.STATES, (long_ago, long_ago))
    found = refreshed([runs.load(array.path)])[0]
    codes = [runs.task_of(found, number).exit_code for number in range(4)]
    assert codes == ["0:0", "", "3:0", "5:0"]
    (call,), (of_sacct,) = slurm.calls("squeue"), slurm.calls("sacct")
    assert call.endswith("--jobs=7_2") and of_sacct.endswith("--jobs=7"), "sacct is asked about whole arrays"


def test_only_the_runs_of_an_array_that_are_named_are_asked_about(slurm: FakeSlurm) -> None:
    array = slurm.run("7", "RUNNING", tasks=3)
    runs.record_tasks(array, {number: task("RUNNING", number) for number in range(3)})
    now(runs.task_of(runs.load(array.path), 1))
    assert slurm.calls("squeue")[-1].endswith("--jobs=7_1")
    now(runs.load(array.path))
    assert slurm.calls("squeue")[-1].endswith("--jobs=7")


def test_why_a_success_was_not_recorded_is_the_reason_of_the_run(slurm: FakeSlurm) -> None:
    lost = "the log is incomplete: output of 1 of 2 ranks could not be written (1). Is the disk full?"
    run, own = slurm.run("7"), slurm.run("8")
    began(run, "7.0", exit_code="74\n", not_recorded=f"{lost}\n")
    began(own, "8.0", exit_code="74\n")
    for one in (run, own):
        slurm.account(one, "FAILED", "74:0")
    assert [(one.state, one.reason) for one in refreshed([run, own])] == [("FAILED", lost), ("FAILED", "")]
    array = slurm.run("9", tasks=2)
    folder = array.path / "0001/attempts/9_1.0"
    folder.mkdir(parents=True)
    for name, text in {"started": "", "exit-code": "74\n", "not-recorded": f"{lost}\n"}.items():
        (folder / name).write_text(text)
    for index in range(2):
        slurm.account(array, "FAILED", "74:0", job_id=f"9_{index}")
    found = now(array)
    assert [runs.task_of(found, index).reason for index in range(2)] == ["", lost]


@pytest.mark.parametrize(
    ("state", "code"), [("FAILED", "1:0"), ("FAILED", "0:53"), ("CANCELLED", "0:0"), ("TIMEOUT", "0:0")]
)
def test_only_the_code_of_a_success_that_was_not_recorded_has_its_reason(
    slurm: FakeSlurm, state: str, code: str
) -> None:
    """The mark may be of an end that came after it."""
    run, array = slurm.run("7"), slurm.run("9", tasks=1)
    for one, start in ((run, "7.0"), (replace(array, path=array.path / "0000"), "9_0.0")):
        began(one, start, not_recorded="the disk was full\n")
    slurm.account(run, state, code)
    slurm.account(array, state, code, job_id="9_0")
    found, whole = refreshed([run, array])
    reasons = [found.reason, runs.task_of(whole, 0).reason]
    assert [found.state, runs.task_of(whole, 0).state] == [state] * 2
    assert not [reason for reason in reasons if "full" in reason]


@pytest.mark.parametrize("tasks", [2, 40])
def test_news_of_many_tasks_take_no_longer_for_each(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, tasks: int
) -> None:
    array, looked = slurm.run("9", tasks=tasks), []
    chains = arrays._chains
    monkeypatch.setattr(arrays, "_chains", lambda whole: looked.append(whole) or chains(whole))
    for index in range(tasks):
        slurm.account(array, "FAILED", "1:0", job_id=f"9_{index}")
    assert now(array).state == "FAILED"
    assert len(looked) <= 2, "as often as for one: each time it is for the whole array"


def test_a_start_by_hand_of_an_array_is_known_by_the_arrays_number(slurm: FakeSlurm) -> None:
    array = slurm.run("7", "FAILED", tasks=2, submission="by hand")
    claimed(array.path / "0000", "7_0.0")
    claimed(array.path / "0001", "6_1.0", "7_1.0", "9_1.0")
    found = now(array)
    assert found.job_id == "9"
    assert now(found).job_id == "9", "the first task's claim is of an earlier array"


def test_a_run_whose_start_is_found_leaves_the_index_of_ended_runs(slurm: FakeSlurm) -> None:
    by_hand = slurm.run("7", "FAILED", submission="by hand", exit_code="1:0")
    chained = slurm.run("17", "FAILED", exit_code="75:0")
    entries = {run.path: (runs.stamp_of(run.path) or [], run, {}) for run in (by_hand, chained)}
    runs.keep_ended(slurm.state, entries, [by_hand.path, chained.path])
    claimed(by_hand.path, "7.0", "8.0")
    began(chained, "17.0", next_job="18\n")
    refreshed([by_hand, chained])
    assert len(EndedRuns(slurm.state)) == 0


def test_what_cannot_be_recorded_is_shown(slurm: FakeSlurm) -> None:
    run = slurm.run("7")
    slurm.account(run, "TIMEOUT")
    (run.path / "run.json").rename(run.path / "away")
    found = now(run)
    assert (found.state, found.exit_code, found.nodes) == ("TIMEOUT", "0:0", "n1")


def test_what_cannot_be_added_to_the_history_is_shown(slurm: FakeSlurm) -> None:
    run = slurm.run("7")
    slurm.account(run, "TIMEOUT")
    (run.path / runs.HISTORY).unlink()
    (run.path / runs.HISTORY).mkdir()
    assert now(run).state == "TIMEOUT"
    assert runs.load(run.path).state == "RUNNING"


# --- lists of runs


def remembered(slurm: FakeSlurm, *found: Run, age: float = 400) -> System:
    """The system of a user whose list has these runs, which last changed so long ago."""
    system = System(warn=slurm.warned.append)
    for run in found:
        assert runs.remember(system.index, run.path) == ""
        for file in (run.path / runs.HISTORY, run.path / runs.STATES):
            if file.exists():
                os.utime(file, (time.time() - age,) * 2)
    return system


@pytest.mark.parametrize(
    ("fields", "age", "is_kept"),
    [
        ({"state": "COMPLETED"}, 400, True),
        ({"state": "FAILED", "exit_code": "7:0"}, 400, True),
        ({"state": "COMPLETED"}, 200, False),
        ({"state": "RUNNING"}, 400, False),
        ({"state": "FAILED", "uid": "4711"}, 400, False),
    ],
)
def test_only_a_run_whose_end_can_not_change_any_more_is_kept_in_the_index(
    slurm: FakeSlurm, fields: dict[str, str], age: float, is_kept: bool
) -> None:
    run = slurm.run("7", **fields)
    slurm.queue(run, "RUNNING")
    found = list_runs(remembered(slurm, run, age=age))
    assert ([one.path for one in found.runs], found.left_out) == ([run.path], 0)
    assert (run.path in EndedRuns(slurm.state)) is is_kept


def test_a_run_that_is_changed_while_it_is_read_is_not_kept(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    run = slurm.run("7", "FAILED", exit_code="7:0")
    system = remembered(slurm, run)

    def changed_meanwhile(found: list[Run]) -> list[Run]:
        runs.save(replace(run, state="CANCELLED"))
        remembered(slurm, run)
        return found

    monkeypatch.setattr(states, "refreshed", changed_meanwhile)
    assert list_runs(system).runs[0].state == "FAILED"
    assert run.path not in EndedRuns(slurm.state)


def test_an_array_is_kept_when_all_its_runs_have_ended(slurm: FakeSlurm) -> None:
    array = slurm.run("7", "FAILED", tasks=2)
    runs.record_tasks(array, {0: task("COMPLETED", 0, "0:0"), 1: task("RUNNING", 1)})
    line_of_task(slurm, array, "squeue", "7_1", "RUNNING", "None", "n1")
    system = remembered(slurm, array)
    list_runs(system)
    assert array.path not in EndedRuns(slurm.state)
    slurm.forget()
    runs.record_tasks(runs.load(array.path), {1: task("FAILED", 1, "7:0")})
    list_runs(system)
    assert array.path not in EndedRuns(slurm.state), "a state of it has just changed"
    list_runs(remembered(slurm, array))
    assert array.path in EndedRuns(slurm.state)


def test_an_array_with_a_state_that_has_just_changed_is_not_kept(slurm: FakeSlurm) -> None:
    """Its record is as old as before: the states of its runs have a file of their own."""
    array = slurm.run("7", "FAILED", tasks=1)
    runs.record_tasks(array, {0: task("FAILED", 0, "7:0")})
    system = remembered(slurm, array)
    os.utime(array.path / runs.STATES)
    list_runs(system)
    assert array.path not in EndedRuns(slurm.state)


def test_kept_runs_are_shown_from_the_index_and_the_oldest_left_out(slurm: FakeSlurm) -> None:
    ended = [slurm.run(str(number), "COMPLETED", created=f"2026-01-02T03:04:0{number}Z") for number in range(4)]
    system = remembered(slurm, *ended)
    first = list_runs(system)
    assert [run.path for run in first.runs] == [run.path for run in reversed(ended)]
    live = slurm.run("9", created="2026-01-02T03:04:09Z")
    slurm.queue(live, "RUNNING")
    found = list_runs(remembered(slurm, live), most_ended=2)
    assert [run.job_id for run in found.runs] == ["9", "3", "2"]
    assert (found.left_out, found.runs[0].state, found.runs[1]) == (2, "RUNNING", first.runs[0])
    assert [run.job_id for run in all_runs(system, "2026-01-02T03:04:02Z")] == ["9", "3", "2"]


def test_how_far_a_kept_run_came_is_told_from_the_index(slurm: FakeSlurm) -> None:
    """Nothing of its directory is read but the times of its record."""
    run = slurm.run("7", "FAILED", exit_code="7:0", nodes="n[1-3]")
    events = [{"event": "start", "epochs": 9}, {"event": "epoch", "epoch": 4, "epochs": 9, "loss": 0.5}]
    (run.path / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    system = remembered(slurm, run)
    first = list_runs(system).progress.of(run, time.time())
    assert (first.nodes, first.epoch, first.loss) == (3, 4, 0.5)
    (run.path / "metrics.jsonl").unlink()
    again = list_runs(system).progress.of(run, time.time())
    assert (again.nodes, again.epoch, again.epochs, again.loss) == (3, 4, first.epochs, 0.5)


@pytest.mark.parametrize(
    ("state", "fields"), [("RUNNING", {}), ("UNKNOWN", {}), ("NOT_SUBMITTED", {"tasks": 2, "earlier": ("6",)})]
)
def test_what_may_go_on_is_not_kept_however_long_it_has_not_changed(
    slurm: FakeSlurm, state: str, fields: dict[str, Any]
) -> None:
    run = slurm.run("" if fields else "7", state, **fields)
    if fields:
        runs.record_tasks(run, {0: runs.TaskState("6_0", "RUNNING", "", "", "n1")})
        slurm.queue(run, "RUNNING", job_id="6_0")
        run = runs.load(run.path)
    else:
        slurm.queue(run, state)
    list_runs(remembered(slurm, run))
    assert run.path not in EndedRuns(slurm.state)


def test_what_cannot_be_listed_is_warned_of(slurm: FakeSlurm) -> None:
    damaged, newer = slurm.run("7"), slurm.run("8")
    system = remembered(slurm, damaged, newer)
    (damaged.path / "run.json").write_text("{")
    (newer.path / "run.json").write_text('{"format": 9}')
    assert recorded_runs(system) == []
    assert slurm.warned == [
        f"skipped what cannot be read: {damaged.path}; hpclaunch status PATH says why",
        f"skipped 1 run that a newer hpclaunch wrote: {newer.path}",
    ]


def test_many_folders_are_named_by_their_first(slurm: FakeSlurm) -> None:
    system = System(warn=slurm.warned.append)
    for many in (5, 6):
        warn_not_permitted(system, [Path(f"/{number}") for number in range(many)])
    assert slurm.warned == [
        "skipped 5 folders that you may not read: /0, /1, /2, /3, /4",
        "skipped 6 folders that you may not read: /0, /1, /2, /3, /4, ...",
    ]
    warn_not_permitted(system, [])
    assert len(slurm.warned) == 2


def test_runs_are_chosen_by_their_states_and_those_of_an_array_one_by_one(slurm: FakeSlurm) -> None:
    one, two = slurm.run("6"), slurm.run("8", "FAILED")
    array = slurm.run("7", "RUNNING", tasks=2)
    runs.record_tasks(array, {0: task("RUNNING", 0), 1: task("FAILED", 1)})
    array = runs.load(array.path)
    assert in_states([one, two], [], False) == [one, two]
    assert in_states([one, two], ["failed", " Timeout,cancelled"], False) == [two]
    for names in ([" failed"], ["TIMEOUT, failed"], ["failed ,TIMEOUT"], ["TIMEOUT", "Failed "]):
        assert in_states([one, two], names, False) == [two]
    assert in_states([one, two, array], ["FAILED"], False) == [two]
    assert [run.index for run in in_states([array], ["FAILED"], True)] == [1]


def test_why_a_run_waits_and_what_is_missing_of_an_array(slurm: FakeSlurm) -> None:
    waits = slurm.run("7", "PENDING", reason="Priority")
    words = explanation(waits)
    assert words
    assert explanation(replace(waits, state="FAILED")) == explanation(replace(waits, reason="")) == ""
    array = replace(waits, tasks=9, reason="in words", counts={"PENDING": 9}, waits_for="Priority")
    assert explanation(array) == words
    assert explanation(replace(array, waits_for="")) == "", "the words are for people alone"
    part = replace(array, counts={"PENDING": 6, "NOT_SUBMITTED": 3})
    rest = "hpclaunch retry run-7 submits the runs that are not queued"
    assert explanation(part) == f"{words}; {rest}"
    assert explanation(replace(part, job_id="", earlier=("6",))) == f"{words}; {rest}"
    assert explanation(replace(part, job_id="")) == words
    assert rest not in explanation(replace(part, tasks=0)), "it is no array"


def test_what_will_never_end_cannot_be_waited_for(slurm: FakeSlurm) -> None:
    run, ended = slurm.run("7"), slurm.run("8", "FAILED", uid="4711")
    assert awaitable([run, ended]) == [run, ended]
    with pytest.raises(Refused, match="belongs to the user"):
        awaitable([replace(ended, state="RUNNING")])
    for state, words in (("RENDERED", "was rendered but not submitted"), ("INCOMPLETE", "run-9 is not ready")):
        with pytest.raises(Refused, match=words):
            awaitable([run, slurm.run("9", state)])


def test_where_the_cluster_here_is_not_known_it_is_no_obstacle(slurm: FakeSlurm) -> None:
    slurm.put("scontrol", "exit 1\n")
    run = slurm.run("7", cluster="other", controller="c9")
    assert cluster_obstacle(run) is None and not controller_differs(run)
