"""Which trials workers start next: every one once, whoever is faster, and what was lost again."""

from __future__ import annotations

from hpclaunch.search.scheduling import Desk


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Claims:
    """The claims of all workers in one list; ``due`` is what the journals would tell."""

    def __init__(self) -> None:
        self.made: list[tuple[int, int, list[tuple[int, int]]]] = []
        self.due: list[tuple[int, int]] = []

    def fresh(self) -> int:
        return max((last for _, last, _ in self.made), default=0)


class Store:
    """One worker's view, which is as old as its last refresh."""

    def __init__(self, claims: Claims) -> None:
        self._claims, self._seen = claims, 0
        self.fresh, self.workers = 0, 2

    def refresh(self) -> None:
        self._seen, self.fresh = len(self._claims.made), self._claims.fresh()

    def due_again(self) -> list[tuple[int, int]]:
        return list(self._claims.due)

    def add(self, first: int, last: int, again: list[tuple[int, int]]) -> bool:
        if self._seen != len(self._claims.made):
            return False
        self._claims.made.append((first, last, again))
        self._claims.due = [one for one in self._claims.due if one not in again]
        self.refresh()
        return True


def test_two_workers_make_every_trial_once() -> None:
    claims, clock = Claims(), Clock()
    desks = [Desk(Store(claims), 101, clock) for _ in range(2)]
    taken: list[tuple[int, int]] = []
    while more := [start for desk in desks for start in desk.take(3)]:
        taken += more
        clock.now += 5
    assert sorted(taken) == [(number, 1) for number in range(101)]


def test_a_worker_that_was_slower_looks_again() -> None:
    claims, clock = Claims(), Clock()
    slow, fast = Store(claims), Store(claims)
    refresh = slow.refresh

    def refresh_and_be_overtaken() -> None:
        refresh()
        slow.refresh = refresh  # type: ignore[method-assign]
        fast.refresh()
        fast.add(0, 2, [])

    slow.refresh = refresh_and_be_overtaken  # type: ignore[method-assign]
    assert Desk(slow, 10, clock).take(2) == [(2, 1), (3, 1)]


def test_short_trials_are_claimed_in_larger_batches_and_long_ones_as_they_are_needed() -> None:
    claims, clock = Claims(), Clock()
    desk = Desk(Store(claims), 10_000, clock)
    for _ in range(300):
        desk.take(1)
    assert len(claims.made) < 30
    long = Desk(Store(claims), 10_000, clock)
    for _ in range(5):
        clock.now += 60
        taken = long.take(1)
        assert claims.made[-1] == (taken[0][0], taken[0][0] + 1, [])


def test_trials_that_depend_on_results_are_never_claimed_ahead() -> None:
    claims, clock = Claims(), Clock()
    desk = Desk(Store(claims), 1_000, clock, ahead=False)
    for _ in range(50):
        assert len(desk.take(2)) == 2
        first, last, _ = claims.made[-1]
        assert last - first == 2


def test_lost_trials_are_made_again_before_the_worker_ends() -> None:
    claims, clock = Claims(), Clock()
    desk = Desk(Store(claims), 2, clock)
    assert desk.take(2) == [(0, 1), (1, 1)]
    claims.due = [(1, 2)]
    assert desk.take(2, is_idle=True) == [(1, 2)]
    assert desk.take(2, is_idle=True) == []
    assert desk.is_exhausted


def test_a_busy_worker_does_not_read_all_journals_at_every_end() -> None:
    claims, clock = Claims(), Clock()
    desk = Desk(Store(claims), 1, clock)
    desk.take(2, is_idle=False)
    claims.due = [(0, 2)]
    assert desk.take(1, is_idle=False) == []
    clock.now += 10
    assert desk.take(1, is_idle=False) == [(0, 2)]
