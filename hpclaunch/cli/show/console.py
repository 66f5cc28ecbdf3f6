"""Shows plans, scripts, runs and errors: data on stdout, messages on stderr; it decides nothing."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hpclaunch.cli.show import streams
from hpclaunch.core.errors import Fault, HpclaunchError, NotRecorded, shorten
from hpclaunch.core.spec import Cost, JobSpec, RunRecipe, Sweep, digits_of
from hpclaunch.core.units import count, format_memory, format_walltime

if TYPE_CHECKING:
    from rich.table import Table

    from hpclaunch.planner.values import Forecast
    from hpclaunch.runs import Run

_SUBMISSION_CHOICES = (
    *("node type", "nodes", "tasks per node", "launcher", "strategy"),
    *("account", "partition", "qos", "walltime", "memory", "data", "python"),
)
"""The choices that a submission shows; the spec has all."""
_UNITS_OF_CHOICES = {"walltime": format_walltime, "memory": format_memory}
"""How to show the choices that are numbers of seconds or megabytes."""
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
    streams.tell(_message(text))


def _message(text: str) -> bytes:
    return f"{_escape_controls(text)}\n".encode("utf-8", errors="backslashreplace")


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


def show_choices(spec: JobSpec, site_origin: str, notices: Iterable[str]) -> None:
    """Show every choice with its origin, then the warnings."""
    layout = spec.layout
    nodes, tasks, ranks = (
        count(layout.nodes, "node"),
        count(layout.tasks_per_node, "task"),
        count(layout.world_size, "rank"),
    )
    say(f"{spec.name}: {nodes} x {tasks} = {ranks}")
    if spec.sweep:
        _show_array(spec.sweep)
    rows = [("site", spec.site, site_origin)]
    rows += [(choice.key, choice.value, choice.origin) for choice in spec.choices if choice.key in _SUBMISSION_CHOICES]
    for key, value, origin in rows:
        text = _UNITS_OF_CHOICES[key](int(value)) if key in _UNITS_OF_CHOICES else value
        say(f"  {key:<15} {text:<24} ({origin})")
    if spec.cost:
        say(f"  {'cost, at most':<15} {show_amount(spec.cost.amount)} {_unit_of(spec.cost)} ({spec.cost.note})")
    _show_declined(spec)
    for notice in (*spec.unverified, *notices):
        warn(notice)


def _show_array(sweep: Sweep) -> None:
    axes = " x ".join(f"{len(values)} {name}" for name, values in sweep.axes)
    limit = f"at most {sweep.at_once} at a time" if sweep.at_once else "no limit at a time"
    say(f"  {'job array':<15} {count(sweep.count, 'run'):<24} ({axes}; {limit})")


def show_advice(advice: str) -> None:
    """Show why the planner chose the node count, if it did."""
    if advice:
        say(f"  planner: {advice}")


def show_recipe(recipe: RunRecipe | None) -> None:
    """Show in a few lines what the recipe of a run sets, and why."""
    if recipe is None or not recipe.why:
        return
    say(f"  {f'recipe {recipe.name}':<15} {recipe.why[0]}")
    for line in recipe.why[1:]:
        say(f"  {'':<15} {line}")


def show_plan(forecast: Forecast, explain: bool) -> None:
    """Write the plan: its five lines, its table, and with ``explain`` the reasoning."""
    from hpclaunch.planner.words import text_of

    write("".join(_escape_controls(line) + "\n" for line in text_of(forecast, explain)))


def _show_declined(spec: JobSpec) -> None:
    """Show why other partitions and QOS were not chosen; those for other node types share a line."""
    for_other_nodes = [other for other in spec.declined if other.for_other_nodes]
    for other in spec.declined:
        if not other.for_other_nodes:
            say(f"  not {other.key} {other.value}: {other.reason}")
    if for_other_nodes:
        say(f"  not for {spec.node_type} nodes: {', '.join(other.value for other in for_other_nodes)}")


def _unit_of(cost: Cost) -> str:
    return cost.unit if cost.amount == 1 else f"{cost.unit}s"


def show_amount(amount: float) -> str:
    """Return a number with four digits, or without a fraction from 1,000 on."""
    return f"{amount:.4g}" if amount < 1000 else f"{amount:,.0f}"


def show_estimate(spec: JobSpec, words: str, as_json: bool) -> None:
    """Show the scheduler's estimate of a script's start."""
    if as_json:
        write_json({"spec": spec.to_json(), "scheduler": words})
    else:
        write(f"{words}\n")


def warn_missing(faults: Iterable[Fault]) -> None:
    """Show what a submission would be refused for, as warnings."""
    for fault in faults:
        warn(str(fault))


def show_run(run: Run, as_json: bool, recipe: RunRecipe | None = None) -> None:
    """Show a run's job ID and its directory; as JSON its record, with the ``recipe`` of a new run.

    The job ID is shown on the other stream if one of them fails. Raises OSError if stdout does.
    """
    if as_json:
        try:
            write_json({**run.to_json(), **({"recipe": asdict(recipe)} if recipe else {})})
        except OSError:
            say(_submission_message(run))
            raise
        return
    if run.job_id:
        show_submitted(run)
    write(f"{run.path}\n")


def show_submitted(run: Run, more: str = "") -> None:
    """Show a run's job ID on stderr, or on stdout if stderr fails."""
    if not streams.tell(_message(_submission_message(run) + more)):
        write(f"{_submission_message(run)}\n")


