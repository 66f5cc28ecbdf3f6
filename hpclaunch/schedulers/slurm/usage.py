"""What jobs used, from Slurm's accounting: one call of sacct a cluster."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from hpclaunch.core.units import whole_number
from hpclaunch.runs import JobIdentity, Jobs
from hpclaunch.schedulers import JobUsage
from hpclaunch.schedulers.slurm.addresses import jobs_by_address
from hpclaunch.schedulers.slurm.arrays import ids_in, ids_to_query
from hpclaunch.schedulers.slurm.programs import ask, asking
from hpclaunch.schedulers.slurm.states import owners, portions
from hpclaunch.sites.slurm_text import tres_in

_FIELDS = (
    *("JobID", "ElapsedRaw", "NNodes", "NCPUS", "TotalCPU", "AllocTRES", "TRESUsageInTot", "ConsumedEnergyRaw"),
    *("Cluster", "Submit", "WorkDir"),
)
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_CLOCK = re.compile(r"(?:(?P<days>\d+)-)?(?:(?P<hours>\d+):)?(?P<minutes>\d+):(?P<seconds>\d+(?:\.\d+)?)")


def usage(jobs: Jobs) -> dict[JobIdentity, JobUsage]:
    """Return job -> what it used. Without accounting, or for a job that is another one by now, there is nothing.

    Of a job that was queued again sacct reports the last start.
    """
    found: dict[JobIdentity, JobUsage] = {}
    for address, there in jobs_by_address(jobs):
        with asking(address):
            found |= _usage_at_one(there)
    return found


def _usage_at_one(jobs: Jobs) -> dict[JobIdentity, JobUsage]:
    options = ["--noheader", "--parsable2", "--noconvert", f"--format={','.join(_FIELDS)}", "--starttime=now-365days"]
    found: dict[JobIdentity, JobUsage] = {}
    for numbers in portions(ids_to_query(job.job_id for job in jobs)):
        answer = ask(["sacct", *options, f"--jobs={','.join(numbers)}"], epoch_times=True)
        for number, lines in _lines_of_jobs(answer.text):
            if "+" in lines[0][0]:  # of nodes of several types (4711+0, 4711+1) no line has it all
                continue
            name, submitted, folder = lines[0][-3:]
            for job in owners(jobs, number, folder, submitted):
                if not (job.cluster and name) or name in job.cluster.split(","):
                    found[job] = _usage_in(lines)
    return found


def _lines_of_jobs(text: str) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield each job with its own line and those of its steps (``4711.batch``, ``4711.0``), which follow it."""
    named, lines = "", list[list[str]]()
    for line in text.split("\n"):
        words = line.split("|", len(_FIELDS) - 1)
        if len(words) < len(_FIELDS):
            continue
        if named and words[0].startswith(f"{named}."):
            lines.append(words)
            continue
        if lines:
            yield from ((job_id, lines) for job_id in ids_in(named))
        named, lines = words[0], [words]
    if lines:
        yield from ((job_id, lines) for job_id in ids_in(named))


def _usage_in(lines: list[list[str]]) -> JobUsage:
    """Return what a job used. Memory is that of the step that used most, which sacct adds up over its tasks."""
    _, elapsed, nodes, cpus, total_cpu, allocated, _, energy, *_ = lines[0]
    on_nodes = [(_bytes(tres_in(step[6]).get("mem", "")), whole_number(step[2]) or 1) for step in lines[1:]]
    peaks = [math.ceil(memory / count) for memory, count in on_nodes if memory]
    steps_energy = [whole_number(step[7]) or 0 for step in lines[1:]]
    node_count = whole_number(nodes) or 1
    asked = _bytes(tres_in(allocated).get("mem", ""), "M")
    return JobUsage(
        seconds=whole_number(elapsed) or 0,
        cpus=whole_number(cpus) or 0,
        core_seconds=_seconds(total_cpu),
        memory=max(peaks, default=None),
        memory_asked=asked // node_count if asked else None,
        joules=whole_number(energy) or max(steps_energy, default=0) or None,
    )


def _bytes(text: str, unit: str = "") -> int | None:
    """Return bytes; a number without a unit is in ``unit``. None for what is no amount, or none at all."""
    match = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([KMGTP]?)", text)
    return int(float(match[1]) * _UNITS[match[2] or unit]) or None if match else None


def _seconds(text: str) -> float | None:
    """Return the seconds of ``D-HH:MM:SS`` or ``MM:SS.mmm``; None if there are none: no step was accounted for."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes = (int(match[name] or 0) for name in ("days", "hours", "minutes"))
    return ((days * 24 + hours) * 60 + minutes) * 60 + float(match["seconds"]) or None
