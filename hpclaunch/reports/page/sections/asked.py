"""The sections of what was asked for, who chose it, and the script; it reads nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hpclaunch.core.json_values import pairs
from hpclaunch.core.units import count, format_memory, format_walltime, whole_number
from hpclaunch.reports.page.model import Block, CodeText, Fact, Facts, PageSection, Sentence
from hpclaunch.reports.page.recorded import RecordedRun

_UNITS: Mapping[str, Callable[[int], str]] = {"walltime": format_walltime, "memory": format_memory}
"""The choices that are recorded as numbers of seconds or megabytes."""
_PARAMETER = "parameters."
_LAYOUT = ("nodes", "tasks_per_node", "cpus_per_task", "gpus_per_node")
_MOST = 2**31


def asked_section(recorded: RecordedRun) -> PageSection:
    """Return what was asked for: every choice with its origin, the recipe with its reasons, all parameters."""
    if not recorded.spec:
        missing = Sentence(text="The record of what was asked for (spec.json) is missing or cannot be read.")
        return PageSection(name="asked", title="What was asked, and who chose it", blocks=(missing,))
    choices = _choices(recorded.spec)
    blocks: list[Block] = [Sentence(text=_layout_in_words(recorded.spec))]
    if choices:
        blocks.append(Facts(title="Choices, each with its origin", rows=choices))
    blocks += _recipe(recorded.spec.get("recipe"))
    origins = {fact.name.removeprefix(_PARAMETER): fact.origin for fact in choices if fact.name.startswith(_PARAMETER)}
    origins |= dict.fromkeys(recorded.values, "--sweep")
    if recorded.parameters:
        rows = (
            Fact(name=name, value=text, origin=origins.get(name, "default"))
            for name, text in recorded.parameters.items()
        )
        blocks.append(Facts(title="All parameters of the program", rows=tuple(rows), folded=True))
    blocks.append(Facts(title="Code and machine", rows=_circumstances(recorded)))
    return PageSection(name="asked", title="What was asked, and who chose it", blocks=tuple(blocks))


def script_section(recorded: RecordedRun) -> PageSection:
    """Return the script that was submitted."""
    text = recorded.script
    block: Block = Sentence(text="The script is missing in the run directory.")
    if text:
        lines = count(text.count("\n"), "line")
        block = CodeText(title=f"job.sh, as it was submitted ({lines})", text=text, folded=True)
    return PageSection(name="script", title="The script", blocks=(block,))


def choice_of(spec: Mapping[str, Any], key: str) -> str:
    """Return the recorded value of a choice; empty if there is none."""
    return next(
        (str(one["value"]) for one in _dicts(spec.get("choices")) if one.get("key") == key and "value" in one), ""
    )


def world_size(spec: Mapping[str, Any]) -> int | None:
    """Return the number of all ranks that were asked for; None if the record does not say it."""
    layout = spec.get("layout")
    parts = [layout, *_dicts(layout.get("further"))] if isinstance(layout, dict) else []
    sizes = [(_number_in(part, "nodes"), _number_in(part, "tasks_per_node")) for part in parts]
    known = [nodes * tasks for nodes, tasks in sizes if nodes and tasks]
    return sum(known) if known and len(known) == len(parts) else None


def _layout_in_words(spec: Mapping[str, Any]) -> str:
    layout = spec.get("layout")
    if not isinstance(layout, dict):
        return "The record does not say how many nodes and ranks were asked for."
    nodes, tasks, cpus, gpus = (_number_in(layout, name) for name in _LAYOUT)
    if nodes is None or tasks is None or cpus is None:
        return "The record does not say how many nodes and ranks were asked for."
    parts = [f"{count(nodes, 'node')} with {count(tasks, 'rank')} each", f"{count(cpus, 'CPU')} for each rank"]
    if gpus:
        parts.append(f"{count(gpus, 'GPU')} on each node")
    if layout.get("further"):
        parts.append("and further node types")
    return f"The job {spec.get('name', '')} at {spec.get('site', '')}: {', '.join(parts)}."


def _number_in(layout: Mapping[str, Any], name: str) -> int | None:
    """Return a number of a layout; 0 if there is none, and None for what is no number."""
    value = layout.get(name) or 0
    return value if type(value) is int and 0 <= value < _MOST else None


def _dicts(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _choices(spec: Mapping[str, Any]) -> tuple[Fact, ...]:
    facts = [Fact(name="job", value=str(spec.get("target", "")), origin="typed")]
    for one in _dicts(spec.get("choices")):
        key, value = str(one.get("key", "")), str(one.get("value", ""))
        amount = whole_number(value)
        shown = _UNITS[key](amount) if key in _UNITS and amount is not None else value
        facts.append(Fact(name=key, value=shown, origin=str(one.get("origin", ""))))
    for one in _dicts(spec.get("declined")):
        name = f"not {one.get('key', '')} {one.get('value', '')}"
        facts.append(Fact(name=name, value=str(one.get("reason", "")), origin="limits of the site"))
    return tuple(facts)


def _recipe(recipe: Any) -> list[Block]:
    if not isinstance(recipe, dict):
        return []
    why = recipe.get("why")
    reasons = list(map(str, why)) if isinstance(why, list) else []
    rows = [Fact(name="reason", value=reason) for reason in reasons]
    advised, typed = dict(pairs(recipe.get("advised"))), pairs(recipe.get("typed"))
    rows += [
        Fact(name=f"{name} typed", value=f"{text} (advised: {advised.get(name, 'nothing')})") for name, text in typed
    ]
    return [Facts(title=f"Recipe {recipe.get('name', '')}: why these values", rows=tuple(rows))] if rows else []


def _circumstances(recorded: RecordedRun) -> tuple[Fact, ...]:
    run, environment = recorded.run, recorded.environment
    rows = [
        Fact(name="git commit", value=run.git or "not known", origin="the folder of the code"),
        Fact(name="submitted by", value=f"{run.user or 'unknown'} on {run.host or 'an unknown host'}"),
        Fact(name="submitted at", value=run.created),
        Fact(name="hpclaunch", value=str(recorded.spec.get("version", "not known"))),
    ]
    for name in ("system", "python", "python_version"):
        if environment.get(name):
            rows.append(Fact(name=name.replace("_", " "), value=str(environment[name])))
    if run.nodes:
        rows.append(Fact(name="nodes of the last start", value=run.nodes))
    if run.excluded:
        rows.append(Fact(name="nodes that were avoided", value=f"{run.excluded} ({run.excluded_because})"))
    return tuple(rows)
