"""Submits the runs of an array: as one array, or as several where the scheduler accepts no array of that size.

Each part is queued once, as any submission is, and is in the record before the next one begins. So after an
interruption the record says which runs are queued, and ``retry`` submits the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hpclaunch import runs
from hpclaunch.actions.following.identity import elsewhere
from hpclaunch.actions.queueing.hand_over import hand_over
from hpclaunch.core.array_size import digits_of
from hpclaunch.core.errors import Fault, HpclaunchError, Interrupted, Refused
from hpclaunch.core.job_script import JobScript
from hpclaunch.core.units import count
from hpclaunch.runs import Run
from hpclaunch.runs.array_parts import ArrayPart, divide
from hpclaunch.runs.record import Start, recorded_starts
from hpclaunch.runs.recorded_layout import options_of, walltime_of
from hpclaunch.schedulers import scheduler_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from hpclaunch.runs import RecordChange


def submit_array(array: Run, script: JobScript, indices: Sequence[int], **news: Unpack[RecordChange]) -> Run:
    """Submit these runs of an array with its script, and return the array.

    Together the parts keep to the limit of runs at a time, also with those that still run or wait since earlier starts.
    Raises Refused, SchedulerError, Interrupted; the error says how many of the runs are queued.
    """
    walltime, at_once = _walltime_and_limit(array)
    scheduler = scheduler_of(array.scheduler)
    with scheduler.asking(elsewhere(array)):
        largest = scheduler.largest_array()
    parts = divide(indices, largest, at_once)
    is_divided = bool(array.offsets) or any(part.offset for part in parts)
    busy = _busy_jobs(array) if is_divided and at_once else []
    jobs = list[str]()
    first = parts[0].indices[0] - parts[0].offset if indices else 0
    for number, part in enumerate(parts):
        after = busy if part.after is None else [jobs[part.after]]
        try:
            text = _script_of_part(script, array, part).text
            options = _wait_options(after, f"{jobs[0]}_{first}" if jobs else "", script)
            changes: RecordChange = {**news, **_new_start(array, part)}
            # Without reading the record again: if another process has submitted runs of it meanwhile, this one stops.
            array = hand_over(array, text, walltime, options, **changes)
            jobs.append(array.job_id)
            if number + 1 < len(parts) and array.earlier != changes["earlier"]:
                raise _overtaken(array)
        except HpclaunchError as error:
            raise error.also(_unfinished_fault(array, parts, jobs)) if jobs else error from None
        except KeyboardInterrupt:
            if not jobs:
                raise
            raise Interrupted(_unfinished_fault(array, parts, jobs)) from None
    return array


def _walltime_and_limit(array: Run) -> tuple[int, int]:
    """Return the walltime in seconds, and how many runs may run at a time (0: no limit), as the script has them."""
    spec = array.spec()
    limit = options_of(spec).get("array", "").partition("%")[2]
    is_number = limit.isascii() and limit.isdigit() and len(limit) < 10
    return walltime_of(spec), int(limit) if is_number else 0


def _busy_jobs(array: Run) -> list[str]:
    """Return the array's jobs with runs that wait or run; a job of which nothing is known cannot be waited for."""
    unended = [task for task in runs.tasks_of(array) if task.job_id and not task.final and task.state != "UNKNOWN"]
    return list(dict.fromkeys(task.job_id.partition("_")[0] for task in unended))


def _script_of_part(script: JobScript, array: Run, part: ArrayPart) -> JobScript:
    """Return the script that starts the tasks of a part, and tells the library the run of task 0. Raises Refused."""
    if len(part.indices) < array.tasks or part.offset:
        script = script.with_tasks(part.tasks)
    if part.offset == 0:
        return script
    numbered = script.with_first_run(part.offset, digits_of(array.tasks))
    if numbered is None:
        what = "the script has no line 'array_task', so its array cannot be divided into several"
        raise Refused(Fault(where=str(array.script), what=what, next="sweep fewer values, in several submissions"))
    return numbered


def _wait_options(after: Sequence[str], first: str, script: JobScript) -> list[str]:
    """Return the option for what a part waits for beside the script; it replaces that of the script, and names both.

    A part has the name of the others. So where the script waits for earlier jobs of its name, a later part waits for
    the ``first`` task (empty: there is none yet) to begin, and not for it to end.
    """
    row, waits = script.row, list(script.waits)
    begins = bool(first) and script.waits_for_same_name
    if not row.wait_option or not (after or begins):
        return []
    if begins:
        waits = [row.wait_begun.format(first) if one == row.wait_same_name else one for one in waits]
    waits += [row.wait_any.format(":".join(after))] if after else []
    return [row.wait_option.format(",".join(waits))]


def _new_start(array: Run, part: ArrayPart) -> RecordChange:
    """Return the changes of the record for a start of these runs: it has an entry for each earlier start, too."""
    covered = "" if len(part.indices) == array.tasks else runs.spelled(part.indices)
    before = [start for start in array.starts if start.job_id]
    if not before and not covered:
        return {}
    starts = [*before, Start(job_id="", part=covered, offset=part.offset)]
    if sum(len(start.part) for start in starts) > runs.MOST_IN_PARTS:
        raise _full_record_error(array, len(before))
    return recorded_starts(array, starts)


def _full_record_error(array: Run, starts: int) -> Refused:
    what = f"the record of {array.label} has no room for a further start: {starts} starts have listed their runs in it"
    return Refused(Fault(where=str(array.path), what=what, next="sweep the values that are left in a new submission"))


def _overtaken(array: Run) -> Refused:
    what = f"another process has submitted runs of {array.label} meanwhile"
    return Refused(Fault(what=what, next=f"hpclaunch status {array.label}"))


def _unfinished_fault(array: Run, parts: Sequence[ArrayPart], jobs: Sequence[str]) -> Fault:
    queued = sum(len(part.indices) for part in parts[: len(jobs)])
    total = sum(len(part.indices) for part in parts)
    what = f"{queued} of {count(total, 'run')} of {array.label} are queued (as {', '.join(jobs)})"
    return Fault(what=what, next=f"hpclaunch retry {array.label} submits those that are not")
