"""Shows several runs, on a terminal and as ``--json``: lists, comparisons, results, deletions; it decides nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from hpclaunch.actions.following.progress import ProgressOfRuns
from hpclaunch.actions.following.states import explanation
from hpclaunch.cli.show import streams
from hpclaunch.cli.show.console import (
    Lines,
    live_lines,
    say,
    show_bytes,
    show_lines,
    table,
    write_cells,
    write_json,
)
from hpclaunch.cli.show.run_columns import COLUMNS, EVERY_DEFAULT, ListedRun, fitted
from hpclaunch.core.records import record
from hpclaunch.core.slow_files import answers
from hpclaunch.runs import Run, each, swept

if TYPE_CHECKING:
    from hpclaunch.actions.following.clean import Deletion

_PIPED_WATCH = tuple(name for name in EVERY_DEFAULT if name not in ("elapsed", "left"))
"""The columns of ``status --watch`` in a pipe: a run has a new line when something happens, not at every look."""
_WIDEST = 1000


@record
class ListForm:
    """How a list is shown: its columns by ``names`` (none: the usual ones), and always with ``tabs``, as in a pipe."""

    names: Sequence[str] = ()
    tabs: bool = False


_USUAL = ListForm()


def show_status(
    found: Sequence[Run],
    as_json: bool,
    every: bool = False,
    form: ListForm = _USUAL,
    progress: ProgressOfRuns | None = None,
) -> None:
    """Show one line per run. A job array is one line; with ``every`` or as JSON each of its runs has its own.

    ``progress``: how far the runs are, if some are known without looking; that has no curve of losses.
    """
    if progress is None or "curve" in form.names:
        progress = ProgressOfRuns()
    listed = _list_runs(each(found) if every or as_json else found, progress)
    if as_json:
        write_json("runs", _listed_values(listed))
    elif not listed:
        say("there is no run yet; next: hpclaunch submit JOB")
    elif form.tabs or not streams.is_terminal():
        chosen = [COLUMNS[name] for name in form.names or EVERY_DEFAULT]
        write_cells([[column.title for column in chosen], *([column.text(one) for column in chosen] for one in listed)])
    else:
        show_lines(lambda width: _lines(listed, form.names, width), widest=_WIDEST)


def watch_status(updates: Iterable[Sequence[Run]], as_json: bool, every: bool = False, form: ListForm = _USUAL) -> None:
    """Show the lines again each time the scheduler was asked; as JSON write one line for each change.

    With tabs, and in a pipe, only the lines that are new are written.
    """
    progress = ProgressOfRuns()
    if as_json:
        _write_changes(updates, progress)
        return
    lists = (_list_runs(each(found) if every else found, progress) for found in updates)
    if streams.is_terminal() and not form.tabs:
        live_lines(partial(_lines, listed, form.names) for listed in lists)
        return
    chosen = [COLUMNS[name] for name in form.names or _PIPED_WATCH]
    write_cells([[column.title for column in chosen]])
    shown: Sequence[Sequence[str]] = ()
    for listed in lists:
        rows = [[column.text(one) for column in chosen] for one in listed]
        write_cells(row for row in rows if row not in shown)
        shown = rows


def _write_changes(updates: Iterable[Sequence[Run]], progress: ProgressOfRuns) -> None:
    """Write the JSON of all runs on one line whenever a state or an epoch is another one; times alone are no change."""
    shown: list[tuple[dict[str, Any], int | None]] = []
    for found in updates:
        listed = _list_runs(each(found), progress)
        now = [(_run_values(one.run), one.progress.epoch) for one in listed]
        if now != shown:
            write_json("runs", _listed_values(listed), on_one_line=True)
        shown = now


def _list_runs(found: Sequence[Run], progress: ProgressOfRuns) -> list[ListedRun]:
    now = time.time()
    return answers(lambda run: ListedRun(run=run, progress=progress.of(run, now)), found)


def _lines(listed: Sequence[ListedRun], names: Sequence[str], width: int) -> Lines:
    table = fitted(listed, names or EVERY_DEFAULT, width, fixed=bool(names))
    return [*table.lines, *([(note, "source")] for note in table.notes)]


def _listed_values(listed: Sequence[ListedRun]) -> dict[str, Any]:
    return {"runs": [{**_run_values(one.run), **one.progress.to_json()} for one in listed]}


def _run_values(run: Run) -> dict[str, Any]:
    values = {**run.to_json(), "explanation": explanation(run)}
    if run.index >= 0:
        values |= {"array": str(run.home), "values": swept(run)}
    return values


def show_differences(found: Sequence[Run], rows: Sequence[tuple[str, list[str]]], as_json: bool) -> None:
    """Show the differences between runs, one column per run."""
    if as_json:
        named = {name: dict(zip((str(run.path) for run in found), values, strict=True)) for name, values in rows}
        write_json("differences", {"runs": [run.to_json() for run in found], "differences": named})
        return
    if not rows:
        say("the runs do not differ: neither in their requests nor in their results")
        return
    table(("what", *(run.label for run in found)), [(name, *values) for name, values in rows])


def show_results(found: Sequence[Run], as_json: bool) -> None:
    """Show the final metrics of runs, one line per run."""
    from hpclaunch.actions.following.inspect import final_metrics, numbers  # with what hides secrets: no list needs it

    if as_json:
        write_json("results", {"runs": [{**_run_values(run), "final": final_metrics(run)} for run in each(found)]})
        return
    found = each(found)
    results = [{**swept(run), **numbers(run)} for run in found]
    names = list(dict.fromkeys(name for result in results for name in result))
    if not any(map(final_metrics, found)):
        say('none of these runs wrote a result: a line {"event": "end", ...} in its metrics.jsonl')
    rows = []
    for run, result in zip(found, results, strict=True):
        rows.append((run.label, run.state, *(result.get(name, "-") for name in names)))
    table(("run", "state", *names), rows, state_column=1)


def show_deletions(deletions: Sequence[Deletion], kept: Sequence[Run], as_json: bool) -> None:
    """Show the directories to delete, and the runs that are old enough but are kept, with their states."""
    for run in kept:
        part = f", part of the job array {run.home.name}" if run.index >= 0 else ""
        say(f"  kept: {run.path} ({run.state}{part})")
    if as_json:
        return
    if not deletions:
        say("there is nothing to delete")
        return
    table(
        ("run directory", "state", "size"),
        [(str(deletion.run.path), deletion.run.state, show_bytes(deletion.size)) for deletion in deletions],
    )
    say(f"{_directories(len(deletions))}, {show_bytes(sum(deletion.size for deletion in deletions))}")


def show_deleted(deletions: Sequence[Deletion], deleted: Sequence[Run], as_json: bool) -> None:
    """Show the deleted directories."""
    paths = {run.path for run in deleted}
    freed = [deletion for deletion in deletions if deletion.run.path in paths]
    if as_json:
        names, size = [str(deletion.run.path) for deletion in freed], sum(deletion.size for deletion in freed)
        write_json("deletions", {"deleted": names, "bytes": size})
    else:
        say(f"deleted {_directories(len(freed))}, {show_bytes(sum(deletion.size for deletion in freed))} freed")


def _directories(number: int) -> str:
    return "1 run directory" if number == 1 else f"{number} run directories"
