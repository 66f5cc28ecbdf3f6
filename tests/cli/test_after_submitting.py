"""status, logs, cancel and --wait at a Slurm site, with fake squeue, sacct and scancel."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.builders import leave_proof
from tests.cli.conftest import Desk, wait_for


@pytest.fixture
def run(cluster: Desk) -> Path:
    """A submitted run; its job id is 4711."""
    return Path(cluster.type("submit", "./train.py").out.strip())


def state(desk: Desk, *words: str) -> tuple[str, str, str]:
    done = desk.type("status", "4711", "--json", *words)
    assert done.code == 0, done.err
    (record,) = done.runs
    return record["state"], record["exit_code"], record["reason"]


def mark(run: Path, code: int) -> None:
    (run / "attempts/4711.0").mkdir()
    (run / "attempts/4711.0/exit-code").write_text(f"{code}\n")
    if code == 0:
        leave_proof(run, "4711.0")


@pytest.mark.parametrize(
    ("squeue", "sacct", "expected"),
    [
        ("4711|PENDING|Priority\n", "", ("PENDING", "", "Priority")),
        ("4711|PENDING|None\n", "", ("PENDING", "", "")),
        ("4711|RUNNING|None\n", "", ("RUNNING", "", "")),
        ("", "4711|COMPLETED|0:0\n", ("COMPLETED", "0:0", "")),
        ("4711|COMPLETED|None\n", "4711|COMPLETED|0:0\n", ("COMPLETED", "0:0", "")),
        ("", "4711|CANCELLED by 1000|0:15\n", ("CANCELLED", "0:15", "")),
        ("", "4711|FAILED|7:0\n", ("FAILED", "7:0", "")),
        ("", "4711|OUT_OF_MEMORY|0:125\n", ("OUT_OF_MEMORY", "0:125", "")),
        ("4712|RUNNING|None\n", "4712|FAILED|1:0\n", ("UNKNOWN", "", "")),
        ("", "", ("UNKNOWN", "", "")),
        ("|||||\n\n4711\n\xff{}\n", "a|b\n|||\n4711||\n", ("UNKNOWN", "", "")),
        ("4711|a traceback|x\n", "4711|no state|0:0\n", ("UNKNOWN", "", "")),
        ("slurm_load_jobs error: Invalid job id specified\n", "{}\n", ("UNKNOWN", "", "")),
    ],
)
def test_row_12_states_are_those_of_squeue_then_sacct(
    cluster: Desk, run: Path, squeue: str, sacct: str, expected: tuple[str, str, str]
) -> None:
    cluster.fake("squeue", out=squeue)
    cluster.fake("sacct", out=sacct)
    assert state(cluster) == expected


def test_why_a_run_waits_is_told_and_writes_nothing(cluster: Desk, run: Path) -> None:
    before = {name: (run / name).read_text() for name in ("run.json", "states.jsonl")}
    for reason in ("Priority", "Resources"):
        cluster.fake("squeue", out=f"4711|PENDING|{reason}\n")
        assert state(cluster) == ("PENDING", "", reason)
    assert {name: (run / name).read_text() for name in before} == before
    cluster.fake("squeue", out="4711|RUNNING|None\n")
    assert state(cluster) == ("RUNNING", "", "")
    assert (run / "run.json").read_text() == before["run.json"]  # a state is one line more
    assert "RUNNING" in (run / "states.jsonl").read_text().removeprefix(before["states.jsonl"])


def test_a_successor_that_is_queued_while_squeue_is_asked_is_not_missed(cluster: Desk, run: Path) -> None:
    (run / "attempts/4711.0").mkdir()
    (run / "attempts/4711.0/started").touch()
    text = f"#!/bin/bash\necho 4712 > {run}/attempts/4711.0/next-job\necho '4711|FAILED|None|n1|{run}'\n"
    cluster.program("squeue", text)
    cluster.fake("sacct", out="4711|FAILED|75:0|n1\n")
    (record,) = cluster.type("status", "--json").runs
    assert (record["state"], record["job_id"], record["earlier"]) == ("PENDING", "4712", ["4711"])


@pytest.mark.parametrize("answer", ["", "plugin: welcome\n4712\n"], ids=["no answer", "an answer with more words"])
def test_a_successor_whose_submission_the_script_could_not_confirm_is_found(
    cluster: Desk, run: Path, answer: str
) -> None:
    (run / "attempts/4711.0").mkdir()
    (run / "attempts/4711.0/started").touch()
    (run / "attempts/4711.0/next-job").write_text(answer)
    cluster.fake("squeue", out=f"4712|PENDING|Dependency||{run}\n")
    cluster.fake("sacct", out="4711|FAILED|75:0|n1\n")
    (record,) = cluster.type("status", "--json").runs
    assert (record["state"], record["job_id"], record["earlier"]) == ("PENDING", "4712", ["4711"])


def test_a_successor_that_is_queued_later_is_not_queued_twice(cluster: Desk, run: Path) -> None:
    (run / "attempts/4711.0").mkdir()
    (run / "attempts/4711.0/started").touch()
    (run / "attempts/4711.0/next-job").touch()
    cluster.fake("sacct", out="4711|FAILED|75:0|n1\n")
    assert state(cluster)[0] == "FAILED"
    (cluster.spool / "sbatch.args").unlink()
    cluster.fake("squeue", out=f"4712|PENDING|Dependency||{run}\n")
    done = cluster.type("resume", run.name, "--json")
    assert (done.code, done.json["job_id"], done.json["earlier"]) == (0, "4712", ["4711"]), done.err
    assert not (cluster.spool / "sbatch.args").exists()


def test_a_failure_without_an_exit_code_is_asked_for_again(cluster: Desk, run: Path) -> None:
    """As sacct tells it for a while after slurmdbd was down, here of a job whose log could not be opened."""
    shutil.rmtree(run / "logs")
    cluster.fake("sacct", out="4711|FAILED|0:0|n1\n")
    assert state(cluster)[:2] == ("FAILED", "")
    assert "log could not be opened" in state(cluster)[2]
    cluster.fake("sacct", out="4711|FAILED|0:53|n1\n")
    assert state(cluster)[:2] == ("FAILED", "0:53")
    assert "log could not be opened" in state(cluster)[2]


@pytest.mark.parametrize(("code", "expected"), [(0, ("COMPLETED", "0:0", "")), (7, ("FAILED", "7:0", ""))])
def test_row_12_without_accounting_the_runs_own_marks_tell(
    cluster: Desk, run: Path, code: int, expected: tuple[str, str, str]
) -> None:
    mark(run, code)
    assert state(cluster) == expected


@pytest.mark.parametrize("broken", ["missing", "failing"])
def test_row_12_without_an_answer_the_state_is_unknown_never_failed(cluster: Desk, run: Path, broken: str) -> None:
    for name in ("squeue", "sacct"):
        if broken == "missing":
            (cluster.root / "bin" / name).unlink()
        else:
            cluster.fake(name, err="slurm_load_jobs error: Unable to contact slurm controller\n", code=1)
    words = (
        "is not on this machine" if broken == "missing" else "slurm_load_jobs error: Unable to contact slurm controller"
    )
    assert state(cluster) == ("UNKNOWN", "", f"squeue: {words}")


def test_row_13_squeue_is_asked_for_a_fixed_format_never_for_json(cluster: Desk, run: Path) -> None:
    state(cluster)
    for name in ("squeue", "sacct"):
        given = cluster.given(name)
        assert "--json" not in given
        assert [word for word in given if word.startswith("--format=")]
        assert "--jobs=4711" in given


def test_row_14_one_call_asks_for_all_runs(cluster: Desk, run: Path) -> None:
    cluster.fake("sbatch", out="Submitted batch job 4712\n")
    cluster.type("submit", "./train.py")
    cluster.fake("squeue", out="4711|RUNNING|None\n4712|PENDING|Resources\n")
    rows = cluster.type("status", "--json").runs
    assert [(row["job_id"], row["state"]) for row in rows] == [("4712", "PENDING"), ("4711", "RUNNING")]
    (jobs,) = [word for word in cluster.given("squeue") if word.startswith("--jobs=")]
    assert set(jobs.removeprefix("--jobs=").split(",")) == {"4711", "4712"}


def test_settings_of_the_users_shell_do_not_change_squeues_answer(cluster: Desk, run: Path) -> None:
    cluster.type("status", SQUEUE_FORMAT="%all", SACCT_FORMAT="x", SQUEUE_STATES="PD")
    assert not {"SQUEUE_FORMAT", "SQUEUE_STATES"} & cluster.environment_of("squeue").keys()
    assert "SACCT_FORMAT" not in cluster.environment_of("sacct")


def test_an_ended_run_is_not_asked_for_again(cluster: Desk, run: Path) -> None:
    mark(run, 0)
    state(cluster)
    (cluster.spool / "squeue.args").unlink()
    assert state(cluster)[0] == "COMPLETED"
    assert not (cluster.spool / "squeue.args").exists()


def test_status_is_a_table_that_programs_can_read(cluster: Desk, run: Path) -> None:
    names, cells = (line.split("\t") for line in cluster.type("status").out.splitlines())
    assert names[:6] == ["run", "job id", "site", "state", "exit", "created (UTC)"]
    assert names[6:] == ["nodes", "elapsed", "left", "epoch", "reason"]
    assert cells[:4] == [run.name, "4711", "slurmsite", "UNKNOWN"]


def test_status_without_runs(desk: Desk) -> None:
    done = desk.type("status")
    assert (done.code, done.out) == (0, "")
    assert "there is no run yet" in done.err
    assert desk.type("status", "--json").runs == []


@pytest.mark.parametrize("verb", ["status", "logs", "cancel"])
def test_an_unknown_run_is_told(cluster: Desk, run: Path, verb: str) -> None:
    done = cluster.type(verb, run.name[1:])
    assert done.code == 1
    assert f"did you mean {run.name!r}?" in done.err


def test_logs_are_those_of_all_attempts(cluster: Desk, run: Path) -> None:
    for age, text in enumerate(("first\n", "second\n")):
        path = run / f"logs/slurm-{age}.out"
        path.write_text(text)
        os.utime(path, (age, age))
    assert cluster.type("logs").out == "first\nsecond\n"
    assert cluster.type("logs", run.name).out == "first\nsecond\n"


def test_a_log_without_a_word_says_how_the_run_is(cluster: Desk, run: Path) -> None:
    cluster.fake("squeue", out="4711|PENDING|Priority\n")
    done = cluster.type("logs", run.name)
    assert (done.code, done.out, "the log is still empty" in done.err, "is PENDING" in done.err) == (0, "", True, True)


def test_a_held_job_is_told_with_what_releases_it(cluster: Desk, run: Path) -> None:
    cluster.fake("squeue", out="4711|PENDING|JobHeldUser\n")
    assert "you hold it; scontrol release 4711" in cluster.type("status").out
    assert "PENDING (you hold it; scontrol release 4711)" in cluster.type("wait", "--timeout", "1s").err


def test_cancel_asks_scancel(cluster: Desk, run: Path) -> None:
    cluster.fake("squeue", out="4711|RUNNING|None\n")
    done = cluster.type("cancel", run.name)
    assert done.code == 0
    assert cluster.given("scancel") == ["4711"]


@pytest.mark.parametrize(("was", "code"), [("RUNNING", 143), ("PENDING", None)])
def test_row_12_without_accounting_a_cancelled_run_is_cancelled(
    cluster: Desk, run: Path, was: str, code: int | None
) -> None:
    cluster.fake("squeue", out=f"4711|{was}|None\n")
    forgetting = f"#!/bin/bash\n: > {cluster.spool}/squeue.out\n"  # Slurm forgets the job at once
    if code is not None:
        forgetting += f"mkdir {run}/attempts/4711.0\necho {code} > {run}/attempts/4711.0/exit-code\n"
    cluster.program("scancel", forgetting)
    (told,) = cluster.type("cancel", run.name, "--json").runs
    assert (told["state"], told["exit_code"]) == ("CANCELLED", f"{code}:0" if code else "0:0")
    assert state(cluster)[0] == "CANCELLED"


def test_a_job_whose_folder_cannot_be_confirmed_is_not_cancelled(cluster: Desk, run: Path) -> None:
    cluster.fake("squeue", err="slurm_load_jobs error: Unable to contact slurm controller\n", code=1)
    done = cluster.type("cancel", run.name)
    assert (done.code, "scancel: not called, as squeue cannot confirm whose jobs these are" in done.err) == (1, True)
    assert not (cluster.spool / "scancel.args").exists()


def test_cancel_tells_scancels_own_words(cluster: Desk, run: Path) -> None:
    cluster.fake("squeue", out="4711|RUNNING|None\n")
    cluster.fake("scancel", err="scancel: error: Kill job error on job id 4711: Access/permission denied\n", code=1)
    done = cluster.type("cancel", "4711")
    assert (done.code, "Access/permission denied" in done.err) == (1, True)
    assert "only its owner can cancel it" in done.err


def test_cancel_leaves_an_ended_run_alone(cluster: Desk, run: Path) -> None:
    mark(run, 0)
    assert cluster.type("cancel", "4711", "--json").runs[0]["state"] == "COMPLETED"
    assert not (cluster.spool / "scancel.args").exists()


def test_cancel_ends_a_successor_too_that_the_script_submitted_just_before(cluster: Desk, run: Path) -> None:
    (run / "attempts/4711.0").mkdir()
    (run / "attempts/4711.0/started").touch()
    cluster.fake("squeue", out="4711|RUNNING|None\n4712|PENDING|Dependency\n")
    text = f'#!/bin/bash\necho "$*" >> {cluster.spool}/cancelled\necho 4712 > {run}/attempts/4711.0/next-job\n'
    cluster.program("scancel", text)
    assert cluster.type("cancel", run.name).code == 0
    assert (cluster.spool / "cancelled").read_text().split() == ["4711", "4712"]
    assert sorted(path.name for path in (run / "cancelled").iterdir()) == ["4711", "4712"]


def test_a_run_that_another_machine_runs_keeps_no_other_from_being_cancelled(cluster: Desk, run: Path) -> None:
    record = {"name": "x", "site": "local", "scheduler": "local", "created": "2026-01-01T00:00:00Z", "state": "RUNNING"}
    record |= {"job_id": "999", "host": "elsewhere", "uid": str(os.getuid())}
    elsewhere = cluster.write("runs/x-1/run.json", json.dumps(record)).parent
    assert cluster.type("runs", "adopt", str(elsewhere)).code == 0
    cluster.fake("squeue", out="4711|RUNNING|None\n")
    for words in (["--all", "--yes"], [elsewhere.name, run.name], [run.name, elsewhere.name]):
        done = cluster.type("cancel", *words)
        assert (cluster.given("scancel"), done.code) == (["4711"], int(elsewhere.name in words)), done.err
        assert ("x-1 runs on elsewhere" in done.err) == (elsewhere.name in words)
        (cluster.spool / "scancel.args").unlink()


def test_what_was_only_rendered_cannot_be_cancelled(cluster: Desk) -> None:
    cluster.type("render", "./train.py", "-o", "job.sh")
    (run,) = (cluster.project / "runs").iterdir()
    done = cluster.type("cancel", run.name)
    assert (done.code, "was rendered but not submitted" in done.err) == (1, True)


@pytest.mark.parametrize(("ended", "code"), [("COMPLETED|0:0", 0), ("FAILED|7:0", 1), ("TIMEOUT|0:0", 1)])
def test_wait_ends_as_the_run_ends(cluster: Desk, ended: str, code: int) -> None:
    cluster.fake("sacct", out=f"4711|{ended}\n")
    done = cluster.type("submit", "./train.py", "--wait", "--json")
    assert (done.code, done.json["state"]) == (code, ended.partition("|")[0])


def test_wait_passes_the_log_on_and_shows_the_final_metrics(cluster: Desk) -> None:
    cluster.fake("squeue", out="4711|RUNNING|None\n")
    process = cluster.start("submit", "./train.py", "--wait")
    records = (cluster.project / "runs").glob
    wait_for(lambda: any('"RUNNING"' in file.read_text() for file in records("*/states.jsonl")), "it is known to run")
    (run,) = (cluster.project / "runs").iterdir()
    (run / "logs/slurm-4711.out").write_text("epoch 1\n")
    (run / "metrics.jsonl").write_text('{"event": "end", "accuracy": 0.5}\n')
    cluster.fake("squeue")
    cluster.fake("sacct", out="4711|COMPLETED|0:0\n")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out == f"{run}\n"
    for text in ("epoch 1\n", "RUNNING", "COMPLETED", "accuracy"):
        assert text in err


def test_control_c_detaches_and_says_how_to_cancel(cluster: Desk) -> None:
    cluster.fake("squeue", out="4711|RUNNING|None\n")
    process = cluster.start("submit", "./train.py", "--wait")
    asked = cluster.spool / "squeue.args"
    wait_for(lambda: asked.exists() and "%T" in asked.read_text(), "squeue is asked for the state")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "detached; the run continues" in err
    assert "or: scancel 4711" in err
    assert "Traceback" not in err
    assert not (cluster.spool / "scancel.args").exists()


def test_control_c_in_wait_says_which_runs_go_on(cluster: Desk, run: Path) -> None:
    cluster.fake("squeue", out="4711|RUNNING|None\n")
    process = cluster.start("wait", run.name)
    assert process.stderr is not None and process.stderr.readline() == f"{run.name}: RUNNING\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "detached; the run continues" in err
    assert f"hpclaunch wait {run.name}" in err
    assert f"hpclaunch cancel {run.name} (or: scancel 4711)" in err
    assert "Traceback" not in err
    assert not (cluster.spool / "scancel.args").exists()


def test_an_exit_code_that_is_learnt_later_than_the_failure_is_asked_for_and_not_for_ever(
    cluster: Desk, run: Path
) -> None:
    old = run / "run.json"
    os.utime(old, (old.stat().st_mtime - 3600,) * 2)  # it was submitted an hour ago, and fails now
    cluster.fake("squeue", out="4711|FAILED|NonZeroExitCode\n")
    cluster.fake("sacct", out="")
    assert state(cluster)[:2] == ("FAILED", "")
    cluster.fake("squeue", out="")
    assert state(cluster)[:2] == ("FAILED", "")  # accounting still says nothing: what is known stays
    cluster.fake("sacct", out="4711|FAILED|7:0\n")
    history = run / "states.jsonl"
    os.utime(history, (history.stat().st_mtime - 3600,) * 2)
    assert state(cluster)[:2] == ("FAILED", "")  # nobody has said it for an hour
    os.utime(history)
    assert state(cluster)[:2] == ("FAILED", "7:0")
