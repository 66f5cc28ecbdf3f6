"""Finds settings that have no effect beside others or exclude them, as the ranks would refuse them; reads no file."""

from collections.abc import Mapping, Sequence

from hpclaunch.config.parameters import Conflict, Effect, Parameter, Value, spell
from hpclaunch.core.errors import Fault


def idle_settings(
    parameters: Mapping[str, Parameter], chosen: Mapping[str, Sequence[Value]]
) -> list[tuple[str, Fault]]:
    """Return each chosen parameter that in some run has no effect, and a fault that says so.

    ``chosen``: every value that a parameter has in the runs, each of which has some combination of them. A parameter
    that is not chosen has its default; a default without effect is no fault, because the program overrides it.
    """
    faults = []
    for name, values in chosen.items():
        effect = parameters[name].effect
        needs = [need for need in effect.needs if need in parameters] if effect else []
        if effect is None or not needs:
            continue
        acting = [value for value in values if value != effect.off]
        without = [_values_without(effect, chosen.get(need) or (parameters[need].default,)) for need in needs]
        if acting and all(without):
            faults.append((name, _fault(f"{name}={spell(acting[0])}", name, effect, needs, without[0][0])))
    return faults


def _values_without(effect: Effect, values: Sequence[Value]) -> list[Value]:
    """Return those of what an effect needs with which there is none."""
    return [value for value in values if (value not in effect.values if effect.values else not value)]


def _fault(setting: str, name: str, effect: Effect, needs: Sequence[str], without: Value) -> Fault:
    if not effect.values:
        several = " or ".join(filter(None, (", ".join(needs[:-1]), needs[-1])))
        return Fault(what=f"{setting} has no effect without {several}", next=f"set {several}, or leave {name} out")
    (need,) = needs
    return Fault(
        what=f"{setting} has no effect with {need}={spell(without)}",
        allowed="" if effect.instead else f"{need}: {', '.join(map(spell, effect.values))}",
        next=f"set {effect.instead or f'{need} to one of these'}, or leave {name} out",
    )


def conflicting_settings(
    parameters: Mapping[str, Parameter], chosen: Mapping[str, Sequence[Value]]
) -> list[tuple[str, str, Fault]]:
    """Return each two parameters that exclude each other in some run, and a fault that says so.

    ``chosen``: as `idle_settings` has it.
    """
    found = []
    for name, row in parameters.items():
        this = [value for value in chosen.get(name) or (row.default,) if not _is_off(value)]
        for conflict in row.conflicts if this else ():
            other = conflict.other
            if other not in parameters or (conflict.gives_way and other not in chosen):
                continue
            values = chosen.get(other) or (parameters[other].default,)
            excluded = [value for value in values if _is_excluded(value, conflict)]
            if not excluded:
                continue
            settings = f"{name}={spell(this[0])} cannot be combined with {other}={spell(excluded[0])}"
            step = f"set {conflict.instead}=true in place of {name}" if conflict.instead else "leave one of them out"
            found.append((name, other, Fault(what=f"{settings}, {conflict.why}", next=step)))
    return found


def _is_excluded(value: Value, conflict: Conflict) -> bool:
    return value in conflict.values if conflict.values else not _is_off(value)


def _is_off(value: Value) -> bool:
    """Whether it is false, 0, an empty text, or 1 of something that is divided or grouped if there are more."""
    return not value or (value == 1 and value is not True)
