"""Shows several runs, on a terminal and as ``--json``: lists, comparisons, results, deletions; it decides nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hpclaunch.actions.inspect import final_metrics, numbers
from hpclaunch.actions.states import explanation
from hpclaunch.cli.show.console import live_table, say, show_bytes, table, write, write_json
from hpclaunch.cli.show.submission import jobs_words
from hpclaunch.runs import Run, each, swept

if TYPE_CHECKING:
    from hpclaunch.actions.clean import Deletion

_HEADER = ("run", "job id", "site", "state", "exit", "created (UTC)", "reason")
_STATE = 3


def show_status(found: Sequence[Run], as_json: bool, every: bool = False) -> None:
    """Show one line per run. A job array is one line; with ``every`` or as JSON each of its runs has its own."""
    found = each(found) if every or as_json else found
    if as_json:
        write_json([_run_values(run) for run in found])
        return
    if not found:
        say("there is no run yet; next: hpclaunch submit JOB")
        return
    table(_HEADER, [_row(run) for run in found], state_column=_STATE)


def watch_status(updates: Iterable[Sequence[Run]], as_json: bool, every: bool = False) -> None:
    """Show the lines again each time the scheduler was asked; as JSON write one line for each change."""
    if not as_json:
        lists = (each(found) if every else found for found in updates)
        live_table(_HEADER, ([_row(run) for run in listed] for listed in lists), _STATE)
        return
    shown: list[dict[str, Any]] = []
    for found in updates:
        plain = [_run_values(run) for run in each(found)]
        if plain != shown:
            write(json.dumps(plain) + "\n")
        shown = plain


def _run_values(run: Run) -> dict[str, Any]:
    values = {**run.to_json(), "explanation": explanation(run)}
    if run.index >= 0:
        values |= {"array": str(run.home), "values": swept(run)}
    return values


def _row(run: Run) -> tuple[str, ...]:
    words = explanation(run)
    reason = f"{run.reason}: {words}" if words else run.reason
    return (run.label, jobs_words(run), run.site, run.state, run.exit_code or "-", run.created, reason)


def show_differences(found: Sequence[Run], rows: Sequence[tuple[str, list[str]]], as_json: bool) -> None:
    """Show the differences between runs, one column per run."""
    if as_json:
        named = {name: dict(zip((str(run.path) for run in found), values, strict=True)) for name, values in rows}
        write_json({"runs": [run.to_json() for run in found], "differences": named})
        return
    if not rows:
        say("the runs do not differ: neither in their requests nor in their results")
        return
    table(("what", *(run.label for run in found)), [(name, *values) for name, values in rows])


def show_results(found: Sequence[Run], as_json: bool) -> None:
    """Show the final metrics of runs, one line per run."""
    if as_json:
        write_json([{**_run_values(run), "final": final_metrics(run)} for run in each(found)])
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
        write_json(
            {
                "deleted": [str(deletion.run.path) for deletion in freed],
                "bytes": sum(deletion.size for deletion in freed),
            }
        )
    else:
        say(f"deleted {_directories(len(freed))}, {show_bytes(sum(deletion.size for deletion in freed))} freed")


def _directories(number: int) -> str:
    return "1 run directory" if number == 1 else f"{number} run directories"
