"""No run is lost and none is queued twice, whatever happens to sbatch, to the controller, and to hpclaunch itself."""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Desk, wait_for

# A controller that keeps its jobs in SPOOL/jobs, as ID|WORKING FOLDER. A line of SPOOL/plan is used up by each sbatch.
SBATCH = """#!/bin/bash
echo sbatch >> {spool}/calls
plan=(); [ -e {spool}/plan ] && mapfile -t plan < {spool}/plan
what=${{plan[0]:-accept}}
printf '%s\\n' "${{plan[@]:1}}" > {spool}/plan
while IFS= read -r line; do
  case $line in '#SBATCH --chdir='*) folder=${{line#*=}} ;; esac
done < "${{@: -1}}"
accept() {{ jobs=(); [ -e {spool}/jobs ] && mapfile -t jobs < {spool}/jobs
  id=$((4711 + ${{#jobs[@]}})); echo "$id|$folder" >> {spool}/jobs; }}
parent() {{ read -r _ _ _ up _ < /proc/$1/stat; echo "$up"; }}
asleep() {{ until [[ "$(< /proc/$1/stat)" == *') S '* ]]; do sleep 0.05; done; }}
lost() {{ echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2; exit 1; }}
case $what in
  accept) accept; echo "Submitted batch job $id" ;;
  accept-and-lose) accept; lost ;;
  lose) lost ;;
  later) echo "$folder" > {spool}/late; lost ;;
  unreachable)
    echo 'sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)' >&2
    exit 1 ;;
  refuse) echo ' Welcome'; echo '--> Verifying budget...FAILED'; exit 1 ;;
  accept-and-greet) accept; echo Welcome; echo "Submitted batch job $id"; echo 'sbatch: lua: moved' >&2 ;;
  accept-and-hang) accept; sleep 600 ;;
  accept-and-outlast) accept; {{ asleep "$PPID"; kill -s ALRM "$PPID"; }} & exec sleep 600 ;;
  hang) sleep 600 ;;
  accept-and-kill) accept; kill -9 "$(parent "$PPID")"; sleep 600 ;;
  kill) kill -9 "$(parent "$PPID")"; sleep 600 ;;
  accept-and-babble) accept; echo 'plugin: welcome' ;;
  accept-and-wait) accept; until [ -e {spool}/go ]; do sleep 0.05; done; echo "Submitted batch job $id" ;;
  accept-too-late) accept; echo 4999 > "$folder/submissions/1.ended"; echo "Submitted batch job $id" ;;
esac
"""
SQUEUE = """#!/bin/bash
echo squeue >> {spool}/calls
[ -e {spool}/down ] && {{ echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1; }}
jobs=(); [ -e {spool}/jobs ] && mapfile -t jobs < {spool}/jobs
place=preempt; [ -e {spool}/partition ] && place=$(< {spool}/partition)
for job in "${{jobs[@]}}"; do
  time=$EPOCHSECONDS
  case "$*" in
    *'=%i|%D|'*) echo "${{job%%|*}}|1|10:00|m1|normal|$place|${{job#*|}}" ;;
    *'=%i|%V|%Z'*) echo "${{job%%|*}}|$time|${{job#*|}}" ;;
    *'%V|%Z'*) echo "${{job%%|*}}|PENDING|Priority||$time|${{job#*|}}" ;;
    *) echo "${{job%%|*}}|PENDING|Priority||${{job#*|}}" ;;
  esac
done
"""


@pytest.fixture
def controller(cluster: Desk) -> Desk:
    cluster.program("sbatch", SBATCH.format(spool=cluster.spool))
    cluster.program("squeue", SQUEUE.format(spool=cluster.spool))
    return cluster


def plan(desk: Desk, *calls: str) -> None:
    (desk.spool / "plan").write_text("".join(f"{call}\n" for call in calls))


def jobs(desk: Desk) -> list[str]:
    path = desk.spool / "jobs"
    return [line.partition("|")[0] for line in path.read_text().splitlines()] if path.exists() else []


def calls(desk: Desk) -> list[str]:
    return (desk.spool / "calls").read_text().split()


def obey_late(desk: Desk) -> None:
    """Let the controller queue the request that it did not answer."""
    (desk.spool / "jobs").write_text(f"4711|{(desk.spool / 'late').read_text()}")


def the_run(desk: Desk) -> Path:
    (run,) = (desk.project / "runs").iterdir()
    return run


def status(desk: Desk) -> dict[str, Any]:
    (told,) = desk.type("status", "--json").runs
    assert isinstance(told, dict)
    return told


def age(run: Path, seconds: float) -> None:
    """Let the last sign of life of the submission be that old."""
    sign = run / "submissions/1.renewed"
    sign.write_text(f"{float(sign.read_text()) - seconds}\n")


