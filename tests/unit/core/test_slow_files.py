"""Many questions at once, and in order: without a clock, as a thread that waits for others shows that they run."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from hpclaunch.core import slow_files
from hpclaunch.core.slow_files import answers


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_files, "_experience", slow_files._Experience())


def test_answers_come_in_order_whether_asked_at_once_or_not() -> None:
    wanted = [number * number for number in range(300)]
    assert answers(lambda number: number * number, range(300)) == wanted
    assert answers(lambda number: number * number, range(300), slow_s=-1.0) == wanted
    assert answers(lambda number: number, [], slow_s=-1.0) == []


def test_things_that_answer_slowly_are_asked_at_the_same_time() -> None:
    together = threading.Barrier(8, timeout=60)

    def ask(number: int) -> int:
        if number > 0:
            together.wait()  # goes on only if eight are asked at once
        return number

    assert answers(ask, range(9), slow_s=-1.0) == [*range(9)]


def test_a_slow_answer_is_remembered_by_the_next_questions() -> None:
    answers(str, range(9), slow_s=-1.0)
    together = threading.Barrier(9, timeout=60)
    assert len(answers(lambda _: together.wait(), range(9), slow_s=60.0)) == 9


@pytest.mark.parametrize(("number", "slow_s"), [(100, 60.0), (7, -1.0)])
def test_one_after_the_other_where_answers_are_quick_or_few(number: int, slow_s: float) -> None:
    asked_by = answers(lambda _: threading.get_ident(), range(number), slow_s=slow_s)
    assert set(asked_by) == {threading.get_ident()}


@pytest.mark.parametrize("slow_s", [60.0, -1.0])
def test_the_first_error_is_raised(slow_s: float) -> None:
    def ask(number: int) -> int:
        if number in (5, 9):
            raise ValueError(number)
        return number

    with pytest.raises(ValueError, match="5"):
        answers(ask, range(20), slow_s=slow_s)


def test_without_threads_the_asking_one_does_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert answers(str, range(20), slow_s=-1.0) == [str(number) for number in range(20)]


def test_never_more_threads_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[threading.Thread] = []
    start: Callable[[threading.Thread], None] = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda self: (started.append(self), start(self)))
    monkeypatch.setattr(slow_files, "_MOST_AT_ONCE", 6)
    assert answers(str, range(100), slow_s=-1.0)[-1] == "99"
    assert len(started) == 5
