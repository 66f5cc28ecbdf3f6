"""The totals of journals, with the events that they leave out, tell the same as all events: whatever was recorded."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.search import journal
from hpclaunch.search.events import TrialBegin, TrialEnd
from hpclaunch.search.folder import SearchFolder, SearchRecord
from hpclaunch.search.journal import JournalReader, JournalWriter
from hpclaunch.search.results import SearchSummary, summary_of
from hpclaunch.search.space import Dimension, SearchSpace
from hpclaunch.search.terms import SearchTerms
from hpclaunch.search.totals import Counting, text_of, totals_in

Event = TrialBegin | TrialEnd
SPACE = SearchSpace(dimensions=(Dimension(name="a", low=0, high=99, whole=True),))
TERMS = SearchTerms(space=SPACE, metric="loss")

# Whole seconds and halves: their sums are exact in any order.
times = st.integers(0, 50).map(float)
values = st.none() | st.integers(0, 4).map(lambda number: number / 2)
states = st.sampled_from(["COMPLETED", "COMPLETED", "FAILED", "PRUNED", "INTERRUPTED", "MACHINE"])
attempts = st.sampled_from([1, 1, 1, 2])
begins = st.builds(
    lambda number, attempt, time: TrialBegin(number, attempt, time, {"a": number}), st.integers(0, 9), attempts, times
)
ends = st.builds(TrialEnd, st.integers(0, 9), attempts, times, states, values)


@st.composite
def whole_trials(draw: st.DrawFn) -> list[list[Event]]:
    """Journals as workers write them: each trial is one worker's, begins once, and most of them end."""
    journals: list[list[Event]] = [[] for _ in range(draw(st.integers(1, 3)))]
    for number in range(draw(st.integers(0, 20))):
        mine, time = draw(st.sampled_from(journals)), draw(times)
        mine.append(TrialBegin(number, 1, time, {"a": number}))
        if draw(st.integers(0, 4)):
            mine.append(TrialEnd(number, 1, time + draw(times), draw(states), draw(values)))
    return journals


def folder_with(path: str, journals: Sequence[Sequence[Event]], count_every: int) -> SearchFolder:
    folder = SearchFolder(Path(path))
    folder.write(SearchRecord(terms=TERMS, target="true", at_once=2, created=""))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "_COUNT_EVERY", count_every)
        for number, events in enumerate(journals, start=1):
            writer = JournalWriter(folder, number, TERMS)
            for event in events:
                writer.add(event)
                writer.flush()
            writer._file.close()  # as of a killed worker: the last events are not in its totals
    return folder


def both_ways(folder: SearchFolder) -> tuple[SearchSummary, SearchSummary, int]:
    """Return the summary from all events, that from the totals, and how many trials only the totals know."""
    all_events, rest = JournalReader(folder), JournalReader(folder)
    for reader in (all_events, rest):
        reader.table.dead.add(1)
    totals = rest.read_rest()
    rest.table.dead.add(1)
    whole = summary_of(all_events.read(claims=False), TERMS, 2)
    return whole, summary_of(rest.table, TERMS, 2, totals), len(all_events.table) - len(rest.table)


@given(whole_trials(), st.integers(1, 5))
def test_what_workers_write_is_told_by_its_totals(journals: list[list[Event]], count_every: int) -> None:
    with tempfile.TemporaryDirectory() as path:
        whole, short, saved = both_ways(folder_with(path, journals, count_every))
    assert short == whole
    finished = sum(whole.states.get(state, 0) for state in ("COMPLETED", "FAILED", "PRUNED"))
    if count_every == 1:
        assert saved >= finished - whole.states.get("FAILED", 0)  # a trial may fail by too many faults of the machine


@given(st.lists(st.lists(begins | ends, max_size=12), min_size=1, max_size=3), st.integers(1, 4))
def test_events_in_any_order_twice_and_by_several_workers(journals: list[list[Event]], count_every: int) -> None:
    with tempfile.TemporaryDirectory() as path:
        whole, short, _ = both_ways(folder_with(path, journals, count_every))
    assert short == whole


@given(whole_trials(), st.data())
def test_totals_that_are_damaged_or_of_a_longer_journal_are_left_out(
    journals: list[list[Event]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as path:
        folder = folder_with(path, journals, 1)
        file = folder.totals(1)
        if file.exists():
            text = file.read_text()
            cut = data.draw(st.integers(0, len(text) - 1))
            damaged = data.draw(st.sampled_from([text[:cut], "", "[]", "{}", text.replace('"format":1', '"format":2')]))
            file.write_text(damaged)
        if data.draw(st.booleans()) and (content := folder.journal(1).read_bytes()):
            folder.journal(1).write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
        whole, short, _ = both_ways(folder)
    assert short == whole


@given(whole_trials())
def test_the_totals_in_a_file_are_those_that_were_written(journals: list[list[Event]]) -> None:
    counting = Counting(TERMS)
    for event in journals[0]:
        counting.add(event)
    totals = counting.totals(123)
    assert totals_in(json.loads(text_of(totals))) == totals