def test_row_15_a_submission_that_timed_out_after_it_was_accepted_is_looked_up_and_not_repeated(
    controller: Desk,
) -> None:
    plan(controller, "accept-and-lose")
    done = controller.type("submit", "./train.py", "--json")
    assert (done.code, done.json["job_id"], done.json["state"]) == (0, "4711", "PENDING"), done.err
    assert (jobs(controller), calls(controller)) == (["4711"], ["sbatch", "squeue", "squeue"])  # looked up, read back


def test_row_15_a_submission_that_was_lost_is_not_repeated_while_the_controller_may_obey_it(controller: Desk) -> None:
    plan(controller, "lose", "accept")
    done = controller.type("submit", "./train.py", "--json")
    assert (done.code, jobs(controller)) == (1, []), done.err
    assert calls(controller) == ["sbatch", *["squeue"] * 3]
    assert status(controller)["state"] == "SUBMITTING"
    age(the_run(controller), 600)
    assert status(controller)["state"] == "NOT_SUBMITTED"
    assert controller.type("retry", the_run(controller).name).code == 0
    assert (jobs(controller), status(controller)["job_id"]) == (["4711"], "4711")


def test_row_15_a_request_that_the_controller_obeys_late_is_found_and_not_run_twice(controller: Desk) -> None:
    plan(controller, "later")
    assert controller.type("submit", "./train.py").code == 1
    age(the_run(controller), 600)
    assert status(controller)["state"] == "NOT_SUBMITTED"
    obey_late(controller)  # later than any controller does
    done = controller.type("retry", the_run(controller).name, "--json")
    assert (done.code, done.json["job_id"], jobs(controller)) == (0, "4711", ["4711"]), done.err
    assert calls(controller).count("sbatch") == 1


def test_row_15_while_nobody_can_be_asked_nothing_is_repeated_and_status_resolves_it(controller: Desk) -> None:
    plan(controller, "accept-and-lose")
    (controller.spool / "down").touch()
    done = controller.type("submit", "./train.py")
    assert done.code == 1
    assert "it is unknown whether" in done.err
    assert calls(controller) == ["sbatch", "squeue"]
    assert status(controller)["state"] == "SUBMITTING"
    (controller.spool / "down").unlink()
    told = status(controller)
    assert (told["state"], told["job_id"], jobs(controller)) == ("PENDING", "4711", ["4711"])


def test_sacct_is_asked_from_the_day_before_because_it_reads_local_time(controller: Desk) -> None:
    """West of Greenwich it is still the day before for hours: sacct refuses a start that is to come."""
    plan(controller, "accept-and-lose")
    assert controller.type("submit", "./train.py").code == 0
    created = json.loads((the_run(controller) / "run.json").read_text())["created"]
    before = datetime.date.fromisoformat(created[:10]) - datetime.timedelta(days=1)
    assert f"--starttime={before}" in controller.given("sacct")


def test_a_controller_that_cannot_be_reached_leaves_nothing_queued_and_says_so(controller: Desk) -> None:
    plan(controller, *["unreachable"] * 3)
    (controller.spool / "down").touch()
    done = controller.type("submit", "./train.py")
    assert (done.code, jobs(controller), calls(controller)) == (1, [], ["sbatch", "squeue"] * 3)
    assert "Unable to contact slurm controller" in done.err
    assert f"hpclaunch retry {the_run(controller).name}" in done.err
    assert json.loads((the_run(controller) / "run.json").read_text())["state"] == "NOT_SUBMITTED"


@pytest.mark.parametrize("verb", ["retry", "resume"])
def test_a_run_that_a_sites_filter_refused_can_be_submitted_again(controller: Desk, verb: str) -> None:
    plan(controller, "refuse", "accept")
    done = controller.type("submit", "./train.py")
    assert (done.code, calls(controller)) == (1, ["sbatch", "squeue"])
    assert "error: sbatch: Welcome --> Verifying budget...FAILED\n" in done.err
    assert status(controller)["state"] == "NOT_SUBMITTED"
    name = the_run(controller).name
    assert controller.type("cancel", name).code == 0
    again = controller.type(verb, name, "--json")
    assert (again.code, again.json["job_id"], jobs(controller)) == (0, "4711", ["4711"]), again.err


def test_what_sbatch_said_and_what_the_scheduler_changed_is_shown_and_kept(controller: Desk) -> None:
    plan(controller, "accept-and-greet")
    done = controller.type("submit", "./train.py", "--json", "--partition", "batch")
    assert done.code == 0, done.err
    assert "sbatch printed:\n  Welcome\n  sbatch: lua: moved\n" in done.err
    assert "warning: the scheduler changed what was asked for: partition preempt, not batch" in done.err
    told = done.json
    assert (told["printed"], told["held"]["partition"]) == ("Welcome\nsbatch: lua: moved", "preempt")
    assert (status(controller)["held"], status(controller)["differs"]) == (told["held"], told["differs"])
    shown = controller.type("runs", "show", told["run"]).out.split("\n")
    assert "held\tnodes 1, walltime 00:10:00, account m1, qos normal, partition preempt" in shown
    assert {f"differs\t{told['differs']}", "printed\tWelcome", "printed\tsbatch: lua: moved"} <= set(shown)


