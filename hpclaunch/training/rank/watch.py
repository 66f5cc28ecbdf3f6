"""Ends a rank of a run in which nothing progresses any more, from the start to the end of its process; saves nothing.

A rank that hangs makes all others wait in a collective until the walltime ends. Horovod warns, but ends none. The rank
itself may be stopped, or in a system call that never returns. So every rank watches itself: the others end the run.
"""

from __future__ import annotations

import functools
import threading
import time
from typing import Any, Callable

from hpclaunch.training.rank import failure

PAUSE_S = 5.0  # between two looks at the progress, and between two answers of a rank in long work
STALLED = (
    "nothing has progressed for {:.0f} s, in {}: a rank hangs (Horovod's warnings above say which one, "
    "if it has given any). Resume the run; --stall-minutes sets how long to wait."
)
WORKS = 0.002  # the least share of a processor that the main thread of a working rank uses; one that waits uses none


class Watch:
    """Ends this rank when it has not progressed for `seconds`, which may be changed at any time; 0: never.

    Progress is a mark, or work: processor time of the main thread, which a rank that waits in a collective does not
    use. Python's own code, reading files, and tracing a model are work of the main thread.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.phase = "the start"
        self.count = 0
        self._heard = 0
        self._seen = (0, 0)
        self._idle = 0.0

    def mark(self) -> None:
        """Note that this rank has progressed."""
        self.count += 1

    def hear(self) -> None:
        """Note that another rank has progressed; it is not counted as this rank's, so no echo keeps a run alive."""
        self._heard += 1

    def look(self, elapsed: float, worked: float) -> bool:
        """Whether nothing has progressed for too long. worked: processor seconds of the last `elapsed` seconds.

        No look counts for more than two pauses. So a job that was suspended as a whole is not ended when it continues.
        """
        if worked > WORKS * elapsed:
            self.mark()
        before, self._seen = self._seen, (self.count, self._heard)
        self._idle = 0.0 if self._seen != before else self._idle + min(elapsed, 2 * self.pause)
        return 0 < self.seconds < self._idle

    @property
    def pause(self) -> float:
        """The seconds between two looks."""
        return min(PAUSE_S, self.seconds / 4) if self.seconds else PAUSE_S

    def run(self, clock: Callable[[], float]) -> None:
        """Look until nothing progresses, then end this process. clock: the processor time of the main thread, in s."""
        now, used = time.monotonic(), clock()
        while True:
            time.sleep(self.pause)
            before, now = now, time.monotonic()
            used_before, used = used, clock()
            if self.look(now - before, used - used_before):
                reason = STALLED.format(self._idle, self.phase)
                failure.leave_as_first(1, reason, reason.split(":")[0])


this_rank = Watch(0)


def begin(seconds: float) -> None:
    """Watch this rank from now to the end of its process, unless `seconds` is 0. Call it in the main thread, once."""
    if seconds:
        this_rank.seconds = seconds
        used = time.pthread_getcpuclockid(threading.get_ident())
        arguments = (functools.partial(time.clock_gettime, used),)
        threading.Thread(target=this_rank.run, args=arguments, name="watch", daemon=True).start()


def reached(phase: str) -> None:
    """Note that this rank has reached another phase of its program, such as "the evaluation"."""
    this_rank.phase = phase
    this_rank.mark()


class Rounds:
    """Tells the other ranks, every few seconds until `end`, that this rank's main thread progresses. A collective.

    Ranks that have ended their part wait for the others, for as long as one of them progresses. Without a watch they
    wait in one round. gather: one value of every rank, by rank, on every rank; no other thread may be in it.
    """

    def __init__(self, gather: Callable[[Any], list[Any]]) -> None:
        self._gather = gather
        self._over = threading.Event()
        self._result: Any = None
        self._results: list[Any] = []
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._tell, name="rounds", daemon=True)
        self._thread.start()

    def end(self, result: Any = None) -> list[Any]:
        """Wait for all ranks to end; the `result` of each (picklable), by rank."""
        self._result = result
        self._over.set()
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._results

    def _tell(self) -> None:
        try:
            counts = None
            while True:
                over = self._over.wait(this_rank.pause if this_rank.seconds else None)
                answers = self._gather((over, this_rank.count, self._result if over else None))
                before, counts = counts, [count for _, count, _ in answers]
                if counts != before:
                    this_rank.hear()
                if all(ended for ended, _, _ in answers):
                    self._results = [result for _, _, result in answers]
                    return
        except Exception as error:  # raised again in the main thread
            self._error = error
