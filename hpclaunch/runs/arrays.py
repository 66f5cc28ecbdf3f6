"""The runs of a job array, derived from the array's record and one file of states; it asks no scheduler.

Nothing is written for a run before it begins, so that an array of 100,000 runs is submitted as fast as one run.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from hpclaunch.core.array_size import digits_of
from hpclaunch.core.errors import Fault, NotFound
from hpclaunch.core.files import json_object, read_text, write_text
from hpclaunch.core.locks import locked
from hpclaunch.core.run_states import ACTIVE, FINAL, NEVER_QUEUED
from hpclaunch.core.units import count
from hpclaunch.runs.job_identity import JobIdentity, epoch_of, identity_of
from hpclaunch.runs.record import JOB_ID, STATE, JobPlace, RecordChange, Run, Start, change, load

STATES = "states.json"
_BEFORE_A_JOB = frozenset({*NEVER_QUEUED, "SUBMITTING"})
_MOST_ACTIVE_FIRST = (*ACTIVE, *NEVER_QUEUED)
_RANGE = "([0-9]{1,9})(?:-([0-9]{1,9}))?(?::([0-9]{1,9}))?"


class TaskState(NamedTuple):
    """The last known state of a run of an array, and the job that it belongs to.

    It is a named tuple, not a record: an array may have 100,000 of them, and records take longer to make.
    """

    job_id: str
    state: str
    exit_code: str = ""
    reason: str = ""
    nodes: str = ""


def numbers(text: str, below: int) -> list[int]:
    """Return the indices in Slurm's notation, such as ``0,5-9,20-30:2%4``; none if the text is damaged."""
    found: list[int] = []
    for item in text.partition("%")[0].split(","):
        match = re.fullmatch(_RANGE, item)
        if match is None:
            return []
        last = min(int(match[2] or match[1]), below - 1)  # a damaged text may name 999,999,999 indices
        found += range(int(match[1]), last + 1, max(1, int(match[3] or 1)))
    return found


def spelled(indices: Iterable[int]) -> str:
    """Return indices in Slurm's notation: ``0,5-9``."""
    ordered = sorted(set(indices))
    groups = [[n for _, n in group] for _, group in groupby(enumerate(ordered), lambda pair: pair[1] - pair[0])]
    return ",".join(f"{group[0]}-{group[-1]}" if len(group) > 1 else str(group[0]) for group in groups)


def load_any(path: Path) -> Run:
    """Return the run in that directory; for ``ARRAY/0007`` that run of the array. Raises NotFound."""
    try:
        return load(path)
    except NotFound:
        array = _array_around(path)
        if array is None:
            raise
    digits = digits_of(array.tasks)
    if len(path.name) != digits or int(path.name) >= array.tasks:
        last = f"{array.tasks - 1:0{digits}d}"
        what = f"{array.label} has no run {path.name[:20]!r}"
        raise NotFound(
            Fault(what=what, allowed=f"{0:0{digits}d} to {last}", next=f"hpclaunch status {array.label} --all")
        )
    return task_of(array, int(path.name))


def _array_around(path: Path) -> Run | None:
    """Return the array of which the path may name a run; None if it names none."""
    if not path.name.isascii() or not path.name.isdigit():
        return None
    try:
        array = load(path.parent)
    except NotFound:
        return None
    return array if array.tasks else None


def whole_of(run: Run) -> Run:
    """Return the array that a run is part of, as recorded now; a run outside an array is returned unchanged."""
    return load(run.home) if run.index >= 0 else run


def task_of(array: Run, index: int) -> Run:
    """Return one run of an array."""
    return tasks_of(array, [index])[0]


def tasks_of(array: Run, indices: Sequence[int] | None = None) -> list[Run]:
    """Return the runs of an array (all, or those of the indices) with their last recorded states."""
    known = _task_states(array)
    chains, common = _chains(array)
    return [
        _run_of(array, index, chains.get(index, common), known.get(index))
        for index in (range(array.tasks) if indices is None else indices)
    ]


