"""Records that are not this user's own: shown, and never acted on; runs that were moved and taken back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Desk
from tests.cli.test_runs_kept import ended, submit

VERBS = (
    ("cancel", "RUN"),
    ("retry", "RUN"),
    ("resume", "RUN"),
    ("resume", "RUN", "--nodes", "2"),
    ("wait", "RUN", "--retries", "3"),
    ("runs", "clean", "RUN", "--yes"),
    ("runs", "forget", "RUN", "--yes"),
)


def copied(desk: Desk, run: Path, **changes: object) -> Path:
    """The run's directory in another folder of runs, as a clone of a repository would hold it."""
    clone = desk.project / "clone/runs" / run.name
    shutil.copytree(run, clone)
    record = json.loads((clone / "run.json").read_text())
    (clone / "run.json").write_text(json.dumps({**record, **changes}))
    (clone / "states.jsonl").unlink()
    return clone


@pytest.mark.parametrize("state", ["RUNNING", "NODE_FAIL", "SUBMITTING"])
@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_a_record_that_is_not_the_users_is_never_acted_on(cluster: Desk, words: tuple[str, ...], state: str) -> None:
    run = copied(cluster, submit(cluster, 4711), state=state)
    (cluster.spool / "sbatch.args").unlink()
    done = cluster.type(*(str(run) if word == "RUN" else word for word in words))
    if state == "NODE_FAIL" and words[0] in ("cancel", "wait"):  # it has ended, so there is nothing to do
        assert "is not known as a run of yours" in done.out
    else:
        assert (done.code, f"{run.name} is not known as a run of yours" in done.err) == (1, True)
        assert f"hpclaunch runs adopt {run}" in done.err
    assert not (cluster.spool / "scancel.args").exists()
    assert not (cluster.spool / "sbatch.args").exists()
    assert run.is_dir() and not (run / "states.jsonl").exists()


def test_it_is_shown_as_last_recorded_and_nothing_is_asked(cluster: Desk) -> None:
    run = copied(cluster, submit(cluster, 4711), state="RUNNING")
    (cluster.spool / "squeue.args").unlink()  # of the submission
    (row,) = cluster.type("status", str(run), "--json").runs
    assert (row["state"], "is not known as a run of yours" in row["reason"]) == ("RUNNING", True)
    assert not (cluster.spool / "squeue.args").exists()
    assert cluster.type("runs", "show", str(run)).code == 0


def test_a_stranger_takes_neither_the_name_nor_the_place_of_the_newest_run(cluster: Desk) -> None:
    own = submit(cluster, 4711)
    stranger = cluster.project / "runs/stranger"
    shutil.copytree(own, stranger)
    record = json.loads((own / "run.json").read_text())
    (stranger / "run.json").write_text(json.dumps({**record, "created": "9999-01-01T00:00:00Z"}))
    for words in (("status", "4711", "--json"), ("runs", "show", "--json")):
        value = cluster.type(*words).json
        assert value.get("runs", [value])[0]["run_dir"] == str(own)


def test_a_run_that_was_moved_is_taken_back(cluster: Desk) -> None:
    run = submit(cluster, 4711)
    moved = run.parent / "moved"
    run.rename(moved)
    assert "is not known as a run of yours" in cluster.type("cancel", str(moved)).err
    done = cluster.type("runs", "adopt", str(moved), "--json")
    assert (done.code, [row["run_dir"] for row in done.runs]) == (0, [str(moved)])
    assert str(moved) in (cluster.home / ".local/state/hpclaunch/runs.txt").read_text()
    assert "not known as a run of yours" not in cluster.type("cancel", "moved").err


def test_the_script_of_a_run_that_was_moved_is_not_started_again_before_it_is_written_again(cluster: Desk) -> None:
    run = submit(cluster, 4711)
    ended(cluster, j4711="TIMEOUT|0:0")
    assert cluster.type("status").code == 0
    moved = run.parent / "moved"
    run.rename(moved)
    assert cluster.type("runs", "adopt", str(moved)).code == 0
    (cluster.spool / "sbatch.args").unlink()
    done = cluster.type("resume", "moved")
    assert (done.code, f"this run was moved or copied from {run}" in done.err) == (1, True), done.err
    assert not (cluster.spool / "sbatch.args").exists()
    assert "hpclaunch resume moved --nodes N" in done.err
    done = cluster.type("resume", "moved", "--nodes", "1")
    assert done.code == 0, done.err
    script = (cluster.spool / "script").read_text()
    assert f"#SBATCH --chdir={moved}\n" in script and str(run) not in script
    ended(cluster, j4712="NODE_FAIL|0:0")
    assert cluster.type("retry", "moved").code == 0


def test_a_copy_whose_original_is_still_there_does_not_start_the_originals_script(cluster: Desk) -> None:
    run = submit(cluster, 4711)
    copy = copied(cluster, run, state="NODE_FAIL", job_id="")
    assert cluster.type("runs", "adopt", str(copy)).code == 0
    for verb in ("resume", "retry"):
        done = cluster.type(verb, str(copy))
        assert (done.code, f"moved or copied from {run}" in done.err) == (1, True), done.err


