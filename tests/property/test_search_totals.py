"""The totals of journals, with the events that they leave out, tell the same as all events: whatever was recorded."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.core.files import json_object, read_text
from hpclaunch.search.events import Event, TrialBegin, TrialEnd
from hpclaunch.search.folder import SearchFolder, SearchRecord
from hpclaunch.search.journal import JournalReader, JournalWriter, read_with_totals
from hpclaunch.search.results import SearchSummary, summary_of
from hpclaunch.search.space import Dimension, SearchSpace
from hpclaunch.search.terms import SearchTerms
from hpclaunch.search.totals import TotalsCounter, text_of, totals_in

SPACE = SearchSpace(dimensions=(Dimension(name="a", low=0, high=99, whole=True),))
TERMS = SearchTerms(space=SPACE, metric="loss")
all_terms = st.sampled_from([TERMS, SearchTerms(space=SPACE, metric="accuracy"), SearchTerms(space=SPACE)])

# Whole seconds and halves: their sums are exact in any order.
times = st.integers(0, 50).map(float)
values = st.none() | st.integers(0, 4).map(lambda number: number / 2)
states = st.sampled_from(["COMPLETED", "COMPLETED", "FAILED", "PRUNED", "INTERRUPTED", "MACHINE"])
attempts = st.sampled_from([1, 1, 1, 2])
numbers = st.integers(0, 3)
begins = st.builds(lambda number, attempt, time: TrialBegin(number, attempt, time, {"a": 1}), numbers, attempts, times)
ends = st.builds(TrialEnd, numbers, attempts, times, states, values)


@st.composite
def whole_trials(draw: st.DrawFn, states: st.SearchStrategy[str] = states) -> list[list[Event]]:
    """Journals as workers write them: each trial is one worker's, begins once, and most of them end."""
    journals: list[list[Event]] = [[] for _ in range(draw(st.integers(1, 3)))]
    for number in range(draw(st.integers(0, 20))):
        mine, time = draw(st.sampled_from(journals)), draw(times)
        mine.append(TrialBegin(number, 1, time, {"a": number}))
        if draw(st.integers(0, 4)):
            mine.append(TrialEnd(number, 1, time + draw(times), draw(states), draw(values)))
    return journals


def write(path: str, journals: Sequence[Sequence[Event]], every: int, terms: SearchTerms = TERMS) -> SearchFolder:
    """Write the journals, with totals after so many events. The first worker is killed before it writes the last."""
    folder = SearchFolder(Path(path))
    folder.write(SearchRecord(terms=terms, target="true", at_once=2, created=""))
    for number, events in enumerate(journals, start=1):
        writer = JournalWriter(folder, number, terms, count_every=every)
        for event in events:
            writer.add(event)
            writer.flush()
        before = read_text(folder.totals(number))
        writer.close()
        if number == 1:
            folder.totals(number).write_text(before)
    return folder


def both_ways(folder: SearchFolder, terms: SearchTerms = TERMS) -> tuple[SearchSummary, SearchSummary, int]:
    """Return the summary from all events, that from the totals, and how many trials only the totals know."""
    every = JournalReader(folder).read(claims=False)
    table, totals = read_with_totals(folder, terms)
    every.dead.add(1)
    table.dead.add(1)
    return summary_of(every, terms, 2), summary_of(table, terms, 2, totals), len(every) - len(table)


@given(whole_trials(), st.integers(1, 5), all_terms)
def test_the_totals_that_workers_write_change_no_summary(
    journals: list[list[Event]], every: int, terms: SearchTerms
) -> None:
    with tempfile.TemporaryDirectory() as path:
        whole, short, _ = both_ways(write(path, journals, every, terms), terms)
    assert short == whole


@given(whole_trials(st.sampled_from(["COMPLETED", "FAILED", "PRUNED"])))
def test_every_finished_trial_is_counted(journals: list[list[Event]]) -> None:
    with tempfile.TemporaryDirectory() as path:
        whole, _, saved = both_ways(write(path, journals, 1))
    assert saved == sum(whole.states.get(state, 0) for state in ("COMPLETED", "FAILED", "PRUNED"))


