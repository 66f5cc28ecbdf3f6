"""Files below a folder of another person: through no link, regular files alone."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hpclaunch.core import inside


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file below it, and a file outside of it."""
    (tmp_path / "run/logs").mkdir(parents=True)
    (tmp_path / "run/logs/a.out").write_text("own")
    (tmp_path / "run/top").write_text("top")
    (tmp_path / "outside/logs").mkdir(parents=True)
    (tmp_path / "outside/logs/a.out").write_text("theirs")
    (tmp_path / "outside/top").write_text("theirs")
    return tmp_path / "run"


def test_what_is_inside_is_read(folder: Path) -> None:
    assert inside.read_text(folder, "top") == "top"
    assert inside.read_text(folder, "logs/a.out") == "own"
    assert inside.read_end(folder, "logs/a.out", 2) == b"wn"
    assert inside.names_in(folder, "logs") == ["a.out"]
    assert inside.size_of(folder, "logs/a.out") == 3
    assert inside.changed_at(folder, "top") == os.stat(folder / "top").st_mtime
    assert [name for name, _ in inside.walk(folder)] == ["top", "logs/a.out"]
    assert inside.problem(folder, "top") == inside.problem(folder, "missing") == ""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        assert inside.read_text(descriptor, "logs/a.out") == "own"
        assert inside.read_text(descriptor, "top") == "top"
    finally:
        os.close(descriptor)


def test_a_link_that_leads_to_the_folder_is_followed(folder: Path) -> None:
    (folder.parent / "scratch").symlink_to(folder)
    assert inside.read_text(folder.parent / "scratch", "logs/a.out") == "own"


@pytest.mark.parametrize("name", ["top", "logs/a.out", "logs"])
@pytest.mark.parametrize("relative", [False, True])
def test_no_part_of_a_name_is_followed(folder: Path, name: str, relative: bool) -> None:
    (folder / name).rename(folder.parent / "kept")
    target = folder.parent / "outside" / name
    (folder / name).symlink_to(os.path.relpath(target, (folder / name).parent) if relative else target)
    file = "logs/a.out" if name == "logs" else name
    assert inside.read_text(folder, file) == ""
    assert inside.read_end(folder, file, 10) == b""
    assert list(inside.json_lines(folder, file)) == []
    assert inside.changed_at(folder, file) is inside.size_of(folder, file) is None
    assert inside.problem(folder, file) == "is a link"
    with pytest.raises(OSError, match="is a link"):
        os.close(inside.open_file(folder, file))
    if name == "logs":
        assert inside.names_in(folder, "logs") == []
        with pytest.raises(OSError, match="is a link"):
            list(inside.walk(folder, "logs"))


def test_a_link_in_the_middle_of_a_name_is_called_one(folder: Path) -> None:
    (folder / "logs/inner").symlink_to(folder.parent / "outside")
    assert inside.problem(folder, "logs/inner/top") == "is a link"
    assert inside.problem(folder, "logs/a.out/top") == "Not a directory"


@pytest.mark.parametrize("name", ["../outside/top", "/etc/passwd", "logs/../top", "logs//a.out", "./top", "..", "a\0b"])
def test_a_name_that_leads_out_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(OSError, match="leads out") as error:
        inside.open_file(folder, name)
    assert error.value.errno == errno.EXDEV
    assert inside.read_text(folder, name) == "" and inside.names_in(folder, name) == []


@pytest.mark.parametrize(
    ("make", "words"),
    [(os.mkfifo, "is a pipe"), (os.mkdir, "is a folder")],
    ids=["pipe", "folder"],
)
def test_what_is_no_regular_file_is_not_opened(folder: Path, make: Callable[[Path], None], words: str) -> None:
    make(folder / "other")
    assert inside.problem(folder, "other") == words
    assert inside.read_text(folder, "other") == "" and inside.changed_at(folder, "other") is None


def test_a_file_that_is_too_large_is_named(folder: Path) -> None:
    assert inside.problem(folder, "top", 2) == "is larger than 0 KB"
    assert inside.problem(folder, "top", 3) == ""
    with pytest.raises(OSError, match="larger"):
        inside.read_bytes(folder, "top", 2)


def test_a_hard_link_of_the_same_owner_is_read_and_of_another_is_not(folder: Path) -> None:
    os.link(folder.parent / "outside/top", folder / "linked")
    assert inside.read_text(folder, "linked") == "theirs", "whoever owns both could have copied it"
    if os.geteuid() != 0:
        pytest.skip("group root: gives files to other users")
    os.chown(folder, 23456, 23456)
    assert inside.read_text(folder, "linked") == ""
    assert "another owner" in inside.problem(folder, "linked")
    assert inside.read_text(folder, "top") == "top", "a file with one name may be of anybody"
    os.link(folder.parent / "outside/top", folder / "logs/linked")
    os.chown(folder / "logs", 0, 0)
    assert inside.read_text(folder, "logs/linked") == "", "who owns a folder in it may own neither"


def test_a_walk_ends(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside, "MOST_NAMES", 2)
    with pytest.raises(OverflowError, match="more than 2 files"):
        list(inside.walk(folder))


