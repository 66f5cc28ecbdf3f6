"""A list of runs in a given width: one line a run, and no reason is lost."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from hpclaunch.cli.show.run_columns import (
    COLUMNS,
    EVERY_DEFAULT,
    FittedTable,
    ListedRun,
    cut,
    fitted,
    named_columns,
    place_words,
)
from hpclaunch.core.errors import InvalidRequest
from hpclaunch.schedulers import QueuePlace
from tests.unit.cli.show.listed import failed, running, waiting

FOUND = [running(), waiting(), failed()]


def texts(table: FittedTable) -> list[str]:
    return ["".join(text for text, _ in line) for line in table.lines]


def test_a_list_of_80_columns_has_one_line_a_run() -> None:
    table = fitted(FOUND, EVERY_DEFAULT, 80)
    assert texts(table) == [
        "run                             state    nodes     elapsed      left  epoch",
        "cifar-20261124-163101-00000001  RUNNING      4    01:02:05  00:09:00   6/60",
        "cifar-20261124-163102-00000002  PENDING     16           -         -      -",
        "cifar-20261124-163103-00000003  FAILED       1  2-02:00:00         -      -",
    ]
    assert [note.partition(": ")[0] for note in table.notes] == ["cifar-20261124-163102-00000002"]
    assert "Priority: " in table.notes[0], "what has no room in the line stands below"
    assert table.lines[1][1] == ("  RUNNING", "RUNNING"), "a state has its own style"


@pytest.mark.parametrize("width", range(10, 220))
def test_no_line_is_longer_than_the_terminal_is_wide(width: int) -> None:
    found = [*FOUND, replace(running(4), run=replace(running(4).run, reason="x " * 200))]
    lines = texts(fitted(found, EVERY_DEFAULT, width))
    assert max(map(len, lines)) <= max(width, 61), "of the shortest run name and five numbers"
    assert all("00000001" in line for line in lines[1:2]), "the end of a name names the run"


def test_a_wide_terminal_has_every_column_and_the_whole_reason() -> None:
    table = fitted(FOUND, EVERY_DEFAULT, 400)
    titles = "run job id site state exit created (UTC) nodes elapsed left epoch reason"
    assert " ".join(texts(table)[0].split()) == titles
    assert table.notes == ()
    assert "Priority: " in texts(table)[2]


def test_a_reason_that_several_runs_have_is_written_once_below() -> None:
    table = fitted([waiting(2), waiting(3), waiting(4)], EVERY_DEFAULT, 80)
    assert len(table.notes) == 1 and table.notes[0].startswith("cifar-20261124-163102-00000002 and 2 more: Priority")


def test_columns_are_chosen_by_name() -> None:
    assert named_columns("state, RUN,walltime-left") == ["state", "run", "walltime-left"]
    assert texts(fitted([running()], ["state", "run", "walltime-left"], 20, fixed=True)) == [
        "state    run        walltime left",
        "RUNNING  …00000001       00:57:55",
    ]
    with pytest.raises(InvalidRequest) as caught:
        named_columns("run,epochs,,x")
    assert [fault.what for fault in caught.value.faults] == [
        "no column is called 'epochs'; did you mean 'epoch'?",
        "no column is called ''",
        "no column is called 'x'",
    ]
    assert set(EVERY_DEFAULT) < set(COLUMNS)


@pytest.mark.parametrize(
    ("name", "one", "text"),
    [
        ("left", running(), "00:09:00"),
        ("left", replace(running(), progress=replace(running().progress, left_s=None)), "<00:57:55"),
        ("left", failed(), "-"),
        ("epoch", running(epochs=None), "6"),
        ("epoch", failed(), "-"),
        ("loss", running(), "0.25"),
        ("curve", running(), "█▆▄▂▁▁"),
        ("exit", failed(), "7:0"),
        ("nodes", failed(), "1"),
        ("directory", running(), "/runs/cifar-20261124-163101-00000001"),
        ("reason", replace(waiting(reason=""), place=QueuePlace(before=3)), "3 before it"),
    ],
)
def test_the_text_of_a_column(name: str, one: ListedRun, text: str) -> None:
    assert COLUMNS[name].text(one) == text


def test_a_place_in_the_queue_in_words() -> None:
    start = datetime(2026, 11, 24, 18, 5)
    assert place_words(QueuePlace(before=0, start=start)) == "0 before it, start 11-24 18:05"
    long = place_words(QueuePlace(before=1, start=start), long=True)
    assert long == "1 job before it, expected start 2026-11-24 18:05"
    assert place_words(QueuePlace(), long=True) == "its place is not known, no expected start yet"


def test_a_text_is_cut_at_its_end_or_its_beginning() -> None:
    assert (cut("abcdef", 6), cut("abcdef", 4), cut("abcdef", 4, keep_end=True)) == ("abcdef", "abc…", "…def")
    name = "training_with_noise-20261124-163101-a3f91c07"
    assert cut(name, 30, keep_end=True) == "training_with_n…63101-a3f91c07"
    assert cut(name, 12, keep_end=True) == "tra…a3f91c07"
    assert (cut("abc", 1), cut("abc", 0)) == ("a", "")
