"""The places of waiting jobs, by a fake squeue on PATH."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from hpclaunch import runs
from hpclaunch.runs import Jobs, identity_of
from hpclaunch.schedulers import QueuePlace
from hpclaunch.schedulers.slurm import configuration
from hpclaunch.schedulers.slurm.queue_places import queue_places
from tests.builders import a_run

START = datetime(2026, 1, 2, 3, 4, 5)
ANSWER = f"""\
10|batch|900|{START.timestamp():.0f}|5|FOLDER/run-10
11|batch|500|N/A|5|FOLDER/run-11
4711_[3-9%2]|batch|500|{START.timestamp():.0f}|5|FOLDER/run-4711
12|batch,debug|700|N/A|5|FOLDER/run-12
13|debug|600|N/A|5|/elsewhere
14|debug|1|N/A|5|/elsewhere
7+0|debug|100|N/A|5|FOLDER/run-7
7+1|debug|100|N/A|5|FOLDER/run-7
damaged
"""


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on PATH with a squeue that gives the answer and notes its arguments."""
    (tmp_path / "bash").symlink_to("/bin/bash")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SLURM_CONF", str(tmp_path))  # the configuration is kept for each cluster
    asked = f"{tmp_path}/asked"
    write(
        tmp_path,
        "squeue",
        f'echo "$@" > {asked}; echo -n "$SLURM_TIME_FORMAT" >> {asked}',
        ANSWER.replace("FOLDER", str(tmp_path)),
    )
    write(tmp_path, "scontrol", "", "PrivateData = none\n")
    return tmp_path


def write(folder: Path, name: str, line: str, answer: str) -> None:
    text = f"#!/bin/bash\n{line}\nwhile IFS= read -r x; do echo \"$x\"; done <<'EOF'\n{answer}EOF\n"
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def test_jobs_with_a_higher_priority_in_the_same_partition_come_before(
    squeue: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_TIME_FORMAT", "%H")
    array = replace(a_run(squeue, "4711"), tasks=9)
    tasks = [runs.task_of(array, index) for index in (3, 4)]
    single = [a_run(squeue, number) for number in ("10", "11", "12", "7", "99", "14")]
    found = {job.job_id: place for job, place in queue_places(Jobs([*single, *tasks]), ["debug", "batch"]).items()}
    third = QueuePlace(before=2, start=START)
    assert found == {
        "10": QueuePlace(before=0, start=START),
        "11": QueuePlace(before=2),
        "4711_3": third,
        "4711_4": third,
        "12": QueuePlace(before=0),
        "7": QueuePlace(before=2),
    }
    asked = (squeue / "asked").read_text()
    assert "--states=PENDING --partition=batch,debug" in asked and "--start" not in asked
    assert not asked.endswith("%H"), "times have the format that is read"


def test_places_are_not_guessed_where_the_site_hides_the_jobs_of_others(squeue: Path) -> None:
    write(squeue, "scontrol", "", "PrivateData = accounts,jobs\n")
    configuration._known.clear()
    mine = [a_run(squeue, number) for number in ("11", "10")]
    found = queue_places(Jobs(mine), ["batch", ""])
    assert found == {identity_of(mine[0]): QueuePlace(), identity_of(mine[1]): QueuePlace(start=START)}
    assert "--partition" not in (squeue / "asked").read_text(), "one of the partitions is not known"


def test_no_call_is_made_for_no_jobs_and_a_silent_squeue_has_no_places(squeue: Path) -> None:
    assert queue_places(Jobs([]), []) == {}
    assert not (squeue / "asked").exists()
    write(squeue, "squeue", "exit 1", "")
    assert queue_places(Jobs([a_run(squeue, "10")]), []) == {}


@pytest.mark.parametrize("start", ["N/A", "0", "", "9" * 15])
def test_a_start_that_slurm_does_not_know_is_none(squeue: Path, start: str) -> None:
    write(squeue, "squeue", "", f"10|batch|900|{start}|5|{squeue}/run-10\n")
    run = a_run(squeue, "10")
    assert queue_places(Jobs([run]), ["batch"]) == {identity_of(run): QueuePlace(before=0)}
