"""What in a run directory is not read: named all together, with the reason."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from hpclaunch.actions.queueing import wait
from hpclaunch.core import inside
from hpclaunch.core.errors import Refused
from hpclaunch.runs import load, task_of, unread
from hpclaunch.runs.unread import READ_BY_A_PAGE, refuse_strange_names, refuse_unread, strange_place
from tests import fabricated_runs as fabricated


def test_nothing_is_named_of_an_ordinary_run(tmp_path: Path) -> None:
    run = load(fabricated.finished(tmp_path))
    assert unread.unread(run, READ_BY_A_PAGE) == strange_place(run.home) == []
    refuse_unread([run], READ_BY_A_PAGE)


def test_everything_is_named_at_once_and_the_rest_is_counted(tmp_path: Path) -> None:
    run = load(fabricated.failed(tmp_path))
    for number in range(12):
        (run.path / f"logs/{number}.out").symlink_to("/etc/hostname")
    os.mkfifo(run.path / "hosts")  # nothing reads it
    with pytest.raises(Refused) as error:
        refuse_unread([run, run], READ_BY_A_PAGE)
    assert len(error.value.faults) == 11
    assert all(fault.what == "is a link" for fault in error.value.faults[:10])
    assert error.value.faults[10].what == "and 2 more files that are not read"
    refuse_unread([run], ("attempts",))


def test_a_run_directory_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    path = fabricated.finished(tmp_path / "runs")
    (tmp_path / "theirs").symlink_to(path)
    with pytest.raises(Refused, match="is a link, and no run directory"):
        refuse_unread([load(path), load(tmp_path / "theirs")], READ_BY_A_PAGE)


def test_a_task_of_an_array_is_looked_at_from_the_array(tmp_path: Path) -> None:
    array = load(fabricated.array(tmp_path))
    refuse_unread([task_of(array, 7)], READ_BY_A_PAGE)
    (array.path / "0007").rename(tmp_path / "elsewhere")
    (array.path / "0007").symlink_to(tmp_path / "elsewhere")
    task = task_of(array, 7)
    assert list(task.metrics()) == [] and task.attempts() == []
    with pytest.raises(Refused, match="is a link"):
        refuse_unread([task], READ_BY_A_PAGE)
    other = task_of(array, 8)
    refuse_unread([other], READ_BY_A_PAGE)
    (other.path / "metrics.jsonl").unlink()
    (other.path / "metrics.jsonl").symlink_to(tmp_path / "elsewhere/metrics.jsonl")
    (other.path / "attempts/link").symlink_to(tmp_path / "elsewhere")
    found = unread.unread(other, READ_BY_A_PAGE)
    assert [fault.where for fault in found] == [f"{other.path}/metrics.jsonl", f"{other.path}/attempts/link"]


def test_a_record_that_is_too_large_is_named_and_a_series_is_not(tmp_path: Path) -> None:
    run = load(fabricated.finished(tmp_path))
    for name in (
        "spec.json",
        "metrics.jsonl",
        "logs.txt",
        "states.json",
        "values",
    ):  # the last have limits of their own
        (run.path / name).touch()
        os.truncate(run.path / name, 17 * 2**20)
    (fault,) = unread.unread(run, READ_BY_A_PAGE)
    assert (fault.where, fault.what) == (str(run.path / "spec.json"), "is larger than 16384 KB")


def test_links_on_the_way_are_followed_if_nobody_else_may_change_them(tmp_path: Path) -> None:
    run = fabricated.finished(tmp_path / "scratch")
    (tmp_path / "runs").symlink_to(tmp_path / "scratch")
    through = tmp_path / "runs" / run.name
    assert strange_place(through) == []
    refuse_strange_names([str(through), run.name, "@latest"])
    (tmp_path / "latest").symlink_to(run)
    with pytest.raises(Refused, match="no run directory"):
        refuse_strange_names([str(tmp_path / "latest")])
    if os.geteuid() != 0:
        pytest.skip("group root: gives links to other users")
    os.lchown(tmp_path / "runs", 23456, 23456)
    assert strange_place(run) == []
    (fault,) = strange_place(through)
    assert fault.where == str(tmp_path / "runs") and "another user" in fault.what and str(run) in fault.next
    os.chown(run, 23456, 23456)
    assert strange_place(through) == [fault], "also to a run of theirs"
    (below,) = strange_place(through / "gone/0007")
    assert (below.where, below.what) == (fault.where, fault.what), "what is missing below it ends no search"
    os.lchown(tmp_path / "runs", 0, 0)
    assert strange_place(through) == []


def failing(monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> None:
    """Let a folder or file of this name not be opened."""
    opened = os.open

    def fail(path: str, *words: int, **more: int) -> int:
        if Path(path).name == name:
            raise OSError(number, os.strerror(number), path)
        return opened(path, *words, **more)

    monkeypatch.setattr("os.open", fail)


@pytest.mark.parametrize("whose", ["own", "another's"])
@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
@pytest.mark.parametrize("name", ["metrics.jsonl", "spec.json", "logs", "deep"])
def test_what_cannot_be_read_is_named_unless_another_user_has_closed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int, whose: str
) -> None:
    """A network file system fails, or the mode forbids it."""
    run = load(fabricated.finished(tmp_path))
    (run.path / "samples/deep").mkdir(parents=True)
    (run.path / "search").mkdir(exist_ok=True)
    (run.path / "search/link").symlink_to("/etc/hostname")
    if whose != "own":
        me = os.geteuid()
        monkeypatch.setattr("os.geteuid", lambda: me + 1)
    failing(monkeypatch, name, number)
    found = {fault.where: fault.what for fault in unread.unread(run, READ_BY_A_PAGE)}
    place = run.path / ("samples/deep" if name == "deep" else name)
    closed = {} if (whose, number) == ("another's", errno.EACCES) else {str(place): os.strerror(number)}
    assert found == {**closed, str(run.path / "search/link"): "is a link"}


def test_a_folder_with_too_many_files_or_that_is_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = load(fabricated.failed(tmp_path))
    assert unread.unread(run, ("nowhere",)) == []
    monkeypatch.setattr(inside, "MOST_NAMES", 1)
    for number in range(2):
        (run.path / f"logs/{number}.out").touch()
    (run.path / "samples").touch()
    found = {fault.where: fault.what for fault in unread.unread(run, ("logs", "samples", "nowhere"))}
    assert found == {f"{run.path}/logs": "has more than 1 files", f"{run.path}/samples": "Not a directory"}


def test_a_log_without_end_is_shown_by_its_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = load(fabricated.failed(tmp_path))
    for name, size in (("_BLOCK", 10), ("_FIRST_OF_A_LOG", 20), ("_LAST_OF_A_LOG", 10), ("_LARGEST_LOG", 100)):
        monkeypatch.setattr(wait, name, size)
    (run.path / "logs/4711.out").write_text("a" * 100)
    assert b"".join(iter(wait.Tail(run).read, b"")) == b"a" * 100
    (run.path / "logs/4711.out").write_text("a" * 20 + "b" * 71 + "c" * 10)
    text = b"".join(iter(wait.Tail(run).read, b"")).decode()
    assert text.startswith("a" * 20 + "\n") and text.endswith("\n" + "c" * 10) and "b" * 8 not in text
    assert "71 bytes are left out here" in text and str(run.path / "logs/4711.out") in text