def test_a_job_as_it_was_asked_for_is_submitted_without_a_word(controller: Desk) -> None:
    plan(controller, "accept")
    (controller.spool / "partition").write_text("batch")
    done = controller.type("submit", "./train.py", "--partition", "batch")
    assert done.code == 0 and "printed" not in done.err and "changed" not in done.err


def test_a_controller_that_comes_back_gets_the_run(controller: Desk) -> None:
    plan(controller, "unreachable", "accept")
    done = controller.type("submit", "./train.py", "--json")
    assert (done.code, done.json["job_id"], jobs(controller)) == (0, "4711", ["4711"])


def test_an_sbatch_that_hangs_after_it_was_accepted_is_ended_and_the_run_found(controller: Desk) -> None:
    # The alarm is that of timeout's own clock, set off once the job is queued, however long sbatch took to get so far.
    # timeout must be waiting for sbatch by then: it starts sbatch before it knows the number of that process.
    # sbatch must be one process: between fork and exec, bash's own handler loses a SIGTERM.
    plan(controller, "accept-and-outlast")
    done = controller.type("submit", "./train.py", "--json")
    assert (done.code, done.json["job_id"], jobs(controller)) == (0, "4711", ["4711"]), done.err


def test_an_accepted_run_is_found_whatever_sbatch_says(controller: Desk) -> None:
    plan(controller, "accept-and-babble")
    done = controller.type("submit", "./train.py", "--json")
    assert (done.code, done.json["job_id"], jobs(controller)) == (0, "4711", ["4711"]), done.err


@pytest.mark.parametrize(("call", "found"), [("accept-and-kill", ["4711"]), ("kill", [])])
def test_hpclaunch_killed_while_it_submits_leaves_a_record_that_status_resolves(
    controller: Desk, call: str, found: list[str]
) -> None:
    plan(controller, call)
    done = controller.type("submit", "./train.py")
    assert (done.code, jobs(controller)) == (-signal.SIGKILL, found)
    told = status(controller)
    if found:
        assert (told["state"], told["job_id"]) == ("PENDING", "4711")
        return
    assert told["state"] == "SUBMITTING"  # it may be on its way still
    age(the_run(controller), 600)
    assert status(controller)["state"] == "NOT_SUBMITTED"
    assert controller.type("retry", the_run(controller).name).code == 0
    assert (jobs(controller), status(controller)["state"]) == (["4711"], "PENDING")


def test_without_accounting_an_unanswered_run_is_never_called_unqueued(controller: Desk) -> None:
    controller.fake("sacct", err="Slurm accounting storage is disabled\n", code=1)
    plan(controller, "kill")
    controller.type("submit", "./train.py")
    age(the_run(controller), 600)
    told = status(controller)
    assert told["state"] == "SUBMITTING"
    assert "does not know about ended jobs" in told["reason"]


@pytest.mark.parametrize("request_was", ["lose", "later"])
def test_a_submission_that_a_person_closed_can_be_started_again_and_a_late_job_of_it_is_found(
    controller: Desk, request_was: str
) -> None:
    controller.fake("sacct", err="Slurm accounting storage is disabled\n", code=1)
    plan(controller, request_was, "accept")
    assert controller.type("submit", "./train.py").code == 1
    run = the_run(controller)
    early = controller.type("runs", "forget", run.name, "--yes")
    assert (early.code, f"{run.name} is being submitted" in early.err) == (1, True)
    age(run, 600)
    assert controller.type("runs", "forget", run.name, "--yes").code == 0
    assert status(controller)["state"] == "FORGOTTEN"
    if request_was == "later":
        obey_late(controller)
    done = controller.type("resume", run.name, "--json")
    assert (done.code, done.json["job_id"], jobs(controller)) == (0, "4711", ["4711"]), done.err
    assert calls(controller).count("sbatch") == (2 if request_was == "lose" else 1)


def test_control_c_after_sbatchs_answer_names_the_job(controller: Desk) -> None:
    plan(controller, "accept-and-wait")
    process = controller.start("submit", "./train.py")
    wait_for(lambda: jobs(controller), "it is accepted")
    run = the_run(controller)
    lock = os.open(run, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)  # so that the job cannot be recorded yet
    (controller.spool / "go").touch()
    wait_for((run / "submissions/1.ended").exists, "sbatch has answered")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    os.close(lock)
    assert (process.returncode, "was submitted as job 4711" in err) == (130, True), err
    assert "Traceback" not in err
    assert (status(controller)["state"], status(controller)["job_id"]) == ("PENDING", "4711")


