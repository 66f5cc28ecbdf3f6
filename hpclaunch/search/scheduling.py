"""Which trial a worker starts next: it claims trials in batches, so that no other worker makes them; pure logic.

The store of the claims is a folder (`search.claims.FolderClaims`), or a list where thousands of workers are simulated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

_SHORT_S = 30.0
"""A worker that claims more often claims more trials at once: a thousand workers share one folder."""
_MOST_AHEAD = 256
_MOST_CLAIMS = 10_000
"""About so many claims has a large search: a further worker reads all of them when it begins."""
_SHARES = 2
"""Nobody claims more than half of its fair share of what is left, so that all workers end together (guided
self-scheduling: Polychronopoulos and Kuck, IEEE Transactions on Computers C-36, 1987)."""
_LOOK_EVERY_S = 30.0
_LOOK_AT_THE_END_S = 5.0


class ClaimStore(Protocol):
    """The claims of all workers."""

    @property
    def fresh(self) -> int:
        """The first trial that no claim has, as of the last refresh."""
        ...

    @property
    def workers(self) -> int:
        """How many workers share the trials, at least one."""
        ...

    def refresh(self) -> None:
        """Look for claims of other workers."""

    def due_again(self) -> list[tuple[int, int]]:
        """Return (trial, attempt) of every start that is due again, as the journals tell."""
        ...

    def add(self, first: int, last: int, again: list[tuple[int, int]]) -> bool:
        """Claim the trials from first to last (excluded), and further starts; False if another worker was faster."""
        ...


class Desk:
    """Gives one worker its next trials. ``total``: how many trials the search has.

    ``ahead``: whether it may claim trials before there is room for them. It may if their values do not depend on the
    results of others.
    """

    def __init__(self, store: ClaimStore, total: int, clock: Callable[[], float], ahead: bool = True) -> None:
        self._store, self._total, self._clock, self._ahead = store, total, clock, ahead
        self._claimed: deque[tuple[int, int]] = deque()
        self._batch = 1
        self._last_claim = self._last_look = -1e9

    def take(self, room: int, is_idle: bool = True) -> list[tuple[int, int]]:
        """Return at most ``room`` starts (trial, attempt), which this worker alone makes.

        ``is_idle``: no trial of the worker runs. If it then gets none, nothing is left to do.
        """
        while len(self._claimed) < room and self._claim(room - len(self._claimed), is_idle):
            pass
        return [self._claimed.popleft() for _ in range(min(room, len(self._claimed)))]

    @property
    def is_exhausted(self) -> bool:
        """Whether every trial is claimed, as far as this worker knows."""
        return not self._claimed and self._store.fresh >= self._total

    def _claim(self, room: int, is_idle: bool) -> bool:
        """Claim trials for the free room, and more if claims follow each other quickly; False if there are none."""
        now = self._clock()
        self._store.refresh()
        again = self._due_again(now, room, is_idle)
        batch = self._batch_at(now)
        wanted = max(room, min(batch, self._fair_share())) - len(again)
        first = min(self._store.fresh, self._total)
        last = min(first + wanted, self._total)
        if not again and first == last:
            return False
        if self._store.add(first, last, again):
            self._last_claim, self._batch = now, batch
            self._claimed.extend(again)
            self._claimed.extend((number, 1) for number in range(first, last))
        return True  # if another worker was faster, look again

    def _batch_at(self, now: float) -> int:
        """Return how many trials to claim now, if they may be claimed ahead."""
        if not self._ahead:
            return 1
        is_short = now - self._last_claim < _SHORT_S
        batch = min(_MOST_AHEAD, 2 * self._batch) if is_short else self._batch // 2
        return max(batch, 1, self._total // _MOST_CLAIMS)

    def _fair_share(self) -> int:
        return (self._total - self._store.fresh) // (_SHARES * self._store.workers)

    def _due_again(self, now: float, room: int, is_idle: bool) -> list[tuple[int, int]]:
        """Return further starts that are due. They are looked for from time to time, and when nothing else is left."""
        pause = _LOOK_AT_THE_END_S
        if self._store.fresh < self._total:
            pause = _LOOK_EVERY_S
        elif is_idle:  # nothing else is left to do
            pause = 0.0
        if now - self._last_look < pause:
            return []
        self._last_look = now
        return self._store.due_again()[:room]
