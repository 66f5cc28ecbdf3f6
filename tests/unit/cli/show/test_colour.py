"""Colours where they are wanted, and signs that an ASCII terminal has."""

from __future__ import annotations

import io

import pytest

from hpclaunch.cli.show import colour

XTERM = {"TERM": "xterm-256color"}


@pytest.mark.parametrize(
    ("terminal", "environment", "expected"),
    [
        (True, XTERM, True),
        (True, {"TERM": "dumb"}, False),
        (True, {}, False),
        (False, XTERM, False),
        (True, {**XTERM, "NO_COLOR": "1"}, False),
        (True, {**XTERM, "NO_COLOR": ""}, True),
        (False, {"FORCE_COLOR": "1"}, True),
        (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb", "FORCE_COLOR": "1"}, True),
    ],
)
def test_who_gets_colours(terminal: bool, environment: dict[str, str], expected: bool) -> None:
    assert colour.is_coloured(terminal, environment) is expected


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"LANG": "C.UTF-8"}, True),
        ({"LANG": "en_US.utf8"}, True),
        ({"LANG": "C.UTF-8", "LC_ALL": "C"}, False),
        ({"LANG": "C.UTF-8", "PYTHONIOENCODING": "ascii"}, False),
        ({}, False),
    ],
)
def test_which_locale_has_unicode(environment: dict[str, str], expected: bool) -> None:
    assert colour.is_unicode(environment) is expected


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def test_an_ascii_terminal_gets_signs_that_look_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    stream = Terminal(io.BytesIO(), encoding="utf-8")
    colour.fit(stream)
    stream.write("1 \u2026 2 \u2013 3 \u00d7 4 \u2588 \u4e2d")
    stream.flush()
    assert stream.buffer.getvalue() == b"1 ... 2 - 3 x 4 # ?"  # type: ignore[attr-defined]


def test_a_pipe_keeps_utf_8_and_one_of_ascii_does_not_fail() -> None:
    utf_8, ascii_only = (io.TextIOWrapper(io.BytesIO(), encoding=name) for name in ("utf-8", "ascii"))
    for stream in (utf_8, ascii_only):
        colour.fit(stream)
        stream.write("\u2026")
        stream.flush()
    assert utf_8.buffer.getvalue() == "\u2026".encode()  # type: ignore[attr-defined]
    assert ascii_only.buffer.getvalue() == b"..."  # type: ignore[attr-defined]


def test_bytes_of_a_path_that_are_not_utf_8_are_shown_and_stop_nothing() -> None:
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict")
    colour.fit(pipe)
    pipe.write("caf\udce9")
    pipe.flush()
    assert pipe.buffer.getvalue() == rb"caf\udce9"  # type: ignore[attr-defined]
