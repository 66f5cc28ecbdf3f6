"""How long past jobs have waited, according to sacct."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from hpclaunch.guidelines.queue import Past
from hpclaunch.schedulers.slurm.history import past_jobs, start_in

T = "2026-01-02T03:00:{:02}"


@pytest.fixture
def sacct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file from which sacct answers; it notes what it is asked."""
    program, answer = tmp_path / "bin/sacct", tmp_path / "answer"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" "format $SLURM_TIME_FORMAT" > {tmp_path}/asked\ncat {answer}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    answer.touch()
    return answer


def test_the_jobs_of_all_users_are_asked_for_and_times_in_one_form(sacct: Path) -> None:
    assert past_jobs(14) == []
    assert set(sacct.with_name("asked").read_text().splitlines()) == {
        *("--allusers", "--allocations", "--noheader", "--parsable2", "--starttime=now-14days", "--endtime=now"),
        *("--format=Submit,Eligible,Start,NNodes,Timelimit,Partition,QOS", "format "),
    }


@pytest.mark.parametrize(
    ("line", "waited"),
    [
        (f"{T.format(0)}|{T.format(0)}|{T.format(30)}|2|01:00:00|gpu|normal", 30.0),
        (f"{T.format(0)}|{T.format(10)}|{T.format(30)}|2|01:00:00|gpu|normal", 20.0),
        (f"{T.format(10)}|{T.format(0)}|{T.format(30)}|2|01:00:00|gpu|normal", 20.0),
        (f"{T.format(0)}|Unknown|{T.format(30)}|2|01:00:00|gpu|normal", 30.0),
        (f"{T.format(5)}|{T.format(5)}|{T.format(5)}|2|01:00:00|gpu|normal", 0.0),
        (f"{T.format(30)}|{T.format(30)}|{T.format(0)}|2|01:00:00|gpu|normal", None),
        (f"{T.format(0)}|{T.format(0)}|Unknown|2|01:00:00|gpu|normal", None),
        (f"Unknown|{T.format(0)}|{T.format(30)}|2|01:00:00|gpu|normal", None),
        (f"{T.format(0)}|{T.format(0)}|{T.format(30)}|0|01:00:00|gpu|normal", None),
        (f"{T.format(0)}|{T.format(0)}|{T.format(30)}|x|01:00:00|gpu|normal", None),
        (f"{T.format(0)}|{T.format(0)}|{T.format(30)}|2|01:00:00|gpu", None),
        ("sacct: a word of the site", None),
    ],
)
def test_a_job_waits_from_the_time_when_it_may_start(sacct: Path, line: str, waited: float | None) -> None:
    """Slurm keeps the first start of a job that was queued again: then its waiting time is not known."""
    good = f"{T.format(0)}|{T.format(0)}|{T.format(1)}|1|UNLIMITED|cpu|low"
    sacct.write_text(f"{line}\n{good}\n")
    other = Past(waited_s=1.0, nodes=1, partition="cpu", qos="low", walltime=None)
    found = [] if waited is None else [Past(waited_s=waited, nodes=2, partition="gpu", qos="normal", walltime=3600)]
    assert past_jobs(1) == [*found, other]


def test_the_start_that_sbatch_expects_is_in_its_words() -> None:
    words = "sbatch: Job 7 to start at 2026-01-02T03:04:05 using 2 processors on nodes n1 in partition gpu"
    assert start_in(words) == datetime(2026, 1, 2, 3, 4, 5)
    assert start_in("sbatch: error: invalid partition") is start_in("Job 7 to start at 2026-99-02T03:04:05") is None
