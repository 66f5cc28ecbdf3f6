"""Reading files of any size and kind: only what is needed, and never what could wait or grow without an end."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import pytest

from hpclaunch.core import files
from hpclaunch.core.files import json_lines, read_bytes, read_end, read_text


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 1000)
    assert read_bytes(file, 1000) == b"x" * 1000
    with pytest.raises(OSError, match="is larger than"):
        read_bytes(file, 999)
    assert read_text(file, 999) == ""


def test_files_without_a_size_are_read() -> None:
    assert b"Name:" in read_bytes("/proc/self/status", 2**16)
    with pytest.raises(OSError, match="is larger than"):
        read_bytes("/proc/self/status", 10)


def test_a_fifo_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="is not a regular file"):
        read_bytes(tmp_path / "fifo", 100)
    assert read_text(tmp_path / "fifo") == "" and read_end(tmp_path / "fifo", 10) == b""
    assert list(json_lines(tmp_path / "fifo")) == []


def test_of_a_very_large_file_of_events_only_the_end_counts(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    with file.open("wb") as made:
        made.write(b'{"event": "start"}\n')
        made.truncate(6 * 2**30)
        made.seek(0, os.SEEK_END)
        made.write(b'\n{"event": "end"}\n{"cut')
    assert list(json_lines(file)) == [{"event": "end"}]
    assert read_end(file, 5) == b'{"cut'


def test_a_line_that_is_too_long_is_no_event(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"a": "' + "x" * 2**20 + '"}\n{"b": 1}\n')
    assert list(json_lines(file)) == [{"b": 1}]


def test_what_has_a_name_is_there_also_if_it_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nothing")
    for name in ("file", "link", "."):
        assert files.is_there(tmp_path / name)
    for name in ("nothing", "file/below", "x" * 300, "a\0b"):
        assert not files.is_there(tmp_path / name)

    def fail(path: Path) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("os.lstat", fail)
    assert files.is_there(tmp_path / "nothing"), "nobody knows"


def test_a_line_after_one_that_was_cut_short_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    for line in ("one", "two", "caf\udce9"):
        assert files.append_line(file, line).st_size == file.stat().st_size
    assert file.read_bytes() == b"one\ntwo\ncaf\xe9\n"
    with file.open("ab") as half:
        half.write(b"ha")
    files.append_line(file, "three")
    assert file.read_bytes() == b"one\ntwo\ncaf\xe9\nha\nthree\n"


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EIO, errno.ENOSPC])
def test_a_folder_that_has_no_fsync_is_no_error_and_a_disk_that_fails_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("os.fsync", fail)
    if code in (errno.EIO, errno.ENOSPC):
        with pytest.raises(OSError, match=os.strerror(code)):
            files.sync_folder(tmp_path)
    else:
        files.sync_folder(tmp_path)
    with pytest.raises(FileNotFoundError):
        files.sync_folder(tmp_path / "nothing")


def test_a_folder_that_may_be_written_but_not_read_need_not_be_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("os.open", deny)
    files.sync_folder(tmp_path)


def test_what_is_no_file_that_can_be_read_is_empty(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    for name in ("nothing", "file/below", "a\0b", "."):
        assert files.read_text(tmp_path / name) == "" and files.read_end(tmp_path / name, 9) == b""
        assert list(files.json_lines(tmp_path / name)) == []
    assert [files.read_end(tmp_path / "file", most) for most in (2, 4, 9)] == [b"xt", b"text", b"text"]


class Failing(io.BytesIO):
    """A file whose file system fails after its second line."""

    def fileno(self) -> int:
        return self.descriptor

    def readline(self, size: int | None = -1) -> bytes:
        self.lines -= 1
        if self.lines < 0:
            raise OSError(errno.EIO, "Input/output error")
        return super().readline(size)

    descriptor, lines = 0, 2


def test_the_events_before_a_failure_of_the_file_system_count(tmp_path: Path) -> None:
    (tmp_path / "events").write_text(text := '{"a": 1}\n{"b": 2}\n{"c": 3}\n')
    with Failing(text.encode()) as file, (tmp_path / "events").open("rb") as real:
        file.descriptor = real.fileno()
        assert list(files.json_lines_of(file)) == [{"a": 1}, {"b": 2}]
