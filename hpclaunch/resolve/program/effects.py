"""Refuses chosen settings that have no effect beside the others, those of a sweep and of a recipe included."""

from __future__ import annotations

from dataclasses import replace

from hpclaunch.config.effects import idle_settings
from hpclaunch.config.parameters import Value
from hpclaunch.core.spec import Sweep
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.program.recipes import free_settings, recipe_name_of


def check_effects(case: Case, decisions: Decisions, sweep: Sweep | None = None) -> None:
    """Note a fault for each setting without effect in some run. The space of a search: ``search.names.idle``."""
    rows, request = case.job.parameters, case.request
    typed, named = dict(request.settings), dict(free_settings(case))
    axes = dict(sweep.axes) if sweep and not request.search else {}
    texts = {
        **{name: (text,) for name, text in {**named, **typed}.items()},
        **axes,
    }
    chosen: dict[str, list[Value]] = {}
    for name, several in texts.items():
        if name in rows:
            chosen[name] = _values_of(case, name, several)
    searched = set(request.search)
    for idle, fault in idle_settings(rows, {name: values for name, values in chosen.items() if values}):
        effect = rows[idle].effect
        if effect is None or not searched.isdisjoint(effect.needs):
            continue
        flag = "--sweep" if idle in axes else "--set" if idle in typed else ""
        where = f"{flag} {idle}" if flag else f"--recipe {recipe_name_of(case)}"
        decisions.faults.append(replace(fault, where=where))


def _values_of(case: Case, name: str, texts: tuple[str, ...]) -> list[Value]:
    """Return the values that can be read; ``resolve.program.command`` refuses the others."""
    found = []
    for text in texts:
        try:
            found.append(case.job.parameters[name].parse(text))
        except ValueError:
            continue
    return found
