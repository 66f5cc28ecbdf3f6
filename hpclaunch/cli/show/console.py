"""Writes plans, tables, errors and messages: data on stdout, messages on stderr; it decides nothing."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hpclaunch.cli.show import streams
from hpclaunch.core.errors import HpclaunchError, NotRecorded, shorten

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from hpclaunch.planner.values import Forecast

Lines = Sequence[Sequence[tuple[str, str]]]
"""Lines of pieces: a text, and the name of its style."""

_STATE_STYLES = {"COMPLETED": "green", "RUNNING": "cyan", "PENDING": "yellow", "RENDERED": "dim", "UNKNOWN": "dim"}
_STATE_STYLES |= {"SUBMITTING": "yellow", "COMPLETING": "cyan", "CONFIGURING": "cyan", "INCOMPLETE": "dim"}
_STATE_STYLES |= {"production": "", "test": "dim", "retired": "dim", "unverified": "yellow", "faulty": "red"}
_CARD_STYLES = {
    "": "",
    "heading": "bold",
    "label": "cyan",
    "source": "dim",
    "third-party": "yellow",
    "derived": "green",
    "bad": "bold red",
    "selected": "reverse",
}
_WIDEST = 100
_MOST_FAULTS = 100
_LONGEST_FAULT = 4000
"""Characters. A fault quotes what was typed or written, which may be long."""
_TERMINAL_CONTROLS = re.compile(
    rb"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]|\xe2\x81[\xa6-\xa9]"
)
"""ASCII's controls, those of Latin-1 in UTF-8, and the characters that change the direction of the text."""
_FACT_WIDTH = 23
"""The width of a time and two blanks."""


def say(text: str) -> None:
    """Write a message for the user to stderr."""
    tell(text)


def tell(text: str) -> bool:
    """Write a message for the user to stderr; False if that failed."""
    return streams.tell(_message(text))


def _message(text: str) -> bytes:
    return f"{escape_controls(text)}\n".encode("utf-8", errors="backslashreplace")


def warn(text: str) -> None:
    """Write a warning to stderr."""
    say(f"warning: {text}")


def write(text: str) -> None:
    """Write data to stdout, byte for byte."""
    streams.write(text.encode("utf-8", errors="surrogateescape"))


def write_bytes(content: bytes) -> None:
    """Write a log's bytes to stdout."""
    streams.write(content)


def write_log(content: bytes) -> None:
    """Write a part of a log to stdout: byte for byte, but on a terminal its escapes are shown, never obeyed."""
    streams.write(_escape_terminal_controls(content) if streams.is_terminal() else content)


def say_log(content: bytes) -> None:
    """Write a part of a log to stderr, as ``write_log`` does to stdout."""
    streams.tell(_escape_terminal_controls(content) if streams.tells_a_terminal() else content)


def _escape_terminal_controls(content: bytes) -> bytes:
    """Return a part of a log with the bytes shown that could control a terminal.

    Progress bars need the carriage return and the backspace, which stay on their line. Other bytes stay as they are:
    a part may begin within a character.
    """
    return _TERMINAL_CONTROLS.sub(lambda found: b"".join(b"\\x%02x" % byte for byte in found[0]), content)


def write_json(value: Any) -> None:
    """Write one JSON document to stdout."""
    write(json.dumps(value, indent=2) + "\n")


def show_error(error: HpclaunchError, as_json: bool) -> None:
    """Show every fault of an expected failure, and the job that was queued all the same."""
    job = {"job_id": error.job_id, "run_dir": error.run_dir} if isinstance(error, NotRecorded) else {}
    with contextlib.suppress(OSError):  # without stdout, stderr says it
        if as_json:
            names = ("what", "where", "allowed", "next")
            faults = [{name: getattr(fault, name) for name in names} for fault in error.faults]
            write_json({"error": type(error).__name__, "faults": faults, **job})
        elif job:
            write(f"submitted as job {job['job_id']}\n{job['run_dir']}\n")
    for fault in error.faults[:_MOST_FAULTS]:
        say(f"error: {shorten(str(fault), _LONGEST_FAULT)}")
    if len(error.faults) > _MOST_FAULTS:
        say(f"error: and {len(error.faults) - _MOST_FAULTS} more")


def show_plan(forecast: Forecast, explain: bool) -> None:
    """Write the plan: its five lines, its table, and with ``explain`` the reasoning."""
    from hpclaunch.planner.words import text_of

    write("".join(escape_controls(line) + "\n" for line in text_of(forecast, explain)))