def test_a_walk_goes_on_beside_what_a_program_removes_meanwhile(folder: Path) -> None:
    for name in ("logs/b.out", "logs/c.out", "model/x", "samples/y"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    found = []
    for name, _ in inside.walk(folder):
        found.append(name)
        if name == "logs/a.out":
            (folder / "logs/b.out").unlink()
            (folder / "model/x").unlink()
            (folder / "model").rmdir()
    assert found == ["top", "logs/a.out", "logs/c.out", "samples/y"]
    with pytest.raises(FileNotFoundError):
        list(inside.walk(folder, "model"))


def test_an_error_names_the_whole_way_to_its_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "logs/deep/deeper").mkdir(parents=True)
    opened = os.open

    def fail(path: str, *words: int, **more: int) -> int:
        if path == "deeper":
            raise OSError(errno.EIO, "Input/output error", path)
        return opened(path, *words, **more)

    monkeypatch.setattr("os.open", fail)
    with pytest.raises(OSError, match="Input/output") as error:
        list(inside.walk(folder))
    assert error.value.filename == "logs/deep/deeper"


def test_descriptors_are_closed(folder: Path) -> None:
    os.mkfifo(folder / "logs/pipe")
    (folder / "logs/link").symlink_to("a.out")
    before = len(os.listdir("/proc/self/fd"))
    for name in ("top", "logs/a.out", "logs/pipe", "logs/link", "missing", "logs/missing", "missing/x", "top/x"):
        inside.read_text(folder, name)
        inside.problem(folder, name)
        inside.size_of(folder, name)
        inside.read_end(folder, name, 1)
    list(inside.walk(folder))
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("name", ["top", "logs/a.out"])
def test_a_link_that_comes_after_the_look_is_not_followed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    look = os.lstat

    def look_and_exchange(path: str, dir_fd: int | None = None) -> os.stat_result:
        about = look(path, dir_fd=dir_fd)
        (folder / name).unlink()
        (folder / name).symlink_to(folder.parent / "outside" / name)
        return about

    monkeypatch.setattr(os, "lstat", look_and_exchange)
    with pytest.raises(OSError, match="symbolic links"):
        os.close(inside.open_file(folder, name))


def test_a_walk_is_in_the_order_of_names_and_counts_to_its_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b/2", "b/1", "a/x", "c"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    (folder / "d").symlink_to("b")
    assert [name for name, _ in inside.walk(folder)] == ["c", "d", "top", "a/x", "b/1", "b/2", "logs/a.out"]
    assert inside.names_in(folder) == sorted(os.listdir(folder))
    monkeypatch.setattr(inside, "MOST_NAMES", len([*folder.rglob("*")]))
    assert len(list(inside.walk(folder))) == 7
    monkeypatch.setattr(inside, "MOST_NAMES", len([*folder.rglob("*")]) - 1)
    with pytest.raises(OverflowError):
        list(inside.walk(folder))


def test_the_end_of_a_file_is_its_last_bytes(folder: Path) -> None:
    assert [inside.read_end(folder, "top", most) for most in (1, 3, 4)] == [b"p", b"top", b"top"]
    assert inside.read_end(folder, "a\0b", 3) == b""


def test_a_file_of_a_crate_is_opened_each_time(folder: Path) -> None:
    file = inside.InsideFile(root=folder, name="logs/a.out")
    for _ in range(2):
        with file.open() as content:
            assert content.read() == b"own"
    assert file.size() == 3
    (folder / "logs/a.out").unlink()
    (folder / "logs/a.out").symlink_to(folder.parent / "outside/top")
    with pytest.raises(OSError, match="is a link"):
        file.open()


def test_a_name_that_no_file_can_have_is_none(folder: Path) -> None:
    assert inside.problem(folder, "a\0b") and inside.size_of(folder, "a\0b") is None
    assert inside.changed_at(folder, "a\0b") is None and list(inside.json_lines(folder, "a\0b")) == []


def test_a_read_that_fails_once_is_repeated_and_a_refusal_is_not(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    tried: list[str] = []
    read = inside.read_bytes

    def fail(root: object, name: str, most: int) -> bytes:
        tried.append(name)
        if codes:
            raise OSError(codes.pop(0), "no")
        return read(folder, name, most)

    monkeypatch.setattr(inside, "read_bytes", fail)
    for failures, text, calls in (
        ([errno.EIO], "top", 2),
        ([errno.EIO, errno.EIO], "", 2),
        ([errno.ESTALE], "top", 2),
        *(([code], "", 1) for code in (errno.ELOOP, errno.EINVAL, errno.EXDEV, errno.EFBIG, errno.EPERM, errno.ENOENT)),
        ([errno.ENOTDIR], "", 1),
    ):
        codes[:], tried[:] = failures, []
        assert (inside.read_text(folder, "top"), len(tried)) == (text, calls), failures


def test_a_file_exchanged_for_a_pipe_after_the_look_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look = os.lstat

    def look_and_exchange(path: str, dir_fd: int | None = None) -> os.stat_result:
        about = look(path, dir_fd=dir_fd)
        (folder / "top").unlink()
        os.mkfifo(folder / "top")
        return about

    monkeypatch.setattr(os, "lstat", look_and_exchange)
    with pytest.raises(OSError, match="is a pipe"):
        os.close(inside.open_file(folder, "top"))
