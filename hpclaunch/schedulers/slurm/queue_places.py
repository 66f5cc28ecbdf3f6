"""The places of waiting jobs in Slurm's queue, and the starts that it expects, with one call of squeue a cluster."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from hpclaunch.core.records import record
from hpclaunch.core.units import whole_number
from hpclaunch.runs import JobIdentity, Jobs
from hpclaunch.schedulers import QueuePlace
from hpclaunch.schedulers.slurm.addresses import jobs_by_address
from hpclaunch.schedulers.slurm.components import job_of
from hpclaunch.schedulers.slurm.configuration import configuration
from hpclaunch.schedulers.slurm.programs import ask, asking


@record
class _Line:
    """A job that waits, as squeue prints it. An array is one job; a job that names several partitions waits in each."""

    job_id: str
    partitions: tuple[str, ...]
    priority: int | None
    start: datetime | None
    submitted: int | None
    folder: str


def queue_places(jobs: Jobs, partitions: Sequence[str]) -> dict[JobIdentity, QueuePlace]:
    """Return job -> its place, of those of the jobs that wait.

    ``%S`` of a job that waits is what ``squeue --start`` shows, and ``%Q`` the priority by which Slurm's main scheduler
    sorts (squeue manual). Backfill may start a job with a lower priority first. Where the site hides the jobs of
    others (PrivateData), no job has a known number before it.
    """
    found: dict[JobIdentity, QueuePlace] = {}
    for address, there in jobs_by_address(jobs):
        with asking(address):
            found |= _places_at_one(there, partitions)
    return found


def _places_at_one(wanted: Jobs, partitions: Sequence[str]) -> dict[JobIdentity, QueuePlace]:
    some = [f"--partition={','.join(sorted(set(partitions)))}"] if partitions and all(partitions) else []
    options = ["--noheader", "--states=PENDING", *some, "--format=%i|%P|%Q|%S|%V|%Z"]
    answer = ask(["squeue", *options], epoch_times=True)
    lines = {line.job_id: line for text in answer.text.split("\n") if (line := _line_in(text)) is not None}
    own = {job: line for job in wanted if (line := lines.get(job.array_id)) and job.is_job(line.folder, line.submitted)}
    if not own:
        return {}
    priorities = {} if _hides_jobs() else _priorities(lines)
    return {job: QueuePlace(before=_count_before(line, priorities), start=line.start) for job, line in own.items()}


def _line_in(text: str) -> _Line | None:
    named, partition, priority, start, submitted, folder = [*text.split("|", 5), "", "", "", "", ""][:6]
    if not partition:
        return None
    return _Line(
        job_id=job_of(named).partition("_")[0],
        partitions=tuple(partition.split(",")),
        priority=whole_number(priority),
        start=_time(start),
        submitted=whole_number(submitted),
        folder=folder,
    )


def _time(text: str) -> datetime | None:
    seconds = whole_number(text)  # None: N/A
    try:
        return datetime.fromtimestamp(seconds) if seconds else None
    except (ValueError, OverflowError, OSError):
        return None


def _hides_jobs() -> bool:
    """Whether a user sees only their own jobs (slurm.conf manual, PrivateData)."""
    return "jobs" in configuration().get("PrivateData", "").lower().split(",")


def _priorities(lines: Mapping[str, _Line]) -> dict[str, list[int]]:
    """Return partition -> the priorities of the jobs that wait in it, in ascending order."""
    found: dict[str, list[int]] = defaultdict(list)
    for line in lines.values():
        if line.priority is not None:
            for name in line.partitions:
                found[name].append(line.priority)
    return {name: sorted(numbers) for name, numbers in found.items()}


def _count_before(line: _Line, priorities: Mapping[str, list[int]]) -> int | None:
    """Return how many jobs have a higher priority, in the partition where they are fewest."""
    if line.priority is None or not priorities:
        return None
    known = [priorities[name] for name in line.partitions]  # each holds at least this job's own
    return min(len(numbers) - bisect_right(numbers, line.priority) for numbers in known)
