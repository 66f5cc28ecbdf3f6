"""Writes plans, tables, errors and messages: data on stdout, messages on stderr; it decides nothing."""

from __future__ import annotations

import contextlib
import re
import shutil
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hpclaunch.cli.show import colour, streams
from hpclaunch.core.errors import HpclaunchError, NotRecorded, shorten

if TYPE_CHECKING:
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
_WIDEST, _WIDEST_TABLE = 100, 1000
_MOST_FAULTS = 100
_LONGEST_FAULT = 4000
"""Characters. A fault quotes what was typed or written, which may be long."""
_TERMINAL_CONTROLS = re.compile(
    rb"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]"
)
"""ASCII's controls, those of Latin-1 in UTF-8, and the characters that change the direction of the text."""
_COLOURS = re.compile(rb"(\x1b\[[0-9;:]*m)")
"""Select Graphic Rendition of ECMA-48: colours and weights, which change nothing but the text that follows."""
_RESET = b"\x1b[0m"
_COMMAND = re.compile(r" *(next: )?hpclaunch [a-z-]+( |$)")
"""A line that is a command: it stays in one piece, so that it can be copied."""
_FIRST_COLUMN = re.compile(r" *\S(?:\S| (?! ))* {2,}(?=\S)")
_FACT_WIDTH = 23
"""The width of a time and two blanks."""


def say(text: str, is_asked: bool = False) -> None:
    """Write a message for the user to stderr; with ``is_asked`` a question follows, so ``--quiet`` shows it, too."""
    if is_asked or not streams.is_quiet():
        streams.tell(_message(text))


def tell(text: str) -> bool:
    """Write a message for the user to stderr; False if that failed."""
    return streams.is_quiet() or streams.tell(_message(text))


def _message(text: str, label: str = "", style: str = "") -> bytes:
    """Return a message as bytes; on a terminal with whole words at the ends of its lines, but commands as they are."""
    shown = f"{label} {escape_controls(text)}" if label else escape_controls(text)
    if streams.tells_a_terminal():
        width = streams.columns()
        shown = "\n".join(part for line in shown.split("\n") for part in _fold_message(line, width))
    if label and streams.tells_in_colour():
        shown = colour.paint(label, style) + shown.removeprefix(label)
    return f"{shown}\n".encode("utf-8", errors="backslashreplace")


def _fold_message(line: str, width: int) -> list[str]:
    return [line] if _COMMAND.match(line) else _fold(line, width)


def warn(text: str) -> None:
    """Write a warning to stderr, its first word yellow on a terminal."""
    streams.tell(_message(text, "warning:", "yellow"))


def say_error(text: str) -> None:
    """Write an error to stderr, its first word red on a terminal."""
    streams.tell(_message(text, "error:", "bold red"))


def write(text: str) -> None:
    """Write data to stdout: byte for byte, but on a terminal control characters are shown."""
    _write_as_is(escape_controls(text) if streams.is_terminal() else text)


def _write_as_is(text: str) -> None:
    streams.write(text.encode("utf-8", errors="surrogateescape"))


def write_log(content: bytes) -> None:
    """Write a part of a log to stdout: byte for byte, but a terminal gets its colours only; other escapes are shown."""
    streams.write(_log_for_terminal(content, streams.is_coloured()) if streams.is_terminal() else content)


def say_log(content: bytes) -> None:
    """Write a part of a log to stderr, as ``write_log`` does to stdout."""
    if not streams.is_quiet():
        shown = streams.tells_a_terminal()
        streams.tell(_log_for_terminal(content, streams.tells_in_colour()) if shown else content)


def _log_for_terminal(content: bytes, coloured: bool) -> bytes:
    """Return a part of a log for a terminal, with its colours if wanted; the part leaves no colour behind."""
    if not coloured:
        return _escape_terminal_controls(content)
    parts = _COLOURS.split(content)
    parts[::2] = map(_escape_terminal_controls, parts[::2])
    end = _RESET if len(parts) > 1 and parts[-2] != _RESET else b""
    return b"".join(parts) + end


def _escape_terminal_controls(content: bytes) -> bytes:
    """Return a part of a log with the bytes shown that could control a terminal.

    Progress bars need the carriage return and the backspace, which stay on their line. Other bytes stay as they are:
    a part may begin within a character.
    """
    return _TERMINAL_CONTROLS.sub(lambda found: b"".join(b"\\x%02x" % byte for byte in found[0]), content)


