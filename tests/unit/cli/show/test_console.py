"""Logs on a terminal: what could control it is shown; elsewhere every byte stays."""

from __future__ import annotations

import io
import os
import pty
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hpclaunch.cli.show import console
from hpclaunch.core.errors import Fault, HpclaunchError

LOG = b"\x1b[2J\x1b]0;title\x07 50%\r100%\x08 \xc2\x9bA \xe2\x80\xaetxt \xc3\xa9\n"


@pytest.mark.parametrize(("name", "show"), [("stdout", console.write_log), ("stderr", console.say_log)])
def test_a_terminal_never_obeys_a_log(
    monkeypatch: pytest.MonkeyPatch, name: str, show: Callable[[bytes], None]
) -> None:
    screen, inner = pty.openpty()
    with monkeypatch.context() as patch, os.fdopen(inner, "w", encoding="utf-8") as terminal:
        patch.setattr(sys, name, terminal)
        show(LOG)
        shown = os.read(screen, 1000)
    os.close(screen)
    assert b"\x1b" not in shown and b"\x07" not in shown and b"\xc2\x9b" not in shown
    assert b"\\x1b[2J\\x1b]0;title\\x07 50%\r100%\x08 \\xc2\\x9bA \\xe2\\x80\\xaetxt \xc3\xa9" in shown


def test_in_a_file_a_log_is_byte_for_byte(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        console.write_log(LOG)
    assert (tmp_path / "log").read_bytes() == LOG


def test_an_error_is_cut_and_of_very_many_only_some_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stderr", text)
    console.show_error(HpclaunchError([Fault(what="x" * 10**6)] * 1000), as_json=False)
    shown = text.buffer.getvalue()  # type: ignore[attr-defined]
    assert len(shown) < 500_000 and shown.endswith(b"error: and 900 more\n")
