"""The list of runs, and finding a run in it by parts of its name."""

from __future__ import annotations

import fcntl
import os
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch import runs
from hpclaunch.core import locks
from hpclaunch.core.errors import NotFound
from hpclaunch.core.files import append_line, write_text
from hpclaunch.runs import Run
from hpclaunch.runs import index as index_module
from tests.builders import a_run


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "state/runs.txt"


def listed(folder: Path, index: Path, name: str) -> Run:
    path = folder / name
    path.mkdir()
    runs.remember(index, path)
    return runs.save(replace(a_run(folder), path=path, created=f"2026-01-01T00:00:{len(runs.indexed(index)):02}Z"))


def test_of_many_runs_that_a_part_names_the_newest_five_are_shown(tmp_path: Path, index: Path) -> None:
    for number in range(1, 6):
        listed(tmp_path, index, f"train-{number}")
    with pytest.raises(NotFound) as caught:
        runs.find(index, "train")
    fault = caught.value.faults[0]
    assert fault.what == "'train' matches 5 runs"
    assert fault.allowed == "train-5, train-4, train-3, train-2, train-1"
    listed(tmp_path, index, "train-6")
    with pytest.raises(NotFound) as caught:
        runs.find(index, "train")
    assert caught.value.faults[0].allowed == "train-6, train-5, train-4, train-3, train-2, ..."


def test_the_only_run_of_which_a_whole_part_or_the_first_letters_are_typed_is_found(
    tmp_path: Path, index: Path
) -> None:
    run, _ = listed(tmp_path, index, "train-7"), listed(tmp_path, index, "plot-8")
    assert runs.find(index, "train") == runs.find(index, "7") == runs.find(index, "trai") == run
    with pytest.raises(NotFound, match="no run is called 'rain'; did you mean 'train-7'"):
        runs.find(index, "rain")


def test_a_list_of_more_than_64_mib_is_not_read(tmp_path: Path, index: Path) -> None:
    run = listed(tmp_path, index, "train-1")
    os.truncate(index, 64 * 2**20)
    assert runs.known(index).runs == (run,)
    os.truncate(index, 64 * 2**20 + 1)
    assert (runs.known(index).runs, runs.known(index).unreadable) == ((), (index,))
    assert runs.indexed(index) == []


def test_damaged_folders_hide_no_run_after_them(tmp_path: Path, index: Path) -> None:
    first, damaged, newer, last = (listed(tmp_path, index, name) for name in ("a", "b", "c", "d"))
    (damaged.path / "run.json").write_text("{")
    (newer.path / "run.json").write_text('{"format": 3}')
    found = runs.known(index)
    assert found.runs == (last, first)
    assert (found.unreadable, found.newer, found.not_permitted) == ((damaged.path,), (newer.path,), ())


def test_a_task_is_found_by_its_job_id_and_a_task_too_many_is_named(tmp_path: Path, index: Path) -> None:
    array = runs.save(replace(listed(tmp_path, index, "sweep-1"), tasks=12, job_id="4711"))
    assert runs.find(index, "4711_11") == runs.find(index, "4711_000000011") == runs.task_of(array, 11)
    with pytest.raises(NotFound) as caught:
        runs.find(index, "4711_12")
    fault = caught.value.faults[0]
    assert (fault.what, fault.allowed) == ("array 4711 has no task 12", "0 to 11")
    with pytest.raises(NotFound, match="array 4711 has no task 123456789"):
        runs.find(index, f"4711_123456789{'0' * 5000}")


def test_of_two_runs_with_one_job_id_the_own_one_is_found_and_else_the_newer(tmp_path: Path, index: Path) -> None:
    older, newer = (listed(tmp_path, index, name) for name in ("train-1", "plot-2"))
    older, newer = (runs.change(run, job_id="7", token=token * 32) for run, token in ((older, "a"), (newer, "b")))
    assert runs.find(index, "7") == newer
    runs.list_own(index.parent, older)
    assert runs.find(index, "7") == older
    runs.unlist_own(index.parent, [older])
    runs.list_own(index.parent, newer)
    assert runs.find(index, "7") == newer


def test_a_run_is_forgotten_unless_the_list_cannot_be_written(tmp_path: Path, index: Path) -> None:
    gone, kept = (listed(tmp_path, index, name) for name in ("train-1", "train-2"))
    runs.forget(index, [gone.path])
    assert runs.indexed(index) == [kept.path]
    runs.forget(index / "below-a-file" / "runs.txt", [kept.path])
    assert runs.indexed(index) == [kept.path]


