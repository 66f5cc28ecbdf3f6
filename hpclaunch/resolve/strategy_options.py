"""Refuses settings that a TensorFlow strategy does not have; the training program refuses the same ones, on its ranks.

Most act on the gradients that Horovod averages (``training.rank.strategies.faults``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from hpclaunch.core.spec import CENTRAL_STORAGE, HOROVOD, Pairs, Sweep
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions


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
"""Which values of a parameter of ``hpclaunch.training`` need Horovod. Model parallelism: ``resolve.split``."""


def check_options(case: Case, strategy: str, decisions: Decisions, sweep: Sweep | None = None) -> None:
    """Note a fault for each setting that does not work with the strategy, a swept one included.

    Only programs of ``hpclaunch.training`` are checked; what others can do is theirs.
    """
    if strategy in ("", HOROVOD) or not case.job.uses_library:
        return
    for name, text, option in _texts_of(case, sweep):
        row = case.job.parameters.get(name)
        try:
            value = row.parse(text) if row else None
        except ValueError:
            continue  # resolve.command refuses it
        if row and name in ONLY_HOROVOD and ONLY_HOROVOD[name](value):
            what = f"{name}={text} works with Horovod only, not with {strategy}"
            decisions.fault(what, where=f"{option} {name}", next=f"leave --strategy out, or {name}={text}")
        elif row and name == "precision" and strategy == CENTRAL_STORAGE and value != "float32":
            what = f"Keras has no mixed precision for {strategy}"
            decisions.fault(what, where=f"{option} {name}", allowed="float32", next="choose --strategy mirrored")


def _texts_of(case: Case, sweep: Sweep | None) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each typed or swept setting, a text that it has, and the option that gives it."""
    settings: Pairs = case.request.settings
    yield from ((name, text, "--set") for name, text in settings)
    yield from ((name, text, "--sweep") for name, texts in (sweep.axes if sweep else ()) for text in texts)
