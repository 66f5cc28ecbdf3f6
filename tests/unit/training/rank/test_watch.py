"""What counts as progress of a rank, and how ranks in long work tell each other."""

from __future__ import annotations

import pytest

try:
    import numpy  # noqa: F401
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

import threading
from typing import Any

from hpclaunch.training.rank import watch
from hpclaunch.training.rank.watch import Watch


def looks(watched: Watch, count: int, worked: float = 0.0) -> list[bool]:
    """What `count` looks find, one every 5 s."""
    return [watched.look(5.0, worked) for _ in range(count)]


def test_a_rank_without_progress_is_found_within_ten_seconds_after_its_time() -> None:
    watched = Watch(60.0)
    assert looks(watched, 13) == [False] * 12 + [True]


def test_without_a_time_nothing_is_found() -> None:
    assert looks(Watch(0.0), 1000) == [False] * 1000


@pytest.mark.parametrize("progress", [Watch.mark, Watch.hear])
def test_progress_of_this_rank_and_of_another_begins_the_time_again(progress: Any) -> None:
    watched = Watch(60.0)
    assert not any(looks(watched, 12))
    progress(watched)
    assert looks(watched, 14) == [False] * 13 + [True]


def test_a_main_thread_that_computes_progresses_and_one_that_waits_does_not() -> None:
    assert not any(looks(Watch(60.0), 1000, worked=0.02))
    assert any(looks(Watch(60.0), 14, worked=0.001))


def test_a_job_that_was_suspended_as_a_whole_is_not_ended_when_it_continues() -> None:
    assert not Watch(60.0).look(3600.0, 0.0)


def test_short_times_are_looked_at_more_often() -> None:
    assert (Watch(8.0).pause, Watch(1800.0).pause, Watch(0.0).pause) == (2.0, 5.0, 5.0)


class Ranks:
    """Collectives of threads in place of ranks; `rounds` has the answers of each."""

    def __init__(self, size: int) -> None:
        self.rounds: list[list[Any]] = []
        self._answers: list[Any] = [None] * size
        self._met = threading.Barrier(size, lambda: self.rounds.append(list(self._answers)))

    def gather(self, rank: int, value: Any) -> list[Any]:
        self._answers[rank] = value
        number = len(self.rounds)
        self._met.wait(60)
        return self.rounds[number]


def test_a_rank_that_has_finished_waits_for_one_that_works_and_both_know_the_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "this_rank", Watch(0.04))
    ranks = Ranks(2)
    quick, slow = (watch.Rounds(lambda value, rank=rank: ranks.gather(rank, value)) for rank in (0, 1))
    results: list[Any] = []
    waiting = threading.Thread(target=lambda: results.append(quick.end("quick")))
    waiting.start()
    while len(ranks.rounds) < 5:
        assert waiting.is_alive()
    before = watch.this_rank.count
    assert slow.end("slow") == ["quick", "slow"]
    waiting.join()
    assert results == [["quick", "slow"]]
    assert watch.this_rank.count == before  # what others tell is no progress of this rank


def test_a_fault_of_the_collective_is_raised_where_the_rank_waits() -> None:
    def broken(value: Any) -> list[Any]:
        raise RuntimeError("Horovod has been shut down")

    with pytest.raises(RuntimeError, match="shut down"):
        watch.Rounds(broken).end()
