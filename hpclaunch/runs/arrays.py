"""Runs that one job array holds: each is derived from the array's record and one file of states; it asks no scheduler.

Of a run that has not begun nothing is written, so that an array of 100,000 is submitted as fast as one run.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from hpclaunch.core.errors import Fault, NotFound
from hpclaunch.core.files import json_object, locked, read_text, write_text
from hpclaunch.core.spec import digits_of
from hpclaunch.core.units import count
from hpclaunch.runs.record import FINAL, JOB_ID, STATE, Run, change, load
from hpclaunch.runs.sweep_values import values_at

STATES = "states.json"
_BEFORE_A_JOB = frozenset({"INCOMPLETE", "RENDERED", "SUBMITTING"})
_LIVELIEST = ("RUNNING", "COMPLETING", "CONFIGURING", "PENDING", "SUBMITTING", "RENDERED", "INCOMPLETE")
_RANGE = re.compile("([0-9]{1,9})(?:-([0-9]{1,9}))?(?::([0-9]{1,9}))?")


class TaskState(NamedTuple):
    """What was last heard of a run of an array, and of which of its jobs.

    A named tuple and no record, as an array may have 100,000 of them: a record takes longer to make.
    """

    job_id: str
    state: str
    exit_code: str = ""
    reason: str = ""
    nodes: str = ""


def numbers(text: str, below: int) -> list[int]:
    """Return the indices that Slurm's spelling names, such as ``0,5-9,20-30:2%4``; none if it is damaged."""
    found: list[int] = []
    for item in text.partition("%")[0].split(","):
        match = _RANGE.fullmatch(item)
        if match is None:
            return []
        last = min(int(match[2] or match[1]), below - 1)
        found += range(int(match[1]), last + 1, max(1, int(match[3] or 1)))
    return found


def spelled(indices: Iterable[int]) -> str:
    """Return indices in Slurm's spelling: ``0,5-9``."""
    ordered = sorted(set(indices))
    groups = [[n for _, n in group] for _, group in groupby(enumerate(ordered), lambda pair: pair[1] - pair[0])]
    return ",".join(f"{group[0]}-{group[-1]}" if len(group) > 1 else str(group[0]) for group in groups)


def load_any(path: Path) -> Run:
    """Return the run in that directory, or the run of an array that it stands for. Raises NotFound."""
    try:
        return load(path)
    except NotFound:
        if not path.name.isascii() or not path.name.isdigit():
            raise
        try:
            array = load(path.parent)
        except NotFound:
            array = None
        if array is None or not array.tasks:
            raise
    digits = digits_of(array.tasks)
    if len(path.name) != digits or int(path.name) >= array.tasks:
        last = f"{array.tasks - 1:0{digits}d}"
        what = f"{array.label} has no run {path.name[:20]!r}"
        raise NotFound(
            Fault(what=what, allowed=f"{0:0{digits}d} to {last}", next=f"hpclaunch status {array.label} --all")
        )
    return task_of(array, int(path.name))


def whole_of(run: Run) -> Run:
    """Return the array that a run is part of, as it is recorded now; any other run is returned as it is."""
    return load(run.home) if run.index >= 0 else run


def task_of(array: Run, index: int) -> Run:
    """Return one run of an array."""
    return tasks_of(array, [index])[0]


def tasks_of(array: Run, indices: Sequence[int] | None = None) -> list[Run]:
    """Return the runs of an array, all or those of the indices, with their states as they were last recorded."""
    known, chains, common = _task_states(array), *_chains(array)
    return [
        _run_of(array, index, chains.get(index, common), known.get(index))
        for index in (range(array.tasks) if indices is None else indices)
    ]


def _run_of(array: Run, index: int, chain: list[str], known: TaskState | None) -> Run:
    job_id = f"{chain[-1]}_{index}" if chain[-1] else ""
    if not job_id:
        state = array.state if array.state in _BEFORE_A_JOB else "NOT_SUBMITTED"
        now = TaskState(job_id="", state=state, reason=array.reason)
    elif known and known.job_id == job_id:
        now = known
    else:
        now = TaskState(job_id=job_id, state="PENDING")
    return Run(
        path=array.path / f"{index:0{digits_of(array.tasks)}d}",
        name=array.name,
        site=array.site,
        scheduler=array.scheduler,
        created=array.created,
        state=now.state,
        job_id=job_id,
        exit_code=now.exit_code,
        reason=now.reason,
        host=array.host,
        git=array.git,
        submission=array.submission,
        nodes=now.nodes,
        excluded=array.excluded,
        earlier=tuple(f"{one}_{index}" for one in chain[:-1] if one),
        index=index,
    )