def write_json(document: str, values: Mapping[str, Any], on_one_line: bool = False) -> None:
    """Write one JSON document to stdout; ``document`` is its name in the schema (docs/json.md)."""
    from hpclaunch.cli.show import documents

    write(documents.text_of(document, values, on_one_line))


def show_error(error: HpclaunchError, as_json: bool) -> None:
    """Show every fault of an expected failure, and the job that was queued all the same."""
    job = {"job_id": error.job_id, "run_dir": error.run_dir} if isinstance(error, NotRecorded) else {}
    with contextlib.suppress(OSError):  # without stdout, stderr says it
        if as_json:
            names = ("what", "where", "allowed", "next")
            faults = [{name: getattr(fault, name) for name in names} for fault in error.faults]
            values = {"error": type(error).__name__, "exit_code": error.exit_code, "faults": faults}
            write_json("error", {**values, **job})
        elif job:
            write(f"submitted as job {job['job_id']}\n{job['run_dir']}\n")
    for fault in error.faults[:_MOST_FAULTS]:
        say_error(shorten(str(fault), _LONGEST_FAULT))
    if len(error.faults) > _MOST_FAULTS:
        say_error(f"and {len(error.faults) - _MOST_FAULTS} more")


def show_plan(forecast: Forecast, explain: bool) -> None:
    """Write the plan: its five lines, its table, and with ``explain`` the reasoning."""
    from hpclaunch.cli.show.plan_lines import styled
    from hpclaunch.planner.explaining.words import text_of

    lines = [part for text in text_of(forecast, explain) for part in text.split("\n")]
    show_lines(lambda _: styled(lines))


def table(header: Sequence[str], rows: Sequence[Sequence[str]], state_column: int | None = None) -> None:
    """Draw a table on a terminal; elsewhere write tab-separated lines, the first with the column names."""
    if not streams.is_terminal():
        write_cells([header, *rows])
        return
    from hpclaunch.cli.show.tables import table_lines

    show_lines(lambda width: table_lines(header, rows, width, state_column), widest=_WIDEST_TABLE)


def write_prose(lines: Iterable[str]) -> None:
    """Write lines to stdout; on a terminal a longer one goes on below, indented, with whole words."""
    if streams.is_terminal():
        width = shutil.get_terminal_size().columns
        lines = [part for line in lines for part in _fold(line, width)]
    write("".join(f"{line}\n" for line in lines))


def _fold(line: str, width: int) -> list[str]:
    """Return the lines of a longer one: below its second column if it has one, else indented."""
    found = _FIRST_COLUMN.match(line)
    indent = " " * (found.end() if found and found.end() <= width // 2 else len(line) - len(line.lstrip()) + 2)
    folded = textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return folded or [""]


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

    console = Console(no_color=not streams.is_coloured())
    with Live(console=console, auto_refresh=False) as live:
        for picture in pictures:
            live.update(Group(*map(_style_line, picture(console.width))), refresh=True)


def _cell(text: str) -> str:
    """Return text for one cell of tab-separated lines."""
    return " ".join(escape_controls(text).split("\n")).replace("\t", " ")


def confirmed(question: str) -> bool | None:
    """Ask a question on the terminal, and return whether the answer was yes; without a terminal return None."""
    if not streams.has_keyboard():
        return None
    streams.tell(_message(question))
    try:
        with streams.without_line():
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
    if not streams.is_coloured():
        plain = ["".join(escape_controls(text) for text, _ in line).rstrip() for line in made]
        write("".join(f"{line}\n" for line in plain))
        return
    _write_as_is("".join("".join(add_codes(text, style) for text, style in line) + "\n" for line in made))


def add_codes(text: str, style: str) -> str:
    """Return a text with the codes of its style."""
    return colour.paint(escape_controls(text).replace("\n", " ").replace("\t", " "), style_of(style))


def write_markdown(text: str) -> None:
    """Write Markdown: drawn on a terminal, in the pager if it is long; elsewhere as it is."""
    if not streams.is_terminal():
        write(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    from hpclaunch.cli.show.pager import show_long

    size = shutil.get_terminal_size()
    drawing = Console(no_color=not streams.is_coloured(), width=min(size.columns, _WIDEST))
    with drawing.capture() as drawn:
        drawing.print(Markdown(escape_controls(text)))
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
