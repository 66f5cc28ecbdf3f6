"""Shows one run in full: what was requested, its states and starts, its files; it decides nothing.

The values come from a run directory that may be damaged: whatever has another form than hpclaunch writes is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpclaunch.actions.following.inspect import everything, numbers
from hpclaunch.cli.show.console import fact, show_bytes, write_json
from hpclaunch.core.json_values import pairs
from hpclaunch.core.spec import parameter_word
from hpclaunch.runs import Run, swept
from hpclaunch.runs.recorded_layout import further_layouts

_FACTS = (
    *("run", "run_dir", "name", "site", "state", "job_id", "allocation", "exit_code", "reason", "nodes", "excluded"),
    "git",
)
_LAST_STATES = 12
_MOST_FILES = 20


def show_everything(run: Run, as_json: bool) -> None:
    """Show everything that a run's directory holds."""
    values = everything(run)
    if as_json:
        write_json("run_directory", values)
        return
    for name in _FACTS:
        if values[name]:
            fact(name.replace("_", " "), str(values[name]))
    _show_answer(run)
    _show_request(run, values["spec"])
    for event in values["states"][-_LAST_STATES:]:
        words = [str(event.get(key, "")) for key in ("state", "job_id", "reason")]
        fact(str(event.get("time", "")), " ".join(words).strip())
    for start in values["attempts"]:
        code = "no exit code yet" if start["exit_code"] is None else f"exit code {start['exit_code']}"
        fact(f"start {start['attempt']}", f"{start['started']}, {code}")
        if start["broadcast"]:
            fact("broadcast", start["broadcast"])
    for name in ("logs", "checkpoints", "model"):
        _show_files(name, values[name])
    for name, value in {**swept(run), **numbers(run)}.items():
        fact(name, value)
    fact("size", show_bytes(values["size"]))


def _show_answer(run: Run) -> None:
    """Show what the scheduler held of the job after its submission, and what it printed then."""
    held = ", ".join(f"{name} {value}" for name, value in run.held.items())
    for name, text in (("held", held), ("differs", run.differs), ("printed", run.printed)):
        for line in text.split("\n") if text else ():
            fact(name, line)


def _show_request(run: Run, spec: dict[str, Any]) -> None:
    layout = spec.get("layout", {})
    for one in (layout, *further_layouts(spec)) if isinstance(layout, dict) and layout else ():
        numbers_of = {key: value for key, value in one.items() if value and key != "further"}
        fact("requested", ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in numbers_of.items()))
    fact("command", " ".join(_command(run, spec)))
    parameters = run.parameters()
    if parameters:
        fact("parameters", " ".join(f"{name}={value}" for name, value in parameters.items()))
    _show_recipe(spec.get("recipe"))
    if run.tasks:
        fact("sweep", _sweep(spec))


def _show_recipe(recipe: Any) -> None:
    """Show the name of the recipe with its reasons, and what was typed instead of its values."""
    if not isinstance(recipe, dict):
        return
    why = recipe.get("why")
    reasons = map(str, why) if isinstance(why, list) else ()
    fact("recipe", "; ".join([str(recipe.get("name")), *reasons]))
    typed = pairs(recipe.get("typed"))
    if typed:
        fact("typed instead", " ".join(f"{name}={text}" for name, text in typed))


def _show_files(name: str, paths: Sequence[str]) -> None:
    if paths[_MOST_FILES:]:
        fact(name, f"{len(paths)}, the last of them:")
    for path in paths[-_MOST_FILES:]:
        fact(name.removesuffix("s"), path)


def _command(run: Run, spec: dict[str, Any]) -> list[str]:
    """Return the command of every rank; for a run of an array with its own values in their place."""
    command, sweep = spec.get("command"), spec.get("sweep")
    if not isinstance(command, list):
        return []
    words, own = [str(word) for word in command], [parameter_word(*pair) for pair in swept(run).items()]
    # The values stand between the job's parameters and the arguments that were typed after --.
    position = sweep.get("position") if isinstance(sweep, dict) else None
    place = position if isinstance(position, int) else len(words)
    return [*words[:place], *own, *words[place:]]


def _sweep(spec: dict[str, Any]) -> str:
    """Return how many values of which parameters an array has: ``3 seed x 2 learning_rate``."""
    sweep = spec.get("sweep")
    axes = pairs(sweep.get("axes")) if isinstance(sweep, dict) else []
    return " x ".join(f"{len(values)} {name}" for name, values in axes if isinstance(values, list))
