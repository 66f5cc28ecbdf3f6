"""Reading files of any size and kind: only what is needed, and never what could wait or grow without an end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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