def table(header: Sequence[str], rows: Sequence[Sequence[str]], state_column: int | None = None) -> None:
    """Draw a table on a terminal; elsewhere write tab-separated lines, the first with the column names."""
    if not streams.is_terminal():
        write_cells([header, *rows])
        return
    from rich.console import Console

    Console(no_color=bool(os.environ.get("NO_COLOR"))).print(_grid(header, rows, state_column))


def write_cells(rows: Iterable[Sequence[str]]) -> None:
    """Write lines of tab-separated values."""
    write("".join("\t".join(_cell(cell) for cell in row) + "\n" for row in rows))


def fact(name: str, value: str) -> None:
    """Write one line with a name and its value; on a terminal the values are aligned."""
    between = " " * max(2, _FACT_WIDTH - len(name)) if streams.is_terminal() else "\t"
    write(f"{_cell(name)}{between}{_cell(value)}\n")


def live_lines(pictures: Iterable[Callable[[int], Lines]]) -> None:
    """On a terminal draw lines of (text, style) pieces, each picture in the place of the one before, for its width."""
    from rich.console import Console, Group
    from rich.live import Live

    console = Console(no_color=bool(os.environ.get("NO_COLOR")))
    with Live(console=console, auto_refresh=False) as live:
        for picture in pictures:
            live.update(Group(*map(_style_line, picture(console.width))), refresh=True)


def _grid(header: Sequence[str], rows: Sequence[Sequence[str]], state_column: int | None) -> Table:
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold")
    for title in header:
        grid.add_column(title, overflow="fold")
    for row in rows:
        cells = [Text(escape_controls(cell)) for cell in row]
        if state_column is not None:
            state = row[state_column]
            # A state without a style is a failure.
            cells[state_column] = Text(escape_controls(state), style=_STATE_STYLES.get(state, "red"))
        grid.add_row(*cells)
    return grid


def _cell(text: str) -> str:
    """Return text for one cell of tab-separated lines."""
    return " ".join(escape_controls(text).split("\n")).replace("\t", " ")


def confirmed(question: str) -> bool | None:
    """Ask a question on the terminal, and return whether the answer was yes; without a terminal return None."""
    if not streams.has_keyboard():
        return None
    say(question)
    try:
        return input().strip().lower() in ("y", "yes")
    except EOFError:
        return False


def show_bytes(size: float) -> str:
    """Return a size (bytes) with its unit, such as 1.5 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def show_lines(lines: Callable[[int], Lines], widest: int = _WIDEST) -> None:
    """Write lines of (text, style) pieces for a width in columns: coloured on a terminal, else plain text."""
    terminal = streams.is_terminal()
    made = lines(min(widest, shutil.get_terminal_size().columns) if terminal else widest)
    if not terminal or os.environ.get("NO_COLOR"):
        plain = ["".join(escape_controls(text) for text, _ in line).rstrip() for line in made]
        write("".join(f"{line}\n" for line in plain))
        return
    from rich.console import Console

    terminal_console = Console()
    for line in made:
        terminal_console.print(_style_line(line), soft_wrap=True)


def write_markdown(text: str) -> None:
    """Write Markdown: drawn on a terminal, in the pager if it is long; elsewhere as it is."""
    if not streams.is_terminal():
        write(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    from hpclaunch.cli.show.pager import show_long

    size = shutil.get_terminal_size()
    drawing = Console(no_color=bool(os.environ.get("NO_COLOR")), width=min(size.columns, _WIDEST))
    with drawing.capture() as drawn:
        drawing.print(Markdown(text))
    show_long(drawn.get(), size.lines)


def _style_line(line: Sequence[tuple[str, str]]) -> Text:
    from rich.text import Text

    shown = Text(no_wrap=True)
    for text, name in line:
        shown.append(escape_controls(text), style=style_of(name))
    return shown


def style_of(name: str) -> str:
    """Return the style of a piece, in rich's words. A state without a style of its own is a failure."""
    return _CARD_STYLES[name] if name in _CARD_STYLES else _STATE_STYLES.get(name, "red")


def escape_controls(text: str) -> str:
    """Replace control characters, so that no text can control the terminal; newlines and tabs stay."""
    if text.isprintable():
        return text
    shown = "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)
    return shown.encode("utf-8", errors="backslashreplace").decode("utf-8")
