"""Follows many runs for a live screen: asks the schedulers seldom, and reads of the runs only what is looked at.

The questions may take long, so a thread of their own asks them. What it found is replaced as a whole: the screen reads
it at any time, without a lock.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from hpclaunch.actions.following.cancel import cancel
from hpclaunch.actions.following.progress import ProgressOfRuns, RunProgress
from hpclaunch.core.errors import HpclaunchError
from hpclaunch.core.records import record
from hpclaunch.core.scheduler_rows import longest_pause
from hpclaunch.runs import JobIdentity, Jobs, Run, identity_of
from hpclaunch.runs.latest_samples import RunUse, UseReader
from hpclaunch.runs.recorded_layout import partitions_of
from hpclaunch.schedulers import QueuePlace, scheduler_of

_SHORTEST_PAUSE_S = 2.0
_SHARE = 20
"""A question waits for so many times the processor time of the last one: asking takes 5 % of a core at most."""
_PLACES_S = 60.0
"""Seconds between two questions for the places in the queue: they concern the jobs of all users."""
_USE_S = 5.0


@record
class MonitoredRuns:
    """What the schedulers answered: the runs, newest first; ``places``: job -> place in the queue.

    ``answered``: when, in seconds of the monotonic clock; None before the first answer. ``trouble``: why none came.
    """

    runs: tuple[Run, ...] = ()
    places: Mapping[JobIdentity, QueuePlace] = field(default_factory=dict)
    answered: float | None = None
    trouble: str = ""


class Monitor:
    """Runs that are followed. ``ask`` returns them with their present states, and may take long."""

    def __init__(self, ask: Callable[[], Sequence[Run]], wake: Callable[[], None] = lambda: None) -> None:
        self.found = MonitoredRuns()
        self.messages: deque[str] = deque(maxlen=20)
        """What the thread has to say to the person, oldest first."""
        self.fault: Exception | None = None
        """What ended the thread, if it was an error of hpclaunch: the screen is to end with it."""
        self._ask, self._wake = ask, wake
        self._progress = ProgressOfRuns()
        self._use: tuple[Path, UseReader, float, RunUse | None] | None = None
        self._due, self._places_due = 0.0, 0.0
        self._to_cancel: deque[Run] = deque()
        self._news = threading.Event()
        self._is_over = False

    # --- the screen's side

    def start(self) -> None:
        """Begin to ask."""
        threading.Thread(target=self._work, name="hpclaunch watch", daemon=True).start()

    def stop(self) -> None:
        """Ask no more. A question that is under way is not waited for."""
        self._is_over = True
        self._news.set()

    def ask_now(self) -> None:
        """Ask the schedulers for the states, if the last answer is not quite new."""
        if self.found.answered is None or time.monotonic() - self.found.answered >= _SHORTEST_PAUSE_S:
            self._due = 0.0
            self._news.set()

    def cancel(self, run: Run) -> None:
        """Cancel a run, and ask for its state then."""
        self._to_cancel.append(run)
        self._news.set()

    def progress(self, run: Run) -> RunProgress:
        """Return how far a run is."""
        return self._progress.of(run, time.time())

    def use(self, run: Run) -> RunUse | None:
        """Return what the ranks of a run use; one run at a time is followed, and its samples are read seldom."""
        now = time.monotonic()
        if self._use is None or self._use[0] != run.path:
            self._use = (run.path, UseReader(run.path), -_USE_S, None)
        path, reader, looked, use = self._use
        if now - looked >= _USE_S:
            use = reader.read()
            self._use = (path, reader, now, use)
        return use

    # --- the thread's side

    def _work(self) -> None:
        try:
            while not self._is_over:
                self._news.wait(max(0.0, self.turn() - time.monotonic()))
                self._news.clear()
        except Exception as error:
            self.fault = error
            self._wake()

    def turn(self) -> float:
        """Do what is due, one question at most, and return when something is due again (monotonic clock)."""
        now = time.monotonic()
        try:
            if self._to_cancel:
                self._cancel(self._to_cancel.popleft())
            elif now >= self._due:
                self._ask_states(now)
            elif now >= self._places_due:
                self._ask_places(now)
        except (HpclaunchError, OSError) as error:
            self._fail(error)
        self._wake()
        if self._to_cancel:
            return now
        waits = any(run.state == "PENDING" for run in self.found.runs)
        return min(self._due, self._places_due) if waits else self._due

    def _ask_states(self, now: float) -> None:
        self._due = now + _SHORTEST_PAUSE_S
        used = time.thread_time()
        runs = tuple(self._ask())
        used = time.thread_time() - used
        answered = time.monotonic()
        pause = max(_SHORTEST_PAUSE_S, longest_pause({run.scheduler for run in runs}), _SHARE * used)
        self._due, self._places_due = answered + pause, max(self._places_due, answered + _SHORTEST_PAUSE_S)
        jobs = {identity_of(run) for run in runs}
        places = {job: place for job, place in self.found.places.items() if job in jobs}
        self.found = MonitoredRuns(runs=runs, places=places, answered=answered)

    def _ask_places(self, now: float) -> None:
        """Ask for the places of the runs that wait; one call to each scheduler."""
        self._places_due, self._due = now + _PLACES_S, max(self._due, now + _SHORTEST_PAUSE_S)
        waiting = [run for run in self.found.runs if run.state == "PENDING" and run.job_id]
        places: dict[JobIdentity, QueuePlace] = {}
        for name in {run.scheduler for run in waiting}:
            own = [run for run in waiting if run.scheduler == name]
            partitions = {partition for run in own for partition in partitions_of(run.spec())}
            places |= scheduler_of(name).queue_places(Jobs(own), sorted(partitions))
        found = self.found
        self.found = MonitoredRuns(runs=found.runs, places=places, answered=found.answered, trouble=found.trouble)

    def _cancel(self, run: Run) -> None:
        (now,) = cancel([run])
        self.messages.append(f"{now.label}: {now.state}")
        self._due = 0.0

    def _fail(self, error: HpclaunchError | OSError) -> None:
        words = str(error.faults[0]) if isinstance(error, HpclaunchError) else error.strerror or str(error)
        self.messages.append(words)
        found = self.found
        self.found = MonitoredRuns(runs=found.runs, places=found.places, answered=found.answered, trouble="no answer")
        self._due = max(self._due, time.monotonic() + _SHORTEST_PAUSE_S)
