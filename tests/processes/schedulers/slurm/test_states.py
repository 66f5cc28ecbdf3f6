"""What squeue and sacct answer about runs: fakes on PATH."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.core.errors import SchedulerError
from hpclaunch.schedulers import NEVER_BEGUN, Status
from hpclaunch.schedulers.slurm import scheduler, states
from tests.builders import a_run


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH beside the system's shell; fake programs go there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "bash").symlink_to("/bin/bash")
    monkeypatch.setenv("PATH", str(folder))
    return folder


def fake(folder: Path, name: str, answer: str, code: int = 0) -> None:
    """Put a program on PATH that answers so; each job has the folder of its run (``a_run``) as its working folder."""
    lines = [line + "|" * (3 - line.count("|")) for line in answer.splitlines()]
    answer = "\n".join(f"{line}|{folder.parent}/run-{line.partition('|')[0].partition('_')[0]}" for line in lines)
    (folder / name).write_text(
        f"#!/bin/bash\nwhile read -r x; do echo \"$x\"; done <<'EOF'\n{answer}\nEOF\nexit {code}\n"
    )
    (folder / name).chmod(0o755)


def test_row_12_each_run_is_answered_by_the_first_who_knows(tmp_path: Path, program: Path) -> None:
    fake(program, "squeue", "1|RUNNING|None\n2|COMPLETED|None")
    fake(program, "sacct", "2|COMPLETED|0:0\n3|NODE_FAIL|1:0\n1|FAILED|9:9")
    marked = a_run(tmp_path, "4")
    (marked.path / "attempts/4.0").mkdir(parents=True)
    (marked.path / "attempts/4.0/exit-code").write_text("5")
    ended = a_run(tmp_path, "5", state="CANCELLED")
    runs = [a_run(tmp_path, "1"), a_run(tmp_path, "2"), a_run(tmp_path, "3"), marked, ended, a_run(tmp_path, "6")]
    assert states.states(runs) == {
        "1": Status(state="RUNNING"),
        "2": Status(state="COMPLETED", exit_code="0:0"),
        "3": Status(state="NODE_FAIL", exit_code="1:0"),
        "4": Status(state="FAILED", exit_code="5:0"),
        "5": Status(state="CANCELLED"),
        "6": Status(state="UNKNOWN"),
    }


def test_an_exit_code_that_sacct_cuts_is_told_whole(tmp_path: Path, program: Path) -> None:
    fake(program, "squeue", "")
    fake(program, "sacct", "1|FAILED|9:0\n2|FAILED|9:0\n3|FAILED|0:9\n4|FAILED|9:0")
    runs = [a_run(tmp_path, job_id) for job_id in "1234"]
    for run, code in zip(runs[:3], ("137", "9", "137"), strict=True):
        (run.path / f"attempts/{run.job_id}.0").mkdir(parents=True)
        (run.path / f"attempts/{run.job_id}.0/exit-code").write_text(code)
    told = states.states(runs)
    assert [told[job_id].exit_code for job_id in "1234"] == ["137:0", "9:0", "0:9", "9:0"]


def test_row_12_a_run_that_may_have_been_queued_again_has_not_failed_while_squeue_is_silent(
    tmp_path: Path, program: Path
) -> None:
    fake(program, "sacct", "1|REQUEUED|0:0")
    runs = [a_run(tmp_path, job_id) for job_id in "123"]
    for run, most, code in zip(runs, (50, 0, 50), ("75", "75", "0"), strict=True):
        (run.path / f"attempts/{run.job_id}.0").mkdir(parents=True)
        (run.path / f"attempts/{run.job_id}.0/exit-code").write_text(code)
        (run.path / "spec.json").write_text(json.dumps({"restarts": {"most": most, "by": "requeue"}}))
    told = states.states(runs)
    assert [told[job_id].state for job_id in "123"] == ["UNKNOWN", "FAILED", "COMPLETED"]
    fake(program, "squeue", "")
    fake(program, "sacct", "")
    assert states.states(runs[:1])["1"].state == "FAILED", "squeue answers, and knows of no further start"


@pytest.mark.parametrize("accounting", ["1_0|FAILED|7:0\n1_2|PENDING|0:0", "1_0|FAILED|7:0\n1_[1-2]|PENDING|0:0"])
def test_a_task_that_was_cancelled_while_it_waited_is_known_before_accounting_hears_of_it(
    tmp_path: Path, program: Path, accounting: str
) -> None:
    fake(program, "squeue", "1_2|PENDING|Priority|")
    fake(program, "sacct", accounting)
    tasks = [replace(a_run(tmp_path, f"1_{index}"), index=index) for index in range(3)]
    tasks = [replace(task, path=tmp_path / "run-1" / task.path.name) for task in tasks]  # all have the array's folder
    assert states.states(tasks) == {
        "1_0": Status(state="FAILED", exit_code="7:0"),
        "1_1": NEVER_BEGUN,
        "1_2": Status(state="PENDING", reason="Priority"),
    }
    fake(program, "squeue", "", code=1)
    assert states.states(tasks[1:2])["1_1"].state != "CANCELLED", "a squeue that does not answer tells nothing"


def test_row_12_programs_that_are_not_there_are_no_traceback(tmp_path: Path, program: Path) -> None:
    reason = "squeue: is not on this machine"
    assert states.states([a_run(tmp_path, "1")]) == {"1": Status(state="UNKNOWN", reason=reason)}
    with pytest.raises(SchedulerError, match="scancel: not called, as squeue cannot confirm"):
        scheduler.cancel([a_run(tmp_path, "1")])
    with pytest.raises(SchedulerError, match="there is no sbatch on this machine"):
        scheduler.submit(a_run(tmp_path), "", 0)
