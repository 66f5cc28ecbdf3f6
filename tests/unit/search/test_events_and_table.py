"""Events as lines, and what they tell of the trials: nothing is lost, nothing is counted twice."""

from __future__ import annotations

import random

import pytest

from hpclaunch.search.events import TrialBegin, TrialEnd, event_in
from hpclaunch.search.table import MOST_FAULTS, MOST_LOST, TrialTable


def begin(number: int, attempt: int = 1, time: float = 0.0) -> TrialBegin:
    return TrialBegin(number, attempt, time, {"x": number}, "n1", "0-3", "0")


def end(number: int, state: str, attempt: int = 1, value: float | None = None, time: float = 2.0) -> TrialEnd:
    return TrialEnd(number, attempt, time, state, value, 0, "")


def table(*events: TrialBegin | TrialEnd, worker: int = 1) -> TrialTable:
    made = TrialTable()
    for event in events:
        made.add(event, worker)
    return made


@pytest.mark.parametrize(
    "event",
    [
        TrialBegin(3, 2, 1.5, {"lr": 0.1, "o": "a\tb", "x": True}, "n1", "0-3,8", "1,2", 7),
        TrialEnd(3, 2, 9.25, "FAILED", None, 3, "it failed"),
        TrialEnd(0, 1, 9.25, "COMPLETED", 0.5),
    ],
    ids=["begin", "failure", "completion"],
)
def test_an_event_survives_its_line(event: TrialBegin | TrialEnd) -> None:
    assert event_in(event.line()) == event


@pytest.mark.parametrize("line", ["", "{", "[]", "3", '{"e":"end","n":1}', '{"e":"begin","n":-1,"a":1,"t":0}'])
def test_a_damaged_line_counts_as_not_written(line: str) -> None:
    assert event_in(line) is None


def test_a_trial_is_running_until_it_ends_or_its_worker_has_ended() -> None:
    made = table(begin(0), begin(1), end(1, "COMPLETED", value=0.5))
    assert [row.state for row in made.rows()] == ["RUNNING", "COMPLETED"]
    assert made.due_again() == []
    made.dead.add(1)
    assert [row.state for row in made.rows()] == ["LOST", "COMPLETED"]
    assert made.due_again() == [(0, 2)]


def test_a_claim_that_was_never_begun_is_lost_with_its_worker_however_often() -> None:
    made = TrialTable()
    for attempt in range(1, MOST_LOST + 5):
        made.claim(0, attempt, attempt)
        made.dead.add(attempt)
    assert made.due_again() == [(0, MOST_LOST + 5)]


def test_a_trial_whose_worker_ends_again_and_again_while_it_runs_has_failed() -> None:
    made = table(*(begin(0, attempt) for attempt in range(1, MOST_LOST + 2)))
    made.dead.add(1)
    assert made.row(0).state == "FAILED"
    assert made.due_again() == []


def test_a_fault_of_the_machine_is_tried_again_a_few_times() -> None:
    made = table(begin(0), end(0, "MACHINE"))
    assert made.due_again() == [(0, 2)]
    for attempt in range(2, MOST_FAULTS + 2):
        made.add(begin(0, attempt), 1)
        made.add(end(0, "MACHINE", attempt), 1)
    assert made.row(0).state == "FAILED"
    assert made.due_again() == []


def test_an_interrupted_trial_continues_with_the_same_values() -> None:
    made = table(begin(5), end(5, "INTERRUPTED"))
    assert made.due_again() == [(5, 2)]
    before = made.values_of(5)
    assert before is not None
    assert before.values == {"x": 5}


def test_the_first_finished_start_counts_and_the_time_of_all_starts() -> None:
    made = table(
        begin(0),
        end(0, "INTERRUPTED", time=2.0),
        begin(0, 2, 10.0),
        end(0, "COMPLETED", 2, 0.25, 14.0),
        begin(0, 3, 20.0),
    )
    row = made.row(0)
    assert (row.state, row.value, row.attempts, row.seconds) == ("COMPLETED", 0.25, 3, 6.0)
    assert made.due_again() == []


def test_the_order_of_events_and_repeated_lines_change_nothing() -> None:
    events = [event for n in range(30) for event in (begin(n), end(n, "COMPLETED", value=float(n)))]
    expected = list(table(*events).rows())
    for seed in range(5):
        shuffled = random.Random(seed).sample([*events, *events], 2 * len(events))
        assert list(table(*shuffled).rows()) == expected


def test_intervals_are_all_starts_with_their_ends() -> None:
    made = table(begin(0, 1, 5.0), begin(1, 1, 1.0), end(1, "COMPLETED", time=3.0))
    assert [(one.number, last) for one, last in made.intervals()] == [(1, 3.0), (0, None)]
