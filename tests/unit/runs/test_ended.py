"""The index of ended runs: an entry counts only while the record that was read is still the same."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch import runs
from hpclaunch.core import locks
from hpclaunch.runs import Run, ended
from tests.builders import a_run


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path / "state"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return runs.save(replace(a_run(tmp_path, "7", state="FAILED"), exit_code="7:0", earlier=("5", "6")))


def keep(state: Path, *found: Run, listed: tuple[Path, ...] | None = None, **shown: object) -> None:
    entries = {run.path: (ended.stamp_of(run.path) or [], run, shown) for run in found}
    ended.keep_ended(state, entries, [run.path for run in found] if listed is None else listed)


def lines(state: Path) -> list[str]:
    return (state / ended.FILE).read_text().splitlines()


def test_what_was_kept_is_found_as_it_was(state: Path, run: Run) -> None:
    keep(state, run, epochs=3)
    index = ended.EndedRuns(state)
    assert (len(index), run.path in index, run.path / "x" in index) == (1, True, False)
    assert index.get(run.path, ended.stamp_of(run.path)) == ended.EndedRun(run=run, shown={"epochs": 3})
    assert index.get(run.path / "x", None) is None
    assert (state / ended.FILE).stat().st_mode & 0o777 == 0o600
    assert not [name for name in os.listdir(state) if name.startswith(f".{ended.FILE}-")]


def test_bytes_that_are_no_text_are_no_entry(state: Path, run: Run) -> None:
    keep(state, run)
    title, _ = (state / ended.FILE).read_bytes().splitlines()
    line = ended._line_of(run.path, b'{"stamp": "\xff"}')
    (state / ended.FILE).write_bytes(b"%s\n%s\n" % (title, line))
    index = ended.EndedRuns(state)
    assert run.path in index and index.get(run.path, ended.stamp_of(run.path)) is None
    (state / ended.FILE).write_bytes(b"\xff\n")
    assert len(ended.EndedRuns(state)) == 0


def test_there_is_room_for_the_entries_of_a_hundred_thousand_runs_twice(
    state: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many lines are there before it is written anew."""
    keep(state, run, epoch=100, epochs=100, seconds=3600.0)
    limits: list[int] = []
    monkeypatch.setattr(ended, "read_bytes", lambda path, most: limits.append(most) or b"")
    ended.EndedRuns(state)
    ended._count_lines(state / ended.FILE)
    assert len(limits) == 2 and min(limits) > 200_000 * len(lines(state)[1])