class ArrayTasks:
    """The runs of an array with these ``states`` (index -> last recorded state), those without a job left out.

    An array may have 100,000 runs. What is asked about all of them needs only their job IDs and states, and making a
    `Run` takes longer than all the rest, so one is made where the answers leave a doubt.
    """

    def __init__(self, array: Run, states: Mapping[int, TaskState]) -> None:
        self.home = str(array.path)
        self.place = array.place
        self.states = {index: state for index, state in states.items() if state.job_id}
        self._array = array

    @property
    def lines(self) -> int:
        """The most lines about tasks of its jobs: a question that names an array is answered for each of its tasks."""
        return self._array.tasks * (1 + len(self._array.earlier))

    @cached_property
    def identities(self) -> dict[int, JobIdentity]:
        """Index -> the identity of the run's present job."""
        array = self._array
        latest, earlier = (epoch_of(text) for text in (array.submitted or array.created, array.created))
        prefix = f"{array.job_id}_"
        return {
            index: JobIdentity(array.cluster, job_id, self.home, latest if job_id.startswith(prefix) else earlier)
            for index, (job_id, *_) in self.states.items()
        }

    @cached_property
    def _starts(self) -> tuple[dict[int, list[Start]], list[Start]]:
        return _chains(self._array)

    def run(self, index: int) -> Run:
        """Return the run with this index."""
        chains, common = self._starts
        return _run_of(self._array, index, chains.get(index, common), self.states[index])


class Jobs(Mapping[JobIdentity, Run]):
    """Identity -> run, of single runs and of runs of arrays. A run of an array is made when it is looked up."""

    def __init__(self, single: Iterable[Run], arrays: Iterable[ArrayTasks] = ()) -> None:
        arrays = list(arrays)
        self._arrays = arrays
        self._single = {identity_of(run): run for run in single if run.job_id}
        self.lines = len(self._single) + sum(tasks.lines for tasks in arrays)
        """The most lines about jobs in a scheduler's answer."""
        self._tasks = {identity: (tasks, index) for tasks in arrays for index, identity in tasks.identities.items()}
        self._numbered: dict[str, list[JobIdentity]] = {}
        for identity in self:
            self._numbered.setdefault(identity.job_id, []).append(identity)

    def __getitem__(self, identity: JobIdentity) -> Run:
        if identity in self._single:
            return self._single[identity]
        tasks, index = self._tasks[identity]
        return tasks.run(index)

    def __contains__(self, identity: object) -> bool:
        return identity in self._single or identity in self._tasks

    def __iter__(self) -> Iterator[JobIdentity]:
        yield from self._single
        yield from (identity for identity in self._tasks if identity not in self._single)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return bool(self._single or self._tasks)

    @property
    def places(self) -> set[JobPlace]:
        """Where they are."""
        return {run.place for run in self._single.values()} | {tasks.place for tasks in self._arrays}

    def at(self, places: Container[JobPlace]) -> Jobs:
        """Return those that are at these places."""
        if all(place in places for place in self.places):
            return self
        single = [run for run in self._single.values() if run.place in places]
        return Jobs(single, [tasks for tasks in self._arrays if tasks.place in places])

    @property
    def single(self) -> Mapping[JobIdentity, Run]:
        """Those that are no runs of an array."""
        return self._single

    def numbered(self, job_id: str) -> Sequence[JobIdentity]:
        """Return the jobs that have this number, each of another run: numbers are given again."""
        return self._numbered.get(job_id, ())


def index_of(array: Run, job_id: str, task: int) -> int:
    """Return the index of the run that is this task of a job of the array."""
    offsets = {start.job_id: start.offset for start in array.starts}
    return task + offsets.get(job_id, 0)


def current_jobs(array: Run) -> list[str]:
    """Return the IDs of the jobs that the array's runs have now, oldest first: several if it was split or retried."""
    chains, common = _chains(array)
    covered = len(chains) == array.tasks
    now = {chain[-1].job_id for chain in chains.values()} | (set() if covered else {common[-1].job_id})
    return [job_id for job_id in (*array.earlier, array.job_id) if job_id and job_id in now]


def _task_state(array: Run, job_id: str, known: TaskState | None) -> TaskState:
    if not job_id:
        state = array.state if array.state in _BEFORE_A_JOB else "NOT_SUBMITTED"
        return TaskState(job_id="", state=state, reason=array.reason)
    if known and known.job_id == job_id:  # else it is the state of an earlier start
        return known
    return TaskState(job_id=job_id, state="PENDING")


