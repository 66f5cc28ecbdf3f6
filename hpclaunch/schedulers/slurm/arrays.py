"""Job arrays in Slurm: the IDs to query, the names of tasks in its answers, and the largest size of an array."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from hpclaunch.core.array_size import MOST_RUNS
from hpclaunch.core.errors import Fault
from hpclaunch.core.spec import JobSpec
from hpclaunch.runs import JobIdentity, Jobs, numbers
from hpclaunch.schedulers import NEVER_BEGUN, Status
from hpclaunch.schedulers.slurm.components import job_of
from hpclaunch.schedulers.slurm.configuration import configuration

_MANY = re.compile(r"([0-9]{1,18})_\[([0-9,:%-]+)\]")
_NUMBER = re.compile("[0-9]{1,18}")


def ids_to_query(job_ids: Iterable[str]) -> list[str]:
    """Return the IDs for a query of these jobs: the array's once, if several of its tasks are among them."""
    wanted = list(job_ids)
    tasks = Counter(job_id.partition("_")[0] for job_id in wanted)
    return list(dict.fromkeys(base if tasks[base := job_id.partition("_")[0]] > 1 else job_id for job_id in wanted))


def ids_in(text: str) -> Sequence[str]:
    """Return the job IDs in a first column: ``4711``, ``4711_7``, or each of ``4711_[3,5-9%4]``; ``4711+0`` is 4711."""
    many = _MANY.fullmatch(text) if "[" in text else None
    if many is None:
        return (job_of(text),)
    return [f"{many[1]}_{index}" for index in numbers(many[2], MOST_RUNS)]


def cancelled_while_waiting(
    gone: Iterable[JobIdentity], jobs: Jobs, accounted: Mapping[JobIdentity, Status]
) -> dict[JobIdentity, Status]:
    """Return job -> NEVER_BEGUN for the tasks among ``gone`` that were cancelled singly while they waited.

    Slurm removes such a task from its array (seen with 22.05): squeue and sacct list the other tasks only.
    ``accounted`` is the answer of sacct, with a line for every task that began. Accounting is delayed: a task that is
    PENDING only there no longer waits.
    """
    silent = [job for job in gone if job not in accounted or accounted[job].state == "PENDING"]
    arrays = {(job.home, job.array_id) for job in accounted} if silent else set()
    missing = {job: jobs[job] for job in silent if (job.home, job.array_id) in arrays}
    waited = {job: run for job, run in missing.items() if run.index >= 0 and run.state in ("PENDING", "UNKNOWN")}
    return {job: NEVER_BEGUN for job, run in waited.items() if not run.attempts()}


def largest_array() -> int | None:
    """Return how many tasks, numbered from 0, one array may have; None if scontrol does not answer.

    The highest index is below MaxArraySize (1001 unless the site says otherwise), and max_array_tasks among the
    SchedulerParameters may allow fewer tasks (slurm.conf manual).
    """
    fields = configuration()
    fewer = re.search(r"(?:^|,)max_array_tasks=([0-9]{1,18})(?:,|$)", fields.get("SchedulerParameters", ""))
    sizes = [_limit(fields, "MaxArraySize"), int(fewer[1]) if fewer else None]
    return min((size for size in sizes if size), default=None)


def _limit(fields: Mapping[str, str], name: str) -> int | None:
    text = fields.get(name, "")
    return int(text) if _NUMBER.fullmatch(text) else None


def objections(spec: JobSpec) -> list[Fault]:
    """Return why Slurm would refuse an array; nothing if scontrol does not answer.

    An array above MaxArraySize is divided. Every task counts towards MaxJobCount, above which sbatch waits instead of
    refusing (slurm.conf manual).
    """
    if spec.sweep is None:
        return []
    fields, faults = configuration(), []
    most = _limit(fields, "MaxJobCount")
    if most and most < spec.sweep.count:
        what = f"an array of {spec.sweep.count} runs is larger than this Slurm accepts"
        next_step = "sweep fewer values, in several submissions"
        faults.append(Fault(where="MaxJobCount", what=what, allowed=f"at most {most} runs", next=next_step))
    if _limit(fields, "MaxArraySize") == 0:
        faults.append(
            Fault(where="MaxArraySize", what="this Slurm accepts no job arrays", next="submit each run with --set")
        )
    return faults
