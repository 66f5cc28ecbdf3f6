"""Reads a space file: YAML with the parameters of a search, and perhaps its metric, sampler and limits."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from hpclaunch.core.errors import Fault
from hpclaunch.search.space import Dimension, SearchSpace
from hpclaunch.search.terms import DIRECTIONS, PRUNERS, SAMPLERS, SearchTerms
from hpclaunch.search.written import Written

KEYS = ("parameters", "metric", "direction", "sampler", "trials", "seed", "repeats", "pruner")
_OF_A_PARAMETER = ("values", "min", "max", "step", "scale", "type", "points", "mean", "deviation")
_SCALES, _TYPES = ("linear", "log"), ("int", "float")
_RANGE = re.compile(r"(-?[0-9]{1,15})\.\.(-?[0-9]{1,15})")


def terms_of(content: dict[str, Any], where: str, floats: Collection[str], faults: list[Fault]) -> SearchTerms:
    """Return the terms in the content of a space file; ``where`` names it. Problems become faults.

    ``floats``: the parameters of the job that are numbers with a fraction. A range of one of them has all numbers
    between its ends, also if both ends are written as whole numbers.
    """
    top = Written(where, content, faults)
    top.only(KEYS)
    rows = Written(f"{where}: parameters", content.get("parameters"), faults)
    if isinstance(content.get("parameters"), dict) and not rows.values:
        rows.fault("there is no parameter to search for")
    dimensions = [_dimension(name, row, where, name in floats, faults) for name, row in rows.values.items()]
    return SearchTerms(
        space=SearchSpace(dimensions=tuple(dimensions)),
        metric=top.text("metric"),
        direction=top.text("direction", DIRECTIONS) if "direction" in content else "",
        sampler=top.text("sampler", SAMPLERS, default="grid"),
        trials=top.whole("trials", 1),
        seed=top.whole("seed", 0) or 0,
        repeats=top.whole("repeats", 1) or 1,
        pruner=top.text("pruner", PRUNERS) if "pruner" in content else "",
    )


def _dimension(name: str, row: Any, where: str, is_float: bool, faults: list[Fault]) -> Dimension:
    place = f"{where}: parameters.{name}"
    found = _RANGE.fullmatch(row) if isinstance(row, str) else None
    if found:
        row = {"min": int(found[1]), "max": int(found[2]), "type": "int"}
    written = Written(place, {"values": row} if isinstance(row, list) else row, faults)
    written.only(_OF_A_PARAMETER)
    if "values" in written.values:
        others = [key for key in written.values if key != "values"]
        if others:
            written.fault(f"values are listed, so {others[0]} has no meaning")
        return Dimension(name=name, values=written.members("values"))
    log = written.text("scale", _SCALES, default="linear") == "log"
    kind = written.text("type", _TYPES) if "type" in written.values else ""
    points, step = written.whole("points", 1) or 0, written.number("step") or 0.0
    is_normal = "mean" in written.values or "deviation" in written.values
    low, high = written.bounds("min", "max", log, needed=not is_normal)
    if is_normal:
        return _normal(written, Dimension(name=name, low=low, high=high, whole=kind == "int", log=log, points=points))
    whole = kind == "int" or (not kind and not is_float and all(type(one) is int for one in (low, high, step or 1)))
    if whole and not all(one is None or float(one).is_integer() for one in (low, high, step)):
        written.fault("a range of whole numbers has whole ends and a whole step", next_step="type: float")
    if step < 0 or (step and log):
        written.fault("a step is above 0, and has no meaning on a logarithmic scale", "step")
    return Dimension(name=name, low=low, high=high, whole=whole, step=step, log=log, points=points)


def _normal(written: Written, bare: Dimension) -> Dimension:
    mean, deviation = written.number("mean"), written.number("deviation")
    if mean is None or deviation is None or deviation <= 0:
        written.fault("a normal distribution needs mean, and deviation above 0")
        mean, deviation = 0.0, 1.0
    return Dimension(**{**vars(bare), "mean": mean, "deviation": deviation})