def _chains(array: Run) -> tuple[dict[int, list[str]], list[str]]:
    """Return (index -> job ids of its starts, for runs that were started apart; those of all others), oldest first."""
    starts = (*array.earlier, array.job_id)
    parts = (*array.parts, *[""] * (len(starts) - len(array.parts)))
    chains: dict[int, list[str]] = {}
    common: list[str] = []
    for job_id, part in zip(starts, parts, strict=False):
        if part:
            for index in numbers(part, array.tasks):
                chains.setdefault(index, list(common)).append(job_id)
        else:
            for chain in (*chains.values(), common):
                chain.append(job_id)
    return chains, common or [""]


def _task_states(array: Run) -> dict[int, TaskState]:
    """Return what was recorded of the runs, by index; a damaged entry is left out, and asked for again."""
    found: dict[int, TaskState] = {}
    for key, entry in json_object(read_text(array.path / STATES)).items():
        whole = isinstance(entry, list) and len(entry) == 5 and all(isinstance(text, str) for text in entry)
        if key.isascii() and key.isdigit() and whole and JOB_ID.fullmatch(entry[0]) and STATE.fullmatch(entry[1]):
            found[int(key[:9])] = TaskState(*entry)
    return found


def record_tasks(array: Run, news: Mapping[int, Run]) -> Run:
    """Record what is new of an array's runs, and the array's own state from all of them; return it.

    While a part of it is handed over the array stays SUBMITTING: that is how its answer finds it, or a later look-up.
    Where the directory cannot be written it is still told: it can be asked again.
    """
    told = summary(news.values() if len(news) == array.tasks else {**dict(enumerate(tasks_of(array))), **news}.values())
    try:
        with locked(array.path):
            known = _task_states(array)
            fresh = {index: _state_of(run) for index, run in news.items()}
            if any(known.get(index) != state for index, state in fresh.items()):
                known.update(fresh)
                text = json.dumps({str(n): state for n, state in sorted(known.items())}, separators=(",", ":"))
                write_text(array.path / STATES, text + "\n", durable=False)
        if array.state in _BEFORE_A_JOB or all(getattr(array, name) == value for name, value in told.items()):
            return array
        return change(array, durable=False, **told)
    except OSError:
        return array if array.state in _BEFORE_A_JOB else replace(array, **told)


def _state_of(run: Run) -> TaskState:
    return TaskState(run.job_id, run.state, run.exit_code, run.reason, run.nodes)


def summary(found: Iterable[Run]) -> dict[str, Any]:
    """Return state, exit code and reason of an array: of those that go on the liveliest, else the first that failed."""
    runs = list(found)
    states = Counter(run.state for run in runs)
    going = [run for run in runs if run.state not in FINAL]
    failed = next((run for run in runs if run.state != "COMPLETED"), None)
    if going:
        state = next((state for state in _LIVELIEST if state in states), going[0].state)
        code = ""
    else:
        state, code = (failed.state, failed.exit_code) if failed else ("COMPLETED", "0:0")
    order = [*_LIVELIEST, *(state for state, _ in states.most_common())]
    counts = ", ".join(f"{states[state]} {state}" for state in dict.fromkeys(order) if states[state])
    reasons = Counter(run.reason for run in going if run.reason).most_common(1)
    why = f" ({reasons[0][0]})" if reasons else ""
    return {"state": state, "exit_code": code, "reason": f"{count(len(runs), 'run')}: {counts}{why}"}


def going_on(array: Run) -> bool:
    """Whether any run of an array may still change: after a part that was refused, the others go on."""
    return not array.final or (array.state == "NOT_SUBMITTED" and bool(array.earlier))


def jobs_of(run: Run) -> list[Run]:
    """Return the run once for each of its jobs that has not ended: an array was perhaps started in parts."""
    if not run.tasks:
        return [run]
    ids = dict.fromkeys(one.job_id.partition("_")[0] for one in tasks_of(run) if one.job_id and not one.final)
    return [replace(run, job_id=job_id) for job_id in ids]


def swept(run: Run) -> dict[str, str]:
    """Return the values that a run of an array has of its own, by the parameter's name."""
    return values_at(run.home, run.index) if run.index >= 0 else {}


def each(found: Iterable[Run]) -> list[Run]:
    """Return the runs, with those of an array in its place."""
    return [one for run in found for one in (tasks_of(run) if run.tasks else [run])]
