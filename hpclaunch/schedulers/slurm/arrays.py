"""Job arrays in Slurm's words: which ids to ask for, how its answers name their tasks, and how large one may be."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from hpclaunch.core.errors import Fault
from hpclaunch.core.spec import MOST_RUNS, JobSpec
from hpclaunch.runs import Run, numbers
from hpclaunch.schedulers import NEVER_BEGUN, Status
from hpclaunch.schedulers.slurm.programs import ask

_MANY = re.compile(r"([0-9]{1,18})_\[([0-9,:%-]+)\]")
_FIELD = re.compile(r"^(MaxArraySize|MaxJobCount)\s*=\s*([0-9]+)\s*$", re.MULTILINE)


def asked_by(job_ids: Iterable[str]) -> list[str]:
    """Return what to ask Slurm for: an array once, where several of its tasks are wanted."""
    wanted = list(job_ids)
    tasks = Counter(job_id.partition("_")[0] for job_id in wanted)
    return list(dict.fromkeys(base if tasks[base := job_id.partition("_")[0]] > 1 else job_id for job_id in wanted))


def whole_arrays(job_ids: Iterable[str]) -> list[str]:
    """Return what to ask sacct for: of a task its array, whose other tasks tell that accounting knows of it."""
    return list(dict.fromkeys(job_id.partition("_")[0] for job_id in job_ids))


def named_by(text: str) -> Iterator[str]:
    """Yield the job ids that a first column names: ``4711``, ``4711_7``, and each of ``4711_[3,5-9%4]``."""
    many = _MANY.fullmatch(text)
    if many is None:
        yield text
        return
    for index in numbers(many[2], MOST_RUNS):
        yield f"{many[1]}_{index}"


def cancelled_while_waiting(gone: Iterable[Run], accounted: Mapping[str, Status]) -> dict[str, Status]:
    """Return job id -> NEVER_BEGUN for the tasks among ``gone`` that were cancelled alone while they waited.

    Slurm takes such a task out of its array without a word (seen with 22.05): squeue and sacct name the others, and
    never that one. ``accounted`` is what sacct named. A task that began has a line of its own there, and left its
    marks. Accounting hears of the rest a little later: a task that only it calls PENDING waits no more.
    """
    waited = [run for run in gone if run.index >= 0 and run.state in ("PENDING", "UNKNOWN")]
    silent = [run for run in waited if run.job_id not in accounted or accounted[run.job_id].state == "PENDING"]
    arrays = {job_id.partition("_")[0] for job_id in accounted} if silent else set()
    missing = [run for run in silent if run.job_id.partition("_")[0] in arrays and not run.attempts()]
    return {run.job_id: NEVER_BEGUN for run in missing}


def objections(spec: JobSpec) -> list[Fault]:
    """Return why Slurm would refuse an array of that size; nothing where it cannot be asked.

    The highest index is below MaxArraySize (1001 unless the site says otherwise), and every task counts towards
    MaxJobCount, above which sbatch waits instead of refusing (slurm.conf manual).
    """
    if spec.sweep is None:
        return []
    answer = ask(["scontrol", "show", "config"])
    limits = {name: int(number) for name, number in _FIELD.findall(answer.text)} if answer.ok else {}
    faults = []
    for name, number in limits.items():
        if 0 < number < spec.sweep.count:
            what = f"an array of {spec.sweep.count} runs is larger than Slurm takes here"
            next_step = "sweep fewer values, in several submissions"
            faults.append(Fault(where=name, what=what, allowed=f"at most {number} runs", next=next_step))
    if limits.get("MaxArraySize") == 0:
        faults.append(
            Fault(where="MaxArraySize", what="this Slurm takes no job arrays", next="submit --set, one by one")
        )
    return faults
