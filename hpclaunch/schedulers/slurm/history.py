"""The waiting times of past jobs, from sacct, and the start that sbatch estimates."""

from __future__ import annotations

import re
from datetime import datetime

from hpclaunch.core.units import parse_walltime, whole_number
from hpclaunch.guidelines.queue import Past
from hpclaunch.schedulers.slurm.programs import ask

_FIELDS = "Submit,Eligible,Start,NNodes,Timelimit,Partition,QOS"
_START = re.compile(r"to start at (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)")


def past_jobs(days: int) -> list[Past]:
    """Return the jobs that started within the last ``days`` days: those of all users, if the site shows them.

    Without accounting there are none. A job waits from the time when it may start: dependencies and ``--begin`` do
    not count.
    """
    options = ["--allusers", "--allocations", "--noheader", "--parsable2", f"--format={_FIELDS}"]
    answer = ask(["sacct", *options, f"--starttime=now-{days}days", "--endtime=now"], without=("SLURM_TIME_FORMAT",))
    return [job for line in answer.text.split("\n") if (job := _parse(line.split("|"))) is not None]


def _parse(words: list[str]) -> Past | None:
    """Return a line of sacct as a job; None if the job has not started, or if its waiting time is unknown."""
    nodes = whole_number(words[3]) if len(words) == 7 else None
    if not nodes:
        return None
    submit, eligible, start = (_time(word) for word in words[:3])
    if submit is None or start is None:
        return None
    free = max(submit, eligible) if eligible else submit
    waited = (start - free).total_seconds()
    if waited < 0:  # requeued: Slurm keeps the first start
        return None
    return Past(waited_s=waited, nodes=nodes, partition=words[5], qos=words[6], walltime=_walltime(words[4]))


def _time(word: str) -> datetime | None:
    try:
        return datetime.strptime(word, "%Y-%m-%dT%H:%M:%S")
    except ValueError:
        return None


def _walltime(word: str) -> int | None:
    try:
        return parse_walltime(word)
    except ValueError:
        return None  # UNLIMITED, Partition_Limit


def start_in(words: str) -> datetime | None:
    """Return the start in the answer of ``sbatch --test-only``, in local time; None if there is none."""
    found = _START.search(words)
    return _time(found[1]) if found else None