@pytest.mark.parametrize("is_confirmed", [True, False])
def test_a_job_too_many_is_cancelled_or_named(controller: Desk, is_confirmed: bool) -> None:
    """Another process gave this submission up for lost and has queued job 4999: the record of that counts."""
    plan(controller, "accept-too-late")
    if not is_confirmed:
        (controller.spool / "down").touch()
    done = controller.type("submit", "./train.py")
    ended = "so its job 4711 was cancelled" if is_confirmed else "and its own job 4711 could not be cancelled: "
    assert (done.code, ended in done.err) == (1, True), done.err
    assert (controller.spool / "scancel.args").exists() == is_confirmed
    assert f"hpclaunch status {the_run(controller).name}" in done.err


def kill_while_it_makes_the_run_directory(desk: Desk) -> None:
    """Submit and kill; a submission that was faster than this process ends as usual, is forgotten, and made anew."""
    while True:
        process = desk.start("submit", "./train.py")
        while process.poll() is None and not any(record.read_text() for record in desk.project.glob("runs/*/run.json")):
            time.sleep(0.001)
        process.send_signal(signal.SIGSTOP)  # what its record says now stays so
        if json.loads((the_run(desk) / "run.json").read_text())["state"] == "INCOMPLETE":
            process.kill()
            process.communicate()
            return
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=60)
        shutil.rmtree(the_run(desk))
        for file in ("jobs", "calls"):
            (desk.spool / file).unlink(missing_ok=True)


def test_hpclaunch_killed_while_it_makes_the_run_directory_leaves_a_run_that_was_never_queued(
    controller: Desk,
) -> None:
    for number in range(1500):
        controller.write(f"code{number}.py", "print()\n" * 200)
    kill_while_it_makes_the_run_directory(controller)
    runs = controller.project / "runs"
    assert (jobs(controller), status(controller)["state"]) == ([], "INCOMPLETE")
    assert controller.type("runs", "clean", the_run(controller).name, "--yes").code == 1
    assert the_run(controller).is_dir()  # it could still be in the making
    # It was killed before it was listed among the user's own runs.
    assert controller.type("runs", "adopt", str(the_run(controller))).code == 0
    record = the_run(controller) / "run.json"
    record.write_text(record.read_text().replace('"created": "2', '"created": "1'))
    assert controller.type("runs", "clean", the_run(controller).name, "--yes").code == 0
    assert not list(runs.iterdir())


def test_control_c_while_submitting_says_that_it_may_be_queued(controller: Desk) -> None:
    plan(controller, "accept-and-hang")
    process = controller.start("submit", "./train.py")
    wait_for(lambda: jobs(controller), "it is accepted")
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "it may be queued" in err
    assert "Traceback" not in err
    assert (status(controller)["state"], status(controller)["job_id"]) == ("PENDING", "4711")


def test_submissions_at_once_never_collide(controller: Desk) -> None:
    processes = [controller.start("submit", "./train.py", "--json") for _ in range(8)]
    told = [json.loads(process.communicate(timeout=100)[0]) for process in processes]
    assert len({one["run_dir"] for one in told}) == 8
    assert len(controller.type("runs", "list", "--json").runs) == 8


def test_a_run_is_started_again_by_one_of_two_who_try(controller: Desk) -> None:
    plan(controller, "unreachable", "unreachable", "unreachable", "accept", "accept")
    controller.type("submit", "./train.py")
    run = the_run(controller)
    waits = f"until [ -e {controller.spool}/go ]; do sleep 0.05; done; case $what"
    controller.program("sbatch", SBATCH.format(spool=controller.spool).replace("case $what", waits))
    processes = [controller.start("retry", run.name) for _ in range(2)]
    wait_for(lambda: any(process.poll() is not None for process in processes), "one of them gives up")
    (controller.spool / "go").touch()
    errors = [process.communicate(timeout=60)[1] for process in processes]
    assert sorted(process.returncode for process in processes) == [0, 1], errors
    assert jobs(controller) == ["4711"]


def test_what_status_saw_does_not_undo_what_a_submission_recorded(controller: Desk) -> None:
    from hpclaunch import runs

    controller.type("submit", "./train.py")
    seen = runs.load(the_run(controller))
    runs.change(seen, state="RUNNING")
    assert runs.change(seen, state="NOT_SUBMITTED", job_id="").state == "RUNNING"
    assert (
        subprocess.run(["grep", "-c", "state", str(seen.path / "states.jsonl")], capture_output=True).stdout == b"5\n"
    )