def _submission_message(run: Run) -> str:
    return f"submitted {run.label} as job {run.job_id} at {run.site}" if run.job_id else str(run.path)


def show_next(run: Run) -> None:
    """Show the next commands for a run."""
    name, all_flag, first_run = run.label, "", ""
    if run.tasks:  # an array, of which each run has a log of its own
        all_flag, first_run = " --all", f"/{0:0{digits_of(run.tasks)}d}"
    say(f"  hpclaunch status {name}{all_flag}\n  hpclaunch logs -f {name}{first_run}\n  hpclaunch cancel {name}")


def show_end(run: Run, as_json: bool) -> None:
    """Show how a run ended, its final metrics, and its directory."""
    final: dict[str, Any] = {}
    for event in run.metrics():
        if event.get("event") == "end":
            final = event
    if as_json:
        write_json({**run.to_json(), "final": final})
        return
    code = f" (exit code {run.exit_code})" if run.exit_code and run.state != "COMPLETED" else ""
    say(f"{run.label}: {run.state}{code}")
    for key, value in final.items():
        if isinstance(value, int | float | str) and key not in ("event", "time"):
            shown = f"{value:.4g}" if isinstance(value, float) else value
            say(f"  {key:<18} {shown}")
    if run.state != "COMPLETED" and run.logs():
        say(f"  its log: hpclaunch logs {run.label}")
    write(f"{run.path}\n")


def table(header: Sequence[str], rows: Sequence[Sequence[str]], state_column: int | None = None) -> None:
    """Draw a table on a terminal; elsewhere write tab-separated lines, the first with the column names."""
    if not streams.is_terminal():
        lines = [header, *rows] if any(header) else rows  # live_table names the columns only once
        write("".join("\t".join(_cell(cell) for cell in row) + "\n" for row in lines))
        return
    from rich.console import Console

    Console(no_color=bool(os.environ.get("NO_COLOR"))).print(_grid(header, rows, state_column))


def fact(name: str, value: str) -> None:
    """Write one line with a name and its value; on a terminal the values are aligned."""
    between = " " * max(2, _FACT_WIDTH - len(name)) if streams.is_terminal() else "\t"
    write(f"{_cell(name)}{between}{_cell(value)}\n")


def live_table(header: Sequence[str], tables: Iterable[Sequence[Sequence[str]]], state_column: int) -> None:
    """On a terminal draw each table in the place of the one before; elsewhere write only the new lines."""
    if not streams.is_terminal():
        shown: Sequence[Sequence[str]] = ()
        for rows in tables:
            # The column names once, then every new line.
            table(("",) if shown else header, [row for row in rows if row not in shown], state_column)
            shown = rows
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(no_color=bool(os.environ.get("NO_COLOR"))), auto_refresh=False) as live:
        for rows in tables:
            live.update(_grid(header, rows, state_column), refresh=True)


def _grid(header: Sequence[str], rows: Sequence[Sequence[str]], state_column: int | None) -> Table:
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold")
    for title in header:
        grid.add_column(title, overflow="fold")
    for row in rows:
        cells = [Text(_escape_controls(cell)) for cell in row]
        if state_column is not None:
            state = row[state_column]
            # A state without a style is a failure.
            cells[state_column] = Text(_escape_controls(state), style=_STATE_STYLES.get(state, "red"))
        grid.add_row(*cells)
    return grid


def _cell(text: str) -> str:
    """Return text for one cell of tab-separated lines."""
    return " ".join(_escape_controls(text).split("\n")).replace("\t", " ")


def confirmed(question: str) -> bool:
    """Ask a question on the terminal; without a terminal the answer is no."""
    if not streams.has_keyboard():
        return False
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


def show_lines(lines: Callable[[int], Sequence[Sequence[tuple[str, str]]]]) -> None:
    """Write lines of (text, style) pieces for a width in columns: coloured on a terminal, else plain text."""
    terminal = streams.is_terminal()
    width = min(_WIDEST, shutil.get_terminal_size().columns) if terminal else _WIDEST
    made = [[(_escape_controls(text), style) for text, style in line] for line in lines(width)]
    if not terminal or os.environ.get("NO_COLOR"):
        plain = ["".join(text for text, _ in line).rstrip() for line in made]
        write("".join(f"{line}\n" for line in plain))
        return
    from rich.console import Console
    from rich.text import Text

    terminal_console = Console()
    for line in made:
        shown = Text()
        for text, style in line:
            shown.append(text, style=_CARD_STYLES[style])
        terminal_console.print(shown, soft_wrap=True)


def _escape_controls(text: str) -> str:
    """Replace control characters, so that no text can control the terminal; newlines and tabs stay."""
    if text.isprintable():
        return text
    shown = "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)
    return shown.encode("utf-8", errors="backslashreplace").decode("utf-8")