def test_an_entry_is_taken_away_under_the_lock(state: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else who writes the file anew at this moment would keep it."""
    keep(state, run)
    held: list[Path] = []
    monkeypatch.setattr(ended, "locked", lambda folder: held.append(folder) or locks.locked(folder))
    ended.drop_ended(state, run.path)
    assert held == [state] and run.path not in ended.EndedRuns(state)


def test_an_entry_is_taken_away_also_where_there_is_no_lock(
    state: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record changes in a moment: an entry that stays would show the state before."""
    keep(state, run)
    monkeypatch.setattr(ended, "locked", lambda folder: contextlib.nullcontext(False))
    ended.drop_ended(state, run.path)
    assert run.path not in ended.EndedRuns(state)


@pytest.mark.parametrize("shown", [[1], "x", None, 3])
def test_what_is_shown_of_another_kind_is_nothing(state: Path, run: Run, shown: object) -> None:
    """As another version of hpclaunch may have written it."""
    stamp = ended.stamp_of(run.path) or []
    ended.keep_ended(state, {run.path: (stamp, run, shown)}, [run.path])  # type: ignore[dict-item]
    assert ended.EndedRuns(state).get(run.path, stamp) == ended.EndedRun(run=run, shown={})


def test_an_entry_of_another_state_of_the_record_does_not_count_and_is_dropped(state: Path, run: Run) -> None:
    keep(state, run)
    before = ended.stamp_of(run.path)
    runs.save(run)
    index, now = ended.EndedRuns(state), ended.stamp_of(run.path)
    assert before != now
    found = index.get(run.path, now, check=False)
    assert found is not None and found.run == run, "for names it need not be the present one"
    assert index.get(run.path, now) is None
    assert (len(index), index.get(run.path, before)) == (0, None)


def test_each_part_of_the_stamp_tells_one_state_of_a_record_from_another(tmp_path: Path) -> None:
    record = tmp_path / "run.json"
    assert ended.stamp_of(tmp_path) is None
    record.write_text("one")
    about = record.stat()
    assert ended.stamp_of(tmp_path) == [about.st_ino, about.st_mtime_ns, about.st_ctime_ns, 3]
    for name in ("states.jsonl", "states.json"):  # a late exit code of a run of an array is in the second alone
        before = ended.stamp_of(tmp_path)
        (tmp_path / name).write_text("{}")
        assert ended.stamp_of(tmp_path) != before


def test_an_end_that_was_recorded_elsewhere_makes_the_entry_of_an_array_or_a_run_stale(
    state: Path, tmp_path: Path
) -> None:
    """As by ``runs repair`` of one run of an array, or by a late exit code, with another folder of state."""
    (tmp_path / "array").mkdir()
    array = runs.save(replace(a_run(tmp_path / "array", "7", "RUNNING"), tasks=2))
    failed = runs.TaskState("7", "FAILED", "1:0")
    array = runs.record_tasks(array, {0: failed, 1: failed})
    late = runs.save(a_run(tmp_path, "8", "FAILED"))
    keep(state, array, late)
    runs.record_tasks(array, {1: runs.TaskState("7", "COMPLETED", "0:0")}, any_state=True)
    runs.change(late, durable=False, exit_code="7:0")
    for run in (array, late):
        assert ended.EndedRuns(state).get(run.path, ended.stamp_of(run.path)) is None


def test_a_later_line_replaces_an_earlier_one_and_a_dropped_run_is_none(state: Path, tmp_path: Path, run: Run) -> None:
    other = runs.save(replace(a_run(tmp_path, "8", state="COMPLETED")))
    keep(state, run, n=1)
    keep(state, other, listed=(run.path, other.path), n=1)
    keep(state, run, listed=(run.path, other.path), n=2)
    assert len(lines(state)) == 4
    found = ended.EndedRuns(state).get(run.path, ended.stamp_of(run.path))
    assert found is not None and found.shown == {"n": 2}
    ended.drop_ended(state, run.path)
    index = ended.EndedRuns(state)
    assert (run.path in index, other.path in index, len(index)) == (False, True, 1)


def test_where_there_is_no_index_nothing_is_dropped_and_none_is_made(state: Path, run: Run) -> None:
    ended.drop_ended(state, run.path)
    ended.forget_all(state)
    assert not (state / ended.FILE).exists()
    keep(state, run)
    ended.forget_all(state)
    assert not (state / ended.FILE).exists()


def test_a_damaged_line_hides_no_other_and_a_line_that_is_cut_off_does_not_count(
    state: Path, tmp_path: Path, run: Run
) -> None:
    other = runs.save(replace(a_run(tmp_path, "8", state="COMPLETED")))
    keep(state, run, other)
    file = state / ended.FILE
    whole = file.read_text()

    def known(text: str) -> list[bool]:
        file.write_text(text)
        index = ended.EndedRuns(state)
        return [path in index for path in (run.path, other.path)]

    assert known(whole) == [True, True]
    assert known(whole.replace('"exit_code":"7:0"', '"exit_code":"0:0"')) == [False, True]
    assert known(whole[:-1]) == [True, False]
    assert known(whole.replace("\n", "\nx\n", 1)) == [True, True]


def test_a_copy_of_the_index_or_another_format_is_none_and_is_made_anew(state: Path, run: Run) -> None:
    keep(state, run)
    shutil.copy(state / ended.FILE, state / "copy")
    os.replace(state / "copy", state / ended.FILE)
    assert len(ended.EndedRuns(state)) == 0
    keep(state, run)
    assert len(ended.EndedRuns(state)) == 1
    (state / ended.FILE).write_text((state / ended.FILE).read_text().replace("runs 1 ", "runs 2 ", 1))
    assert len(ended.EndedRuns(state)) == 0
    keep(state, run)
    assert (len(ended.EndedRuns(state)), len(lines(state))) == (1, 2)


def test_it_is_written_anew_without_what_has_no_meaning_or_is_not_listed(
    state: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ended, "_SPARE_LINES", 2)
    gone = runs.save(replace(a_run(tmp_path, "8", state="COMPLETED")))
    keep(state, run, gone)
    for _ in range(3):
        keep(state, run, listed=(run.path,))
    assert len(lines(state)) == 6, "twice the two runs, and two"
    keep(state, run, listed=(run.path,))
    assert len(lines(state)) == 7
    keep(state, run, listed=(run.path,))
    assert [line.split("\t")[0][9:] for line in lines(state)[1:]] == [str(run.path)] * 2
    index = ended.EndedRuns(state)
    assert (run.path in index, gone.path in index) == (True, False)


def test_who_reads_it_while_it_is_written_anew_has_the_old_one_whole(
    state: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ended, "_SPARE_LINES", 0)
    keep(state, run)
    keep(state, run)
    with (state / ended.FILE).open() as reader:
        before = (state / ended.FILE).read_text()
        keep(state, run, n=2)
        assert not (state / ended.FILE).read_text().startswith(before), "it was written anew"
        assert reader.read() == before


def test_nothing_is_written_for_no_entries_and_a_record_too_long_is_not_kept(state: Path, run: Run) -> None:
    keep(state, run)
    before = lines(state)
    ended.keep_ended(state, {}, [run.path])
    assert lines(state) == before
    long = replace(run, path=run.path / "x", earlier=tuple(map(str, range(20_000))))
    ended.keep_ended(state, {long.path: ([1], long, {})}, [run.path, long.path])
    assert lines(state) == before


def test_while_another_process_holds_the_lock_nothing_is_kept(
    state: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that write the file anew at once would lose each other's lines, and a line that takes an entry away."""
    monkeypatch.setattr(locks, "_SECONDS", 0.0)
    keep(state, run, n=1)
    holder = os.open(state, os.O_RDONLY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        keep(state, run, n=2)
    finally:
        os.close(holder)
    assert len(lines(state)) == 2
    keep(state, run, n=3)
    assert len(lines(state)) == 3


def test_where_it_cannot_be_written_runs_are_read_from_their_directories(state: Path, run: Run) -> None:
    (state / ended.FILE).mkdir()
    keep(state, run)
    ended.drop_ended(state, run.path)
    ended.forget_all(state)
    assert len(ended.EndedRuns(state)) == 0
    assert not [name for name in os.listdir(state) if name.startswith(f".{ended.FILE}-")]


@pytest.mark.parametrize(
    "entry",
    [
        {"record": []},
        {"record": {"name": "x", "of_another_version": 1}},
        {"record": {"name": "x"}},
        {},
    ],
)
def test_an_entry_of_another_version_is_none(state: Path, run: Run, entry: dict[str, object]) -> None:
    keep(state, run)
    stamp = ended.stamp_of(run.path)
    line = ended._line_of(run.path, json.dumps({"stamp": stamp, "shown": {}, **entry}).encode())
    with (state / ended.FILE).open("ab") as file:
        file.write(line + b"\n")
    assert ended.EndedRuns(state).get(run.path, stamp) is None


def test_a_name_that_is_no_text_is_kept_too(state: Path, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    run = runs.save(replace(a_run(folder, "9", state="FAILED")))
    keep(state, run)
    assert run.path in ended.EndedRuns(state)


def test_the_spare_lines_grow_with_the_runs_not_faster(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ended, "_SPARE_LINES", 0)
    found = [runs.save(a_run(tmp_path, str(number), state="FAILED")) for number in range(6)]
    keep(state, *found)
    for expected in (13, 7 + 6):  # twice the runs is the most: then it is written anew with a title and both sets
        keep(state, *found)
        assert len(lines(state)) == expected