def present_states(array: Run, indices: Iterable[int] | None = None) -> dict[int, TaskState]:
    """Return index -> last recorded state, of all runs of an array or of some; a tenth of the work of `tasks_of`."""
    known = _task_states(array)
    chains, common = _chains(array)
    return {
        index: _task_state(array, chains.get(index, common)[-1].task_id(index), known.get(index))
        for index in (range(array.tasks) if indices is None else indices)
    }


def _run_of(array: Run, index: int, chain: list[Start], known: TaskState | None) -> Run:
    job_id = chain[-1].task_id(index)
    now = _task_state(array, job_id, known)
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
        user=array.user,
        uid=array.uid,
        token=array.token,
        cluster=array.cluster,
        controller=array.controller,
        via=array.via,
        submitted=array.submitted if chain[-1].job_id == array.job_id else "",
        git=array.git,
        submission=array.submission,
        held=array.held,
        differs=array.differs,
        nodes=now.nodes,
        excluded=array.excluded,
        excluded_because=array.excluded_because,
        earlier=tuple(start.task_id(index) for start in chain[:-1] if start.job_id),
        index=index,
    )


def _chains(array: Run) -> tuple[dict[int, list[Start]], list[Start]]:
    """Return the starts of each run, oldest first: (index -> starts where they differ, starts of all other runs).

    An array can be started in parts, so that two of its runs may have belonged to different jobs.
    """
    chains: dict[int, list[Start]] = {}
    common: list[Start] = []
    for start in array.starts:
        if start.part:  # a start of these runs only: from here on they have their own chains
            for index in numbers(start.part, array.tasks):
                chains.setdefault(index, list(common)).append(start)
        else:
            for chain in (*chains.values(), common):
                chain.append(start)
    return chains, common or [Start("")]


_LARGEST_STATES = 64 * 2**20
"""Bytes: an array may have 100,000 runs."""


def _task_states(array: Run) -> Mapping[int, TaskState]:
    """Return the recorded states by index. Damaged entries are left out; the scheduler is then asked again."""
    file = f"{array.path}/{STATES}"
    try:
        about = os.stat(file)
    except OSError:
        return {}
    return _states_in(file, about.st_ino, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=1)
def _states_in(file: str, _number: int, _changed: int, _size: int) -> Mapping[int, TaskState]:
    """Return the states in a file, which is another one when any of the numbers is. Nobody may change the result."""
    found: dict[int, TaskState] = {}
    for key, entry in json_object(read_text(file, _LARGEST_STATES)).items():
        is_index = key.isascii() and key.isdigit()
        complete = isinstance(entry, list) and len(entry) == 5 and set(map(type, entry)) == {str}
        if is_index and complete and JOB_ID.fullmatch(entry[0]) and STATE.fullmatch(entry[1]):
            found[int(key[:9])] = TaskState(*entry)
    return found


def record_tasks(array: Run, news: Mapping[int, Run | TaskState], any_state: bool = False) -> Run:
    """Record the new states of an array's runs and the array's state, which follows from them; return the array.

    The state of an ended run stays, also if another process has recorded its end meanwhile; only an exit code may be
    added. With ``any_state`` the news replaces it: a person has said so.
    The array stays SUBMITTING while a part of it is being submitted, so that the scheduler's answer, or a later
    search, still finds it so. If the directory cannot be written, the news is returned but not recorded.
    """
    fresh = {index: _state_of(one) if isinstance(one, Run) else one for index, one in news.items()}
    totals = _totals(array, fresh)
    try:
        with locked(array.path):
            known = _task_states(array)
            kept = {index: state for index, state in fresh.items() if any_state or _may_follow(known.get(index), state)}
            if any(known.get(index) != state for index, state in kept.items()):
                states = {**known, **kept}
                text = json.dumps({str(n): states[n] for n in sorted(states)}, separators=(",", ":"))
                write_text(array.path / STATES, text + "\n", durable=False)
        if len(kept) < len(fresh):
            totals = _totals(array, kept)
        is_unchanged = all(getattr(array, name) == value for name, value in totals.items())
        if array.state in _BEFORE_A_JOB or is_unchanged:
            return array
        return change(array, durable=False, **totals)
    except OSError:
        return array if array.state in _BEFORE_A_JOB else replace(array, **totals)


