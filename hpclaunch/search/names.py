"""Compares the dimensions of a search with the parameters of a job: names, types, bounds and choices; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hpclaunch.config.effects import conflicting_settings, idle_settings
from hpclaunch.config.parameters import Parameter, Value, listed, spell
from hpclaunch.core.errors import Fault, did_you_mean, nearest
from hpclaunch.search.space import Dimension, SearchSpace

FREE_NAME = re.compile("[A-Za-z][A-Za-z0-9_.-]{0,63}")
"""What can be an option of any program, and a name in braces."""


def renamed(space: SearchSpace, names: Mapping[str, str], faults: list[Fault]) -> SearchSpace:
    """Return the space with other names of its parameters (``--map OLD=NEW``); a name that it lacks is a fault."""
    for name in names:
        if name not in space.names:
            what = f"the space has no parameter {name!r}{did_you_mean(name, space.names)}"
            faults.append(Fault(what=what, where="--map", allowed=", ".join(space.names)))
    dimensions = tuple(replace(one, name=names.get(one.name, one.name)) for one in space.dimensions)
    new = [one.name for one in dimensions]
    for name in dict.fromkeys(name for name in new if new.count(name) > 1):
        faults.append(Fault(what=f"the parameter {name!r} would be searched twice", where="--map"))
    return SearchSpace(dimensions=dimensions)


def unfit(space: SearchSpace, parameters: Mapping[str, Parameter], job: str, typed: Sequence[str]) -> list[Fault]:
    """Return why the job cannot be searched over this space; ``typed``: the parameters that --set gives a value.

    A job that declares no parameters takes any name that can be an option.
    """
    faults = []
    for one in space.dimensions:
        if one.name in typed:
            what = f"the parameter {one.name!r} is searched and set as well"
            faults.append(Fault(what=what, where="--set", next="leave one of them out"))
        if not parameters:
            if not FREE_NAME.fullmatch(one.name):
                what = f"{one.name!r} cannot be the name of an option"
                allowed = "a letter, then letters, digits, '_', '.' and '-'; at most 64 characters"
                faults.append(Fault(what=what, allowed=allowed))
        elif one.name not in parameters:
            faults.append(_unknown(one.name, parameters, job))
        else:
            faults += _faults_of_values(one, parameters[one.name])
    return faults


def _unknown(name: str, parameters: Mapping[str, Parameter], job: str) -> Fault:
    near = next((one for one in parameters if one.startswith(f"{name}_")), "") or nearest(name, parameters)
    what = f"{job} has no parameter {name!r}" + (f"; did you mean {near!r}?" if near else "")
    return Fault(what=what, allowed=listed(parameters, job), next=f"--map {name}={near or 'PARAMETER'}")


def _faults_of_values(one: Dimension, parameter: Parameter) -> list[Fault]:
    """Return why the parameter cannot have these values: each listed value, or the ends of the range."""
    ends = [end for end in (one.low, one.high) if end is not None]
    values = one.values or tuple(round(end) if one.whole else end for end in ends)
    found = []
    if not one.values and parameter.value_type not in ("int", "float"):
        what = f"it has a range of numbers, but its values are of the type {parameter.value_type}"
        return [Fault(what=what, where=one.name, next="list its values")]
    if not one.values and parameter.value_type == "int" and not one.whole:
        what = "the range has numbers with a fraction, but the parameter is a whole number"
        return [Fault(what=what, where=one.name, next="int: true, or list its values")]
    if not one.values and parameter.choices:
        return [
            Fault(what="it has choices, and no range", where=one.name, allowed=", ".join(map(spell, parameter.choices)))
        ]
    for value in values:
        try:
            parameter.parse(spell(value))
        except ValueError as error:
            found.append(Fault(what=str(error), where=one.name))
    return found


def idle(space: SearchSpace, parameters: Mapping[str, Parameter], typed: Mapping[str, str]) -> list[Fault]:
    """Return which searched parameters, or typed ones (``--set``), have no effect or exclude others in some trial."""
    chosen: dict[str, Sequence[Value]] = {name: _values_of(parameters, name, text) for name, text in typed.items()}
    for one in space.dimensions:
        chosen[one.name] = one.values or tuple(one.draw(place) for place in (0.25, 0.75))
    known = {name: values for name, values in chosen.items() if name in parameters and values}
    searched = set(space.names)
    found = [
        replace(fault, where=name if name in searched else f"--set {name}")
        for name, fault in idle_settings(parameters, known)
    ]
    for name, other, fault in conflicting_settings(parameters, known):
        several = [one for one in (name, other) if one in searched]
        if several:  # those of settings alone are refused elsewhere
            found.append(replace(fault, where=", ".join(several)))
    return found


def _values_of(parameters: Mapping[str, Parameter], name: str, text: str) -> tuple[Value, ...]:
    try:
        return (parameters[name].parse(text),)
    except (KeyError, ValueError):  # refused elsewhere
        return ()


def texts_of(values: Mapping[str, object]) -> dict[str, str]:
    """Return the values of a trial as its program gets them: ``true`` and ``false`` for booleans."""
    return {name: spell(value) if isinstance(value, bool) else str(value) for name, value in values.items()}
