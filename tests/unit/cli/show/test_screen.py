"""What terminals send for keys, and when a terminal can show a screen."""

from __future__ import annotations

import os
import pty
import termios

import pytest

from hpclaunch.cli.show.screen import decode_keys, is_usable


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        ("q", ["q"]),
        ("jk/é", ["j", "k", "/", "é"]),
        ("\x1b[A\x1bOB\x1b[5~\x1b[6~", ["up", "down", "pageup", "pagedown"]),
        ("\x1b[H\x1b[F\x1bOH\x1b[1~\x1b[4~", ["home", "end", "home", "home", "end"]),
        ("\r\n\x7f\x08", ["enter", "enter", "backspace", "backspace"]),
        ("\x1bq", ["escape", "q"]),
        ("\x1b\x1b[A", ["escape", "up"]),
        ("\x1b[1;5A\x1b[200~x\x1b[?1;2c\x00\x02", ["x"]),
    ],
)
def test_keys_are_read(sent: str, keys: list[str]) -> None:
    assert decode_keys(sent) == (keys, "")


@pytest.mark.parametrize("rest", ["\x1b", "\x1b[", "\x1bO", "\x1b[5"])
def test_the_beginning_of_a_key_waits_for_its_end(rest: str) -> None:
    assert decode_keys(f"j{rest}") == (["j"], rest)


def test_a_screen_needs_a_terminal_that_is_not_dumb(monkeypatch: pytest.MonkeyPatch) -> None:
    outer, inner = pty.openpty()
    kept = [os.dup(0), os.dup(1)]
    try:
        os.dup2(inner, 0)
        os.dup2(inner, 1)
        found = [is_usable({"TERM": term}) for term in ("xterm-256color", "tmux", "linux", "dumb", "unknown", "")]
        found += [is_usable({}), *(is_usable({"TERM": "xterm", "NO_COLOR": wish}) for wish in ("1", ""))]
    finally:
        for number, saved in enumerate(kept):
            os.dup2(saved, number)
            os.close(saved)
        termios.tcflush(outer, termios.TCIOFLUSH)
        os.close(outer)
        os.close(inner)
    assert found == [True, True, True, False, False, False, False, False, True]
