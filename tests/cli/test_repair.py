"""``runs repair``: the only way to change the record of an ended run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.conftest import Desk
from tests.cli.test_runs_kept import ended, submit


def history(run: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (run / "states.jsonl").read_text().splitlines()]


def begun(run: Path, job: str) -> None:
    (run / f"attempts/{job}.0").mkdir(parents=True)
    (run / f"attempts/{job}.0/started").write_text("2026-11-27T00:00:00Z\n")


def test_the_history_keeps_who_when_why_and_what_it_said_before(cluster: Desk) -> None:
    run = submit(cluster, 1)
    begun(run, "1")
    ended(cluster, j1="FAILED|7:0")
    assert cluster.type("status", "1").code == 0
    done = cluster.type("runs", "repair", run.name, "--state", "completed", "--reason", "the end was cut off", "--json")
    (told,) = done.runs
    assert (told["state"], told["exit_code"]) == ("COMPLETED", "0:0"), done.err
    assert told["reason"].startswith("the end was cut off (repaired by "), told["reason"]
    assert f", uid {os.getuid()}, on {told['repaired']}; it was FAILED 7:0)" in told["reason"]
    last = history(run)[-1]
    assert (last["state"], last["repaired"], last["reason"]) == ("COMPLETED", told["repaired"], told["reason"])
    assert [line["state"] for line in history(run)][-2:] == ["FAILED", "COMPLETED"]
    (cluster.spool / "sacct.args").unlink()
    assert cluster.type("status", "--json").runs[0]["state"] == "COMPLETED"
    assert not (cluster.spool / "sacct.args").exists(), "a repaired run is not asked about"
    assert cluster.type("wait", run.name).code == 0
    again = cluster.type("runs", "repair", run.name, "--state", "FAILED", "--reason", "no, it was not")
    assert again.code == 0 and history(run)[-1]["state"] == "FAILED"
    (told,) = cluster.type("status", "--json").runs
    assert (told["state"], told["exit_code"]) == ("FAILED", ""), "accounting's 7:0 is not added"


@pytest.mark.parametrize(
    ("state", "words", "reason"),
    [
        ("RUNNING", "a run cannot be given the state 'RUNNING'", "x"),
        ("NOT_SUBMITTED", "a run cannot be given the state 'NOT_SUBMITTED'", "x"),
        ("FORGOTTEN", "a run cannot be given the state 'FORGOTTEN'", "x"),
        ("COMPLETE", "allowed: BOOT_FAIL, CANCELLED, COMPLETED, DEADLINE, FAILED, NODE_FAIL", "x"),
        ("FAILED", "--reason: is empty", "  "),
        ("FAILED", "--reason: is too long, or has a control character", "a\x1b[2J"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_looked_up(
    cluster: Desk, state: str, words: str, reason: str
) -> None:
    done = cluster.type("runs", "repair", "any", "--state", state, "--reason", reason)
    assert (done.code, words in done.err) == (2, True), done.err


def test_a_run_that_cannot_have_this_end_is_refused_with_what_to_do(cluster: Desk) -> None:
    run, live = submit(cluster, 1), submit(cluster, 2)
    cluster.fake("squeue", out="2|RUNNING|None|n1\n")
    ended(cluster, j1="FAILED|7:0")
    assert cluster.type("status").code == 0
    before = {path: path.read_bytes() for path in cluster.project.rglob("*") if path.is_file()}
    for name, state, words in (
        (run.name, "COMPLETED", "no start of its script has left a mark"),
        (run.name, "FAILED", "is FAILED already"),
        (live.name, "FAILED", f"has not ended: it is RUNNING\n    next: hpclaunch wait {live.name}, or hpclaunch canc"),
    ):
        done = cluster.type("runs", "repair", name, "--state", state, "--reason", "x")
        assert (done.code, words in done.err) == (1, True), done.err
    cluster.fake("squeue")
    cluster.fake("sacct")
    done = cluster.type("runs", "repair", live.name, "--state", "FAILED", "--reason", "x")
    assert (done.code, f"hpclaunch runs forget {live.name}" in done.err) == (1, True), done.err
    after = {path: path.read_bytes() for path in before}
    before = {path: text for path, text in before.items() if path.parent != live}
    assert {path: after[path] for path in before} == before


def test_a_new_start_of_a_repaired_run_is_followed_again(cluster: Desk) -> None:
    run = submit(cluster, 1)
    ended(cluster, j1="FAILED|7:0")
    assert cluster.type("status", "1").code == 0
    assert cluster.type("runs", "repair", run.name, "--state", "NODE_FAIL", "--reason", "the node's disk").code == 0
    assert cluster.type("retry", run.name).code == 0
    cluster.fake("squeue", out="2|RUNNING|None|n1\n")
    (told,) = cluster.type("status", "--json").runs
    assert (told["state"], told["job_id"], told["repaired"]) == ("RUNNING", "2", "")


def test_one_run_of_an_array_is_repaired_and_the_array_follows(cluster: Desk) -> None:
    cluster.write("jobs/tune/job.yaml", "summary: sweeps\nscript: train.py\nparameters:\n  seed: 1\n")
    cluster.write("jobs/tune/train.py", "print(1)\n")
    cluster.fake("sbatch", out="Submitted batch job 1\n")
    array = Path(cluster.type("submit", "tune", "--sweep", "seed=1..2", "--json").json["run_dir"])
    cluster.fake("sacct", out="1_0|FAILED|7:0|n1\n1_1|COMPLETED|0:0|n1\n")
    assert cluster.type("status", array.name).code == 0
    begun(array / "0000", "1_0")
    whole = cluster.type("runs", "repair", array.name, "--state", "COMPLETED", "--reason", "x")
    assert (whole.code, "is a job array" in whole.err) == (1, True), whole.err
    done = cluster.type("runs", "repair", "1_0", "--state", "COMPLETED", "--reason", "fine by hand", "--json")
    assert done.code == 0, done.err
    assert done.runs[0]["state"] == "COMPLETED" and "it was FAILED 7:0" in done.runs[0]["reason"]
    assert [one["state"] for one in cluster.type("status", array.name, "--json").runs] == ["COMPLETED"] * 2
    notes = [line for line in history(array) if "repaired" in line]
    assert len(notes) == 1 and notes[0]["task"] == "0000" and "fine by hand" in notes[0]["repaired"]
    assert json.loads((array / "states.jsonl").read_text().splitlines()[-1])["state"] == "COMPLETED"