def test_a_list_of_own_runs_that_cannot_be_written_has_a_next_step(cluster: Desk) -> None:
    run = submit(cluster, 4711)
    done = cluster.type("runs", "adopt", str(run), XDG_STATE_HOME="/proc/nowhere")
    assert (done.code, "set XDG_STATE_HOME" in done.err) == (1, True), done.err


def test_a_copy_that_is_adopted_leaves_the_run_its_owner(cluster: Desk) -> None:
    run = submit(cluster, 4711)
    copy = copied(cluster, run, state="COMPLETED")
    assert cluster.type("runs", "adopt", str(copy)).code == 0
    for path in (run, copy):
        (row,) = cluster.type("status", str(path), "--json").runs
        assert "not known" not in row["reason"]


def test_a_directory_that_was_made_again_under_the_name_of_a_run_is_another_one(cluster: Desk) -> None:
    run = submit(cluster, 4711)
    record = (run / "run.json").read_text()
    keep = run.with_name("kept-so-that-its-inode-stays")
    run.rename(keep)
    run.mkdir()
    (run / "run.json").write_text(record)
    assert "is not known as a run of yours" in cluster.type("cancel", str(run)).err


def test_what_cannot_be_adopted_says_why(cluster: Desk) -> None:
    run = submit(cluster, 4711)
    done = cluster.type("runs", "adopt", str(run), "nowhere", str(cluster.home))
    assert (done.code, done.err.count("is not a run directory")) == (1, 2)


def test_a_run_that_is_deleted_leaves_the_list_of_own_runs(cluster: Desk) -> None:
    run = submit(cluster, 4711)
    own = cluster.home / ".local/state/hpclaunch/own-runs"
    assert len(list(own.iterdir())) == 1
    (run / "run.json").write_text((run / "run.json").read_text().replace('"PENDING"', '"COMPLETED"'))
    (run / "states.jsonl").unlink()
    done = cluster.type("runs", "clean", run.name, "--yes")
    assert (done.code, list(own.iterdir())) == (0, []), done.err


def test_no_signal_reaches_a_process_that_a_record_of_others_names(desk: Desk) -> None:
    victim = subprocess.Popen(["bash", "-c", "sleep 1000; true"], env={**os.environ, "SUBMITIT_LOCAL_JOB_ID": "4711"})
    try:
        for job_id in (str(victim.pid), f"by-hand-{victim.pid}", "4711"):
            record = {
                "name": "x",
                "site": "local",
                "scheduler": "local",
                "created": "2026-01-01T00:00:00Z",
                "state": "RUNNING",
                "job_id": job_id,
                "host": os.uname().nodename,
                "uid": str(os.getuid()),
            }
            desk.write(f"runs/x-{job_id}/run.json", json.dumps(record))
            done = desk.type("cancel", f"runs/x-{job_id}")
            assert (done.code, "is not known as a run of yours" in done.err) == (1, True)
        desk.type("cancel", "--all", "--yes")
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


def state_folder(desk: Desk) -> Path:
    return desk.home / ".local/state/hpclaunch"


def test_a_run_that_could_not_be_listed_is_found_by_its_job_and_its_folder(ordinary_user: Desk) -> None:
    """The home was read-only while it was submitted."""
    desk = ordinary_user
    state_folder(desk).mkdir(parents=True)
    state_folder(desk).chmod(0o500)
    run = submit(desk, 4711)
    assert not list(state_folder(desk).iterdir())
    desk.fake("squeue", out="4711|RUNNING|None|n1\n")
    (told,) = desk.type("status", "--json").runs
    assert (told["state"], "is not known as a run of yours" in told["reason"]) == ("PENDING", True), "still read-only"
    state_folder(desk).chmod(0o700)
    (told,) = desk.type("status", "--json").runs
    assert (told["run_dir"], told["state"], told["reason"]) == (str(run), "RUNNING", ""), told
    assert desk.type("cancel", run.name).code == 0


def test_a_run_whose_job_could_not_be_recorded_is_found_by_its_folder(ordinary_user: Desk) -> None:
    desk = ordinary_user
    run = submit(desk, 4711)
    record = json.loads((run / "run.json").read_text())
    # As it was before the answer: the directory could not be written then.
    (run / "run.json").write_text(json.dumps({**record, "state": "SUBMITTING", "job_id": ""}))
    for name in ("states.jsonl", "submissions/1.ended"):
        (run / name).unlink()
    desk.fake("squeue", out=f"4711|RUNNING|None|n1|{run}\n")
    (told,) = desk.type("status", "--json").runs
    assert (told["job_id"], told["state"]) == ("4711", "RUNNING")
    assert json.loads((run / "run.json").read_text())["job_id"] == "4711"


def test_a_clone_is_not_taken_for_a_run_that_could_not_be_listed(cluster: Desk) -> None:
    """Only a job of this user in its very directory proves that; a record can name any job."""
    run = submit(cluster, 4711)
    clone = copied(cluster, run, state="RUNNING", token="0" * 32)
    cluster.fake("squeue", out=f"4711|RUNNING|None|n1|{run}\n")
    for words in (("status", str(clone)), ("cancel", str(clone))):
        done = cluster.type(*words)
        assert "is not known as a run of yours" in done.out + done.err
    assert not (state_folder(cluster) / "own-runs" / ("0" * 32)).exists()
    assert not (cluster.spool / "scancel.args").exists()
