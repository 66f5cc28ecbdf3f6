"""How runs look, on a terminal and as ``--json``: lists, one in full, comparisons, results; it decides nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hpclaunch.actions.inspect import everything, final_metrics, numbers
from hpclaunch.actions.states import explanation
from hpclaunch.cli.show.console import fact, live_table, say, show_bytes, table, write, write_json
from hpclaunch.runs import Run, each, swept

if TYPE_CHECKING:
    from hpclaunch.actions.clean import Doomed

_HEADER = ("run", "job id", "site", "state", "exit", "created (UTC)", "reason")
_STATE = 3
_LAST_STATES = 12
_MOST_FILES = 20


def show_status(found: Sequence[Run], as_json: bool, every: bool = False) -> None:
    """Show one line per run; of a job array one line, but as JSON or where ``every`` run is asked for."""
    found = each(found) if every or as_json else found
    if as_json:
        write_json([_run_values(run) for run in found])
        return
    if not found:
        say("there is no run yet; next: hpclaunch submit JOB")
        return
    table(_HEADER, [_row(run) for run in found], state_column=_STATE)


def watch_status(asked: Iterable[Sequence[Run]], as_json: bool, every: bool = False) -> None:
    """Show the lines anew whenever the scheduler was asked; as JSON, one line for each change."""
    if not as_json:
        live_table(_HEADER, ([_row(run) for run in (each(found) if every else found)] for found in asked), _STATE)
        return
    shown: list[dict[str, Any]] = []
    for found in asked:
        plain = [_run_values(run) for run in each(found)]
        if plain != shown:
            write(json.dumps(plain) + "\n")
        shown = plain


def _run_values(run: Run) -> dict[str, Any]:
    told = {**run.to_json(), "explanation": explanation(run)}
    return {**told, "array": str(run.home), "values": swept(run)} if run.index >= 0 else told


def _row(run: Run) -> tuple[str, ...]:
    words = explanation(run)
    reason = f"{run.reason}: {words}" if words else run.reason
    return (run.label, run.job_id or "-", run.site, run.state, run.exit_code or "-", run.created, reason)


def show_everything(run: Run, as_json: bool) -> None:
    """Show all that a run's directory tells."""
    told = everything(run)
    if as_json:
        write_json(told)
        return
    for name in (
        "run",
        "run_dir",
        "name",
        "site",
        "state",
        "job_id",
        "exit_code",
        "reason",
        "nodes",
        "excluded",
        "git",
    ):
        if told[name]:
            _line(name.replace("_", " "), str(told[name]))
    _show_request(run, told["spec"])
    for event in told["states"][-_LAST_STATES:]:
        _line(
            str(event.get("time", "")),
            " ".join(str(event.get(key, "")) for key in ("state", "job_id", "reason")).strip(),
        )
    for start in told["attempts"]:
        code = "no exit code yet" if start["exit_code"] is None else f"exit code {start['exit_code']}"
        _line(f"start {start['attempt']}", f"{start['started']}, {code}")
    for name in ("logs", "checkpoints"):
        _show_files(name, told[name])
    for name, value in {**swept(run), **numbers(run)}.items():
        _line(name, value)
    _line("size", show_bytes(told["size"]))


def _show_request(run: Run, spec: dict[str, Any]) -> None:
    layout = spec.get("layout", {})
    if isinstance(layout, dict) and layout:
        _line("asked for", ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in layout.items() if value))
    _line("command", " ".join(_command(run, spec)))
    parameters = run.parameters()
    if parameters:
        _line("parameters", " ".join(f"{name}={value}" for name, value in parameters.items()))
    if run.tasks:
        _line("sweep", _sweep(spec))


def _show_files(name: str, paths: Sequence[str]) -> None:
    if paths[_MOST_FILES:]:
        _line(name, f"{len(paths)}, the last of them:")
    for path in paths[-_MOST_FILES:]:
        _line(name.removesuffix("s"), path)


def _command(run: Run, spec: dict[str, Any]) -> list[str]:
    """Return what every rank runs; of a run of an array with its own words in their place."""
    command, sweep = spec.get("command"), spec.get("sweep")
    if not isinstance(command, list):
        return []
    position = sweep.get("position") if isinstance(sweep, dict) else None
    own = [f"--{name.replace('_', '-')}={value}" for name, value in swept(run).items()]
    place = position if isinstance(position, int) else len(command)
    return [*map(str, command[:place]), *own, *map(str, command[place:])]


def _sweep(spec: dict[str, Any]) -> str:
    """Return how many values of which parameters an array has: ``3 seed x 2 learning_rate``."""
    sweep = spec.get("sweep")
    axes = sweep.get("axes") if isinstance(sweep, dict) else None
    pairs = [axis for axis in axes if isinstance(axis, list) and len(axis) == 2] if isinstance(axes, list) else []
    return " x ".join(f"{len(values)} {name}" for name, values in pairs if isinstance(values, list))


def _line(name: str, value: str) -> None:
    fact(name, value)


def show_differences(found: Sequence[Run], rows: Sequence[tuple[str, list[str]]], as_json: bool) -> None:
    """Show what is not the same in all runs, one column a run."""
    if as_json:
        named = {name: dict(zip((str(run.path) for run in found), values, strict=True)) for name, values in rows}
        write_json({"runs": [run.to_json() for run in found], "differences": named})
        return
    if not rows:
        say("they were asked for in the same way, and tell the same")
        return
    table(("what", *(run.label for run in found)), [(name, *values) for name, values in rows])


def show_results(found: Sequence[Run], as_json: bool) -> None:
    """Show the runs' final metrics, one line a run."""
    if as_json:
        write_json([{**_run_values(run), "final": final_metrics(run)} for run in each(found)])
        return
    found = each(found)
    results = [{**swept(run), **numbers(run)} for run in found]
    names = list(dict.fromkeys(name for result in results for name in result))
    if not any(map(final_metrics, found)):
        say('none of these runs wrote a result: a line {"event": "end", ...} in its metrics.jsonl')
    rows = [
        (run.label, run.state, *(result.get(n, "-") for n in names)) for run, result in zip(found, results, strict=True)
    ]
    table(("run", "state", *names), rows, state_column=1)


def show_doomed(doomed: Sequence[Doomed], staying: Sequence[Run], as_json: bool) -> None:
    """Show what cleaning would delete, and what stays although it is old enough, with its state."""
    for run in staying:
        part = f", part of {run.home.name}, which goes as a whole" if run.index >= 0 else ""
        say(f"  stays: {run.path} ({run.state}{part})")
    if as_json:
        return
    if not doomed:
        say("there is nothing to delete")
        return
    table(
        ("run directory", "state", "size"), [(str(one.run.path), one.run.state, show_bytes(one.size)) for one in doomed]
    )
    say(f"{_directories(len(doomed))}, {show_bytes(sum(one.size for one in doomed))}")


def show_cleaned(doomed: Sequence[Doomed], gone: Sequence[Run], as_json: bool) -> None:
    """Show what was deleted."""
    paths = {run.path for run in gone}
    freed = [one for one in doomed if one.run.path in paths]
    if as_json:
        write_json({"deleted": [str(one.run.path) for one in freed], "bytes": sum(one.size for one in freed)})
    else:
        say(f"deleted {_directories(len(freed))}, {show_bytes(sum(one.size for one in freed))} freed")


def _directories(number: int) -> str:
    return "1 run directory" if number == 1 else f"{number} run directories"
