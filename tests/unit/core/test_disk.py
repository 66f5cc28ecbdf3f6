"""What a file needs to be safe on disk, by the calls that wait for it."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.core import files


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls that wait for the disk, as they are made: fsync with what it is called for, and sending."""
    made: list[str] = []
    fsync = os.fsync

    def note_fsync(descriptor: int) -> None:
        made.append(f"fsync {Path(os.readlink(f'/proc/self/fd/{descriptor}')).name[:11]}")
        fsync(descriptor)

    send = files.send_to_disk

    def note_sending(descriptor: int) -> None:
        made.append("send")
        send(descriptor)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(files, "send_to_disk", note_sending)
    return made


def test_how_long_each_writer_waits(tmp_path: Path, calls: list[str]) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    path = folder / "run.json"
    waits = {
        lambda: files.write_text(path, "one"): ["fsync .hpclaunch-", "fsync run"],
        lambda: files.write_text(path, "two", durable=False): [],
        lambda: files.replace_text(path, "three"): ["fsync .hpclaunch-"],
        lambda: files.send_text(path, "four"): ["send"],
        lambda: files.write_new(folder / "new", "five"): ["send"],
        lambda: files.write_new(folder / "newer", "six", send=False): [],
        lambda: files.append_line(folder / "lines", "seven", durable=True): ["fsync lines"],
        lambda: files.append_line(folder / "lines", "eight"): [],
    }
    for write, wanted in waits.items():
        calls.clear()
        write()
        assert calls == wanted
    assert (path.read_text(), (folder / "new").read_text(), (folder / "newer").read_text()) == ("four", "five", "six")
    assert sorted(os.listdir(folder)) == ["lines", "new", "newer", "run.json"]
    with pytest.raises(FileExistsError):
        files.write_new(path, "nine")


class Kernel:
    """Stands in for the C library: its sync_file_range fails with an error, or is not there."""

    def __init__(self, error: int | None) -> None:
        if error is not None:
            self.sync_file_range = self._fail
        self._error = error

    def _fail(self, *_: Any) -> int:
        import ctypes

        ctypes.set_errno(self._error or 0)
        return -1


@pytest.mark.parametrize("error", [None, errno.ENOSYS, errno.EINVAL, errno.ESPIPE])
def test_where_a_file_cannot_be_sent_it_is_waited_for(
    tmp_path: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch, error: int | None
) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: Kernel(error))
    files.write_new(tmp_path / "file", "text")
    assert calls == ["send", "fsync file"]


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_disk_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: Kernel(error))
    with pytest.raises(OSError, match=os.strerror(error)) as raised:
        files.send_text(tmp_path / "file", "text")
    assert raised.value.errno == error and os.listdir(tmp_path) == []