@given(st.lists(st.lists(begins | ends, max_size=12), min_size=1, max_size=3), st.integers(1, 4), all_terms)
def test_events_in_any_order_twice_and_by_several_workers(
    journals: list[list[Event]], every: int, terms: SearchTerms
) -> None:
    with tempfile.TemporaryDirectory() as path:
        whole, short, _ = both_ways(write(path, journals, every, terms), terms)
    assert short == whole


@given(whole_trials(), st.data())
def test_a_journal_that_is_shorter_or_other_than_its_totals_is_read(
    journals: list[list[Event]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as path:
        folder = write(path, journals, 1)
        if content := folder.journal(1).read_bytes():
            place = data.draw(st.integers(0, len(content) - 1))
            damaged = bytes([content[place] ^ data.draw(st.integers(1, 255))]) + content[place + 1 :]
            folder.journal(1).write_bytes(content[:place] + (damaged if data.draw(st.booleans()) else b""))
        whole, short, _ = both_ways(folder)
    assert short == whole


WRONG: tuple[Any, ...] = (
    None,
    -1,
    -5.5,
    True,
    "x",
    [],
    {},
    [[0, 10**18]],
    [[5, 2]],
    {"COMPLETED": -3},
    {"NEW": 1},
    10**400,
    float("nan"),
)


@given(whole_trials(), st.data())
def test_totals_with_a_damaged_field_are_left_out(journals: list[list[Event]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as path:
        folder = write(path, [[TrialBegin(99, 1, 1.0, {}), TrialEnd(99, 1, 2.0, "COMPLETED", 0.5)], *journals], 1)
        values = json_object(folder.totals(1).read_text())
        name = data.draw(st.sampled_from([name for name in values if name not in ("first", "last", "seconds", "best")]))
        values[name] = data.draw(st.sampled_from(WRONG).filter(lambda wrong: wrong != values[name]))
        folder.totals(1).write_text(json.dumps(values))
        assert totals_in(values, TERMS) is None or (name, values[name]) == ("uncounted", [])
        whole, short, _ = both_ways(folder)
    assert short == whole


@pytest.mark.parametrize("name", ["first", "last", "seconds", "best"])
@pytest.mark.parametrize("wrong", [{}, "x", ["a", "b"], float("inf"), float("nan"), 10**400])
def test_times_and_a_best_trial_that_cannot_be_are_left_out(name: str, wrong: object) -> None:
    counter = TotalsCounter(TERMS)
    counter.add(TrialBegin(0, 1, 1.0, {}))
    counter.add(TrialEnd(0, 1, 2.0, "COMPLETED", 0.5))
    values = json.loads(text_of(counter.totals(123, 5), TERMS))
    assert totals_in(values, TERMS) is not None
    assert totals_in({**values, name: wrong}, TERMS) is None
    if name == "best":
        begin, end = values["best"]
        assert totals_in({**values, name: [end, begin]}, TERMS) is None
        assert totals_in({**values, name: [begin, end.replace('"n":0', '"n":1')]}, TERMS) is None
        assert totals_in({**values, "finished": [[7, 7]]}, TERMS) is None


@given(whole_trials())
def test_the_totals_in_a_file_are_those_that_were_written(journals: list[list[Event]]) -> None:
    counter = TotalsCounter(TERMS)
    for event in journals[0]:
        counter.add(event)
    totals = counter.totals(123, 5)
    assert totals_in(json.loads(text_of(totals, TERMS)), TERMS) == totals
    assert totals_in(json.loads(text_of(totals, TERMS)), SearchTerms(space=SPACE, metric="accuracy")) is None


def test_a_worker_goes_on_where_totals_cannot_be_written(tmp_path: Path) -> None:
    folder = write(str(tmp_path), [], 1)
    folder.totals(1).mkdir()
    writer = JournalWriter(folder, 1, TERMS, count_every=1)
    writer.add(TrialBegin(0, 1, 1.0, {}))
    writer.close()
    assert len(JournalReader(folder).read()) == 1
