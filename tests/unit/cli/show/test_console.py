"""Logs on a terminal: what could control it is shown; elsewhere every byte stays."""

from __future__ import annotations

import inspect
import io
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hpclaunch.cli.show import console
from hpclaunch.core.errors import Fault, HpclaunchError
from tests.unit.cli.show.terminals import on_a_terminal

LOG = b"\x1b[2J\x1b]0;title\x07 50%\r100%\x08 \xc2\x9bA \xe2\x80\xaetxt \xc3\xa9\n"


@pytest.mark.parametrize(("name", "show"), [("stdout", console.write_log), ("stderr", console.say_log)])
def test_a_terminal_never_obeys_a_log(
    monkeypatch: pytest.MonkeyPatch, name: str, show: Callable[[bytes], None]
) -> None:
    shown = on_a_terminal(monkeypatch, lambda: show(LOG), names=[name])
    assert b"\x1b" not in shown and b"\x07" not in shown and b"\xc2\x9b" not in shown
    assert b"\\x1b[2J\\x1b]0;title\\x07 50%\r100%\x08 \\xc2\\x9bA \\xe2\\x80\\xaetxt \xc3\xa9" in shown


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        (b"\x1b[1;31mred\x1b[0m\n", b"\x1b[1;31mred\x1b[0m\n"),
        (b"\x1b[38;5;8mgrey", b"\x1b[38;5;8mgrey\x1b[0m"),  # and nothing after it is grey
        (b"\x1b[32m\x1b[2J\x1b[m", b"\x1b[32m\\x1b[2J\x1b[m\x1b[0m"),
        (b"\x1b]52;c;cm0=\x07", b"\\x1b]52;c;cm0=\\x07"),  # the clipboard
        (b"\x1b[3", b"\\x1b[3"),
        (b"\x1b[?25l\x1b[>4;1m\x1b[6n", b"\\x1b[?25l\\x1b[>4;1m\\x1b[6n"),
        ("\u200fa\u061cb".encode(), b"\\xe2\\x80\\x8fa\\xd8\\x9cb"),
    ],
)
def test_a_terminal_with_colours_gets_those_of_a_log_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, log: bytes, shown: bytes
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert on_a_terminal(monkeypatch, lambda: console.write_log(log), TERM="xterm") == shown
    assert on_a_terminal(monkeypatch, lambda: console.say_log(log), TERM="xterm") == shown


def test_without_colours_a_terminal_gets_no_escape_of_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = on_a_terminal(monkeypatch, lambda: console.write_log(b"\x1b[31mred\n"), TERM="xterm", NO_COLOR="1")
    assert shown == b"\\x1b[31mred\n"


HOSTILE = "\x1b]0;t\x07\x1b[2J\x9b31m\x08\r\x7f\u202e\u200b\u2028\ufeff\udcff$(x)"
FAULT = Fault(what=HOSTILE, where=f"a\nerror: {HOSTILE}", allowed=f"b\nerror: {HOSTILE}", next=HOSTILE)
SINKS: dict[str, Callable[[], object]] = {
    "say": lambda: console.say(HOSTILE),
    "tell": lambda: console.tell(HOSTILE),
    "warn": lambda: console.warn(HOSTILE),
    "say_error": lambda: console.say_error(HOSTILE),
    "show_error": lambda: console.show_error(HpclaunchError(FAULT), as_json=False),
    "write": lambda: console.write(HOSTILE),
    "write_log": lambda: console.write_log(b"\x1b]0;t\x07\xc2\x9b31m"),
    "say_log": lambda: console.say_log(b"\x1b]0;t\x07\xc2\x9b31m"),
    "write_json": lambda: console.write_json("run", {"name": HOSTILE}),
    "write_prose": lambda: console.write_prose([HOSTILE]),
    "write_cells": lambda: console.write_cells([[HOSTILE]]),
    "write_markdown": lambda: console.write_markdown(HOSTILE),
    "table": lambda: console.table(["run"], [[HOSTILE]], state_column=0),
    "fact": lambda: console.fact(HOSTILE, HOSTILE),
    "live_lines": lambda: console.live_lines([lambda width: [[(HOSTILE, "")]]]),
    "show_lines": lambda: console.show_lines(lambda width: [[(HOSTILE, "bad")]]),
}
"""Every function of the module that writes, with a text that another wrote."""
NO_SINKS = {"show_plan", "show_bytes", "confirmed", "add_codes", "style_of", "escape_controls"}
"""``show_plan`` calls show_lines and ``confirmed`` calls say; the others return a text."""


def test_every_sink_is_known() -> None:
    functions = {name for name, value in vars(console).items() if inspect.isfunction(value) and name[0] != "_"}
    assert {name for name in functions if vars(console)[name].__module__ == console.__name__} == NO_SINKS | set(SINKS)


@pytest.mark.parametrize("coloured", [True, False])
@pytest.mark.parametrize("sink", SINKS)
def test_no_text_of_another_controls_a_terminal(monkeypatch: pytest.MonkeyPatch, sink: str, coloured: bool) -> None:
    colours = {} if coloured else {"NO_COLOR": "1"}
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = on_a_terminal(monkeypatch, SINKS[sink], TERM="xterm-256color", **colours).decode()
    own = re.sub(r"\x1b\[[0-9;]*m", "", shown) if coloured else shown
    if sink == "live_lines":  # rich hides the cursor while it draws
        own = re.sub(r"\x1b\[(\?25[hl]|[0-9]*[AK])|\r", "", shown)
        own = re.sub(r"\x1b\[[0-9;]*m", "", own)
    assert all(sign.isprintable() or sign == "\n" for sign in own), ascii(own)
    assert own.count("\nerror: ") == 0 and own.startswith("error: ") == (sink in ("say_error", "show_error"))


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
