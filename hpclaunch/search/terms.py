"""What a search was asked for: its space, its sampler, its metric and its limits; pure."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from functools import cached_property
from typing import Any

from hpclaunch.core.errors import Fault, did_you_mean
from hpclaunch.core.records import record
from hpclaunch.search.sampling import GRID, RANDOM, size_of
from hpclaunch.search.space import SearchSpace, space_of_json

MINIMIZE, MAXIMIZE = DIRECTIONS = ("minimize", "maximize")
ADAPTIVE = ("tpe", "cmaes", "nsgaii")
"""Samplers of Optuna (optuna.samplers), which look at the values of earlier trials."""
SAMPLERS = (GRID, RANDOM, *ADAPTIVE)
PRUNERS = ("median", "percentile", "halving", "hyperband")
"""Pruners of Optuna (optuna.pruners) that need no argument which only a person can know."""
_GROWING = ("acc", "auc", "precision", "recall", "f1", "iou", "r2")
"""Parts of the names of metrics that should grow (docs/training.md, early stopping)."""
MOST_TRIALS = 1_000_000


@record
class SearchTerms:
    """The terms of a search. ``trials``: at most so many (None: until every combination was tried).

    ``metric``: empty if the trials are only made, and none is the best. ``direction``: if it is empty, the name of the
    metric decides. ``repeats``: how often each combination is tried. ``pruner``: empty if no trial ends early.
    """

    space: SearchSpace
    metric: str = ""
    direction: str = ""
    sampler: str = GRID
    trials: int | None = None
    seed: int = 0
    repeats: int = 1
    pruner: str = ""

    @property
    def total(self) -> int | None:
        """The number of trials of the whole search; None if it is not limited."""
        size = self.space.count if self.sampler in ADAPTIVE else size_of(self.space, self.sampler)
        limits = [limit * self.repeats for limit in (size, self.trials) if limit is not None]
        return min(limits, default=None)

    @property
    def needs_optuna(self) -> bool:
        """Whether its trials or their early ends are decided by Optuna."""
        return self.sampler in ADAPTIVE or bool(self.pruner)

    @cached_property
    def is_minimized(self) -> bool:
        """Whether small values of the metric are good. Without a direction its name decides, as in early stopping."""
        if self.direction:
            return self.direction == MINIMIZE
        return not any(word in self.metric.lower() for word in _GROWING)

    def is_better(self, value: float, than: float | None) -> bool:
        """Whether a value of the metric is better than another; than none, any value is."""
        return than is None or (value < than if self.is_minimized else value > than)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {**asdict(self), "space": self.space.to_json()}


def terms_of_json(values: dict[str, Any]) -> SearchTerms:
    """Return the terms that ``to_json`` wrote. Raises ValueError, TypeError or KeyError for anything else."""
    known = {field.name for field in fields(SearchTerms)}
    given = {name: value for name, value in values.items() if name in known}
    return SearchTerms(**{**given, "space": space_of_json(values["space"])})


def faults_of(terms: SearchTerms) -> list[Fault]:
    """Return why this search cannot be made: an unknown name, a grid without points, a search without an end."""
    faults = [
        Fault(what=f"{value!r} is unknown{did_you_mean(value, known)}", where=flag, allowed=", ".join(known))
        for flag, value, known in (
            ("--sampler", terms.sampler, SAMPLERS),
            ("--direction", terms.direction, DIRECTIONS),
            ("--pruner", terms.pruner, PRUNERS),
        )
        if value and value not in known
    ]
    if faults:
        return faults
    if terms.needs_optuna and not terms.metric:
        what = f"the {'sampler' if terms.sampler in ADAPTIVE else 'pruner'} needs the name of a metric"
        faults.append(Fault(what=what, where="--metric", next="--metric val_loss"))
    if terms.sampler in ADAPTIVE and terms.repeats > 1:
        what = f"the sampler {terms.sampler} proposes every combination once"
        faults.append(Fault(what=what, where="repeats", next="a grid or random search, or repeats: 1 (trials in JSON)"))
    faults += [fault for one in terms.space.dimensions for fault in _faults_of_dimension(one.name, terms)]
    if not faults and terms.total is None:
        what = "the space has no end: a parameter of it can have infinitely many values"
        faults.append(Fault(what=what, where="--trials", next="--trials 100"))
    if not faults and terms.total is not None and not 0 < terms.total <= MOST_TRIALS:
        what = f"the search would have {terms.total} trials"
        faults.append(Fault(what=what, allowed=f"1 to {MOST_TRIALS}", next="--trials 100, or a smaller space"))
    return faults


def _faults_of_dimension(name: str, terms: SearchTerms) -> list[Fault]:
    dimension = next(one for one in terms.space.dimensions if one.name == name)
    if terms.sampler == GRID and not dimension.grid():
        what = "a grid needs to know how many values to take from a range without steps"
        ends = (dimension.low, dimension.high)
        whole = "int: true; " if all(end is not None and float(end).is_integer() for end in ends) else ""
        next_step = f"one of: {whole}points: 5; step: 0.1 (each in the space file); --sampler random"
        return [Fault(what=what, where=name, next=next_step)]
    if terms.sampler in ADAPTIVE and dimension.deviation is not None:
        what = f"the sampler {terms.sampler} has no normal distributions"
        return [Fault(what=what, where=name, next="min and max in place of them, or --sampler random")]
    return []


def with_changes(terms: SearchTerms, **typed: Any) -> SearchTerms:
    """Return the terms with the values that were typed; None is not typed."""
    return replace(terms, **{name: value for name, value in typed.items() if value is not None})