def _totals(array: Run, fresh: Mapping[int, TaskState]) -> RecordChange:
    # News of every run needs no recorded states, and reading those of a large array takes time.
    now = dict(sorted(fresh.items())) if len(fresh) == array.tasks else {**present_states(array), **fresh}
    return summary(now.values())


def _may_follow(known: TaskState | None, fresh: TaskState) -> bool:
    """Whether this state may replace the recorded one: an ended run only gets the exit code that it lacks."""
    if known is None or known.job_id != fresh.job_id or known.state not in FINAL:
        return True
    return not known.exit_code and fresh == known._replace(exit_code=fresh.exit_code)


def _state_of(run: Run) -> TaskState:
    return TaskState(run.job_id, run.state, run.exit_code, run.reason, run.nodes)


def summary(found: Iterable[Run | TaskState]) -> RecordChange:
    """Return state, exit code, reason and counts of an array.

    While runs have not ended the state is that of the most active run; then that of the first run that failed.
    """
    runs = list(found)
    states = Counter(run.state for run in runs)
    active = [state for state in _MOST_ACTIVE_FIRST if state in states]
    # The most active states first; then the most frequent.
    ordered = dict.fromkeys([*active, *(state for state, _ in states.most_common())])
    counts = {state: states[state] for state in ordered}
    reason = f"{count(len(runs), 'run')}: {', '.join(f'{number} {state}' for state, number in counts.items())}"
    unfinished = [run for run in runs if run.state not in FINAL]
    if unfinished:
        state = active[0] if active else unfinished[0].state
        waits_for = _commonest_reason(unfinished)
        if waits_for:
            reason += f" ({waits_for})"
        return {"state": state, "exit_code": "", "reason": reason, "counts": counts, "waits_for": waits_for}
    failed = next((run for run in runs if run.state != "COMPLETED"), None)
    ended = ("COMPLETED", "0:0") if failed is None else (failed.state, failed.exit_code)
    return {"state": ended[0], "exit_code": ended[1], "reason": reason, "counts": counts, "waits_for": ""}


def _commonest_reason(found: Iterable[Run | TaskState]) -> str:
    """Return the reason that most of the runs have; empty if none has one."""
    reasons = Counter(run.reason for run in found if run.reason)
    return reasons.most_common(1)[0][0] if reasons else ""


def counts_of(run: Run) -> Mapping[str, int]:
    """Return state -> the number of an array's runs that are in it; of any other run 1.

    Without recorded counts, as before anybody has looked at its runs, all runs of an array count as having its state.
    """
    return run.counts or {run.state: max(run.tasks, 1)}


def is_unfinished(array: Run) -> bool:
    """Whether any run of an array may still change: if one part was refused, earlier jobs may still run."""
    return not array.final or (array.state == "NOT_SUBMITTED" and bool(array.earlier))


def jobs_of(run: Run) -> list[Run]:
    """Return one copy of the run for each of its unfinished jobs: an array that was started in parts has several."""
    if not run.tasks:
        return [run]
    states = present_states(run).values()
    unfinished = (state.job_id for state in states if state.job_id and state.state not in FINAL)
    ids = dict.fromkeys(job_id.partition("_")[0] for job_id in unfinished)
    return [replace(run, job_id=job_id) for job_id in ids]


def has_failed(run: Run) -> bool:
    """Whether the run, or any run of an array, has ended and has not completed, by the last recorded states."""
    states = [task.state for task in present_states(run).values()] if run.tasks else [run.state]
    return any(state in FINAL and state != "COMPLETED" for state in states)


def swept(run: Run) -> dict[str, str]:
    """Return the sweep's values of this run, by parameter name; empty outside an array."""
    if run.index < 0:
        return {}
    from hpclaunch.runs.sweep_values import values_at

    return values_at(run.home, run.index)


def each(found: Iterable[Run]) -> list[Run]:
    """Return the runs, each array replaced by its runs."""
    return [each_run for run in found for each_run in (tasks_of(run) if run.tasks else [run])]
