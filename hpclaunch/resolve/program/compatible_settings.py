"""Refuses settings without effect beside others, that exclude each other, or that a TensorFlow strategy does not have.

The training program refuses the last, too, on its ranks (``training.rank.strategies.faults``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from hpclaunch.config.effects import conflicting_settings, idle_settings
from hpclaunch.config.parameters import Value, spell
from hpclaunch.core.spec import CENTRAL_STORAGE, HOROVOD, Sweep
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.program.recipes import free_settings, recipe_name_of


def _is_above_one(value: object) -> bool:
    return isinstance(value, int) and value > 1


def _is_switched_on(value: object) -> bool:
    return value is True


ONLY_HOROVOD: Mapping[str, Callable[[object], bool]] = {
    "accumulation": _is_above_one,
    "update_groups": _is_above_one,
    "xla": _is_switched_on,
    "adasum": _is_switched_on,
    "shard_optimizer": _is_switched_on,
    "gradient_lag": _is_switched_on,
    "compression": lambda value: value != "none",
    "scale_learning_rate": lambda value: value == "adascale",
    "batch_norm": lambda value: value in ("ghost", "synchronized"),
}
"""Which values of a parameter of ``hpclaunch.training`` need Horovod; model parallelism: ``division``."""


def check_options(case: Case, strategy: str, decisions: Decisions, sweep: Sweep | None = None) -> None:
    """Note a fault for each setting that does not work with the strategy, a swept one included.

    Only programs of ``hpclaunch.training`` are checked.
    """
    if strategy in ("", HOROVOD) or not case.job.uses_library:
        return
    swept = dict(sweep.axes) if sweep else {}
    for name, text in _texts_of_run(case, swept):
        try:
            value = case.job.parameters[name].parse(text)
        except ValueError:
            continue  # resolve.program.command refuses it
        if name in ONLY_HOROVOD and ONLY_HOROVOD[name](value):
            what = f"{name}={text} works with Horovod only, not with {strategy}"
            hint = f"leave --strategy out, or set another value: --set {name}=VALUE"
            decisions.fault(what, where=_place_of(case, name, swept), next=hint)
        elif name == "precision" and strategy == CENTRAL_STORAGE and value != "float32":
            what = f"Keras has no mixed precision for {strategy}"
            where = _place_of(case, name, swept)
            decisions.fault(what, where=where, allowed="float32", next="choose --strategy mirrored")


def _texts_of_run(case: Case, swept: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Yield the name of each parameter, and a text that it has in a run."""
    typed, named = dict(case.request.settings), dict(free_settings(case))
    for name, row in case.job.parameters.items():
        texts = swept.get(name) or (typed.get(name, named.get(name, spell(row.default))),)
        yield from ((name, text) for text in texts)


def _place_of(case: Case, name: str, swept: Collection[str]) -> str:
    """Return where the value of a parameter is from."""
    if name in swept:
        return f"--sweep {name}"
    if name in dict(case.request.settings):
        return f"--set {name}"
    if name in dict(free_settings(case)):
        return f"--recipe {recipe_name_of(case)}"
    return f"the job {case.job.name}: parameters.{name}"


def check_effects(case: Case, decisions: Decisions, sweep: Sweep | None = None) -> None:
    """Note a fault for each setting without effect in some run, and for those that exclude each other.

    The space of a search: ``search.names.idle``.
    """
    rows, request = case.job.parameters, case.request
    typed, named = dict(request.settings), dict(free_settings(case))
    axes = dict(sweep.axes) if sweep and not request.search else {}
    texts = {name: (text,) for name, text in {**named, **typed}.items()}
    chosen: dict[str, list[Value]] = {}
    for name, several in {**texts, **axes}.items():
        values = _values_of(case, name, several) if name in rows else []
        if values:
            chosen[name] = values
    searched = set(request.search)
    for idle, fault in idle_settings(rows, chosen):
        effect = rows[idle].effect
        if effect is None or not searched.isdisjoint(effect.needs):
            continue
        decisions.faults.append(replace(fault, where=_place_of(case, idle, axes)))
    for name, other, fault in conflicting_settings(rows, chosen):
        if searched.isdisjoint((name, other)):
            places = dict.fromkeys(_place_of(case, one, axes) for one in (name, other))
            decisions.faults.append(replace(fault, where=", ".join(places)))


def _values_of(case: Case, name: str, texts: tuple[str, ...]) -> list[Value]:
    """Return the values that can be read; ``resolve.program.command`` refuses the others."""
    found = []
    for text in texts:
        try:
            found.append(case.job.parameters[name].parse(text))
        except ValueError:
            continue
    return found