def test_the_list_is_not_written_again_while_another_process_holds_it(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that write it at once would lose each other's lines. A new line is added all the same."""
    monkeypatch.setattr(locks, "_SECONDS", 0.0)
    one, two = (listed(tmp_path, index, name) for name in ("train-1", "train-2"))
    holder = os.open(index.parent, os.O_RDONLY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        runs.forget(index, [one.path])
        with pytest.raises(OSError, match="another process has held it"):
            runs.rebuild(index, [tmp_path])
        assert runs.indexed(index) == [one.path, two.path]
        three = listed(tmp_path, index, "train-3")
    finally:
        os.close(holder)
    assert runs.indexed(index) == [one.path, two.path, three.path]
    runs.forget(index, [one.path])
    assert runs.indexed(index) == [two.path, three.path]


def test_a_folder_that_can_be_read_at_the_second_time_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network file system may fail once; one that fails twice may hold runs, and the folder itself is returned."""
    run = runs.save(a_run(tmp_path, "1"))
    failures, scandir = [1], os.scandir

    def scan(folder: Path) -> object:
        if failures and failures.pop():
            raise OSError(5, "Input/output error")
        return scandir(folder)

    monkeypatch.setattr("os.scandir", scan)
    assert runs.inside(tmp_path) == [run.path]
    failures += [1, 1]
    assert runs.inside(tmp_path) == [tmp_path]
    assert runs.inside(tmp_path / "nowhere") == []


def test_a_record_that_was_written_in_place_with_its_old_time_is_another(tmp_path: Path) -> None:
    """As `rsync --times --inplace` does, of a backup whose record has as many bytes."""
    record = tmp_path / "run.json"
    record.write_text('{"state": "FAILED"}')
    before, about = runs.stamp_of(tmp_path), record.stat()
    record.write_text('{"state": "FAILEd"}')
    while record.stat().st_ctime_ns == about.st_ctime_ns:  # a clock of the kernel has coarse ticks
        record.touch()
    os.utime(record, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert runs.stamp_of(tmp_path) != before


def test_the_line_of_a_new_run_is_on_the_disk_and_so_is_the_name_of_a_new_list(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[str] = []
    monkeypatch.setattr("os.fsync", lambda file: waits.append(Path(os.readlink(f"/proc/self/fd/{file}")).name))
    index = index.parent / "deeper/runs.txt"
    assert runs.remember(index, tmp_path / "one") == ""
    assert waits == ["runs.txt", "deeper"]
    assert runs.remember(index, tmp_path / "two") == ""
    assert waits == ["runs.txt", "deeper", "runs.txt"]


def test_a_line_that_went_into_a_list_which_was_replaced_meanwhile_is_added_to_the_new_one(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a process on a file system without locks. Every line is added under the lock, where there are locks."""
    runs.remember(index, tmp_path / "one")
    tries = []

    def append(path: Path, line: str, durable: bool) -> os.stat_result:
        folder = os.open(index.parent, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(folder)
        about = append_line(path, line, durable)
        if not tries:
            write_text(path, f"{tmp_path / 'one'}\n")
        tries.append(line)
        return about

    monkeypatch.setattr(index_module, "append_line", append)
    assert runs.remember(index, tmp_path / "two") == ""
    assert (runs.indexed(index), len(tries)) == ([tmp_path / "one", tmp_path / "two"], 2)


def test_what_others_add_while_the_list_is_written_again_stays(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (listed(tmp_path, index, name) for name in ("train-1", "train-2"))

    def write(path: Path, text: str) -> None:
        with path.open("a") as file:
            file.write(f"{tmp_path / 'late'}\n")
        write_text(path, text)

    monkeypatch.setattr(index_module, "write_text", write)
    runs.forget(index, [one.path])
    assert runs.indexed(index) == [two.path, tmp_path / "late"]
    found = runs.rebuild(index, [tmp_path])
    assert found.paths == (one.path, two.path, tmp_path / "late") == tuple(runs.indexed(index))


def test_in_a_folder_the_directories_of_the_list_are_runs_without_a_look(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (listed(tmp_path, index, name) for name in ("train-1", "train-2"))
    looks: list[Path] = []
    monkeypatch.setattr(index_module, "_has_record", lambda path: looks.append(path) or path == two.path)
    assert runs.inside(tmp_path, frozenset([one.path])) == [one.path, two.path]
    assert one.path not in looks and two.path in looks


def test_a_line_that_is_no_path_is_passed_over(tmp_path: Path, index: Path) -> None:
    longest = "/" + "x" * 4094
    lines = ["relative", "", f"{longest}x", longest, "/a\0b", str(tmp_path), longest]
    index.parent.mkdir()
    index.write_text("".join(f"{line}\n" for line in lines))
    assert runs.indexed(index) == [Path(longest), tmp_path]
