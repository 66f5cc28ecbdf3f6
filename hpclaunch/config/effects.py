"""Finds chosen settings that have no effect beside the others, as the ranks would refuse them; it reads no file."""

from collections.abc import Mapping, Sequence

from hpclaunch.config.parameters import Parameter, Value, spell
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
        if effect is None or effect.needs not in parameters:
            continue
        acting = [value for value in values if value != effect.off]
        beside = chosen.get(effect.needs) or (parameters[effect.needs].default,)
        without = [value for value in beside if value not in effect.values]
        if acting and without:
            what = f"{name}={spell(acting[0])} has no effect with {effect.needs}={spell(without[0])}"
            allowed = "" if effect.instead else f"{effect.needs}: {', '.join(map(spell, effect.values))}"
            other = effect.instead or f"{effect.needs} to one of these"
            step = f"set {other}, or leave {name} out"
            faults.append((name, Fault(what=what, allowed=allowed, next=step)))
    return faults
