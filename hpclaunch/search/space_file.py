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
_OF_A_PARAMETER = ("values", "min", "max", "step", "scale", "int", "type", "points", "mean", "deviation")
_SCALES, _TYPES = ("linear", "log"), ("int", "float")
_RANGE = re.compile(r"(-?[0-9]{1,15})\.\.(-?[0-9]{1,15})")


def terms_of(content: dict[str, Any], where: str, whole: Collection[str], faults: list[Fault]) -> SearchTerms:
    """Return the terms in the content of a space file; ``where`` names it. Problems become faults.

    ``whole``: the parameters of the job that are whole numbers. A range of any other one has all numbers between its
    ends, also if both are written as whole numbers, unless it says ``int: true``.
    """
    top = Written(where, content, faults)
    top.only(KEYS)
    rows = Written(f"{where}: parameters", content.get("parameters"), faults)
    if isinstance(content.get("parameters"), dict) and not rows.values:
        rows.fault("there is no parameter to search for")
    dimensions = [
        _dimension(name, Written(f"{where}: parameters.{name}", _long_form(row), faults), name in whole)
        for name, row in rows.values.items()
    ]
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


def _long_form(row: Any) -> Any:
    """Return a list of values, or a range such as ``1..5``, as the mapping that it stands for."""
    found = _RANGE.fullmatch(row) if isinstance(row, str) else None
    if found:
        return {"min": int(found[1]), "max": int(found[2]), "int": True}
    return {"values": row} if isinstance(row, list) else row


def _dimension(name: str, written: Written, has_whole_type: bool) -> Dimension:
    written.only(_OF_A_PARAMETER)
    if "values" in written.values:
        others = [key for key in written.values if key != "values"]
        if others:
            written.fault(f"values are listed, so {others[0]} has no meaning")
        return Dimension(name=name, values=written.members("values"))
    log = written.text("scale", _SCALES, default="linear") == "log"
    points = written.whole("points", 1) or 0
    is_normal = "mean" in written.values or "deviation" in written.values
    says_whole = _says_whole(written)
    low, high = written.bounds("min", "max", log, needed=not is_normal)
    if is_normal:
        whole_normal = Dimension(name=name, low=low, high=high, whole=bool(says_whole), log=log, points=points)
        return _normal(written, whole_normal)
    step = written.number("step") or 0.0
    if step < 0 or (step and log):
        written.fault("a step is above 0, and has no meaning on a logarithmic scale", "step")
    whole = says_whole if says_whole is not None else _can_only_be_whole(written, has_whole_type)
    return Dimension(name=name, low=low, high=high, whole=whole, step=step, log=log, points=points)


def _says_whole(written: Written) -> bool | None:
    """Return whether a range says that it has whole numbers only; None if it says nothing.

    ``type: int`` and ``type: float`` are the form of earlier files.
    """
    says = written.values.get("int")
    if says is not None and type(says) is not bool:
        written.fault(f"{says!r} is neither true nor false", "int")
        says = None
    if "type" in written.values:
        says = written.text("type", _TYPES) == "int"
    numbers = [written.values[key] for key in ("min", "max", "step") if key in written.values]
    if says and not all(isinstance(one, int | float) and float(one).is_integer() for one in numbers):
        written.fault("a range of whole numbers has whole ends and a whole step", next_step="int: false")
    return says


def _can_only_be_whole(written: Written, has_whole_type: bool) -> bool:
    """Whether a range that does not say it has whole numbers only: those of the job's type, or whole steps."""
    numbers = [written.values[key] for key in ("min", "max", "step") if key in written.values]
    are_whole = all(type(one) is int for one in numbers)
    return are_whole and (has_whole_type or "step" in written.values)


def unsaid_ranges(content: dict[str, Any]) -> list[str]:
    """Return the parameters whose ranges have whole ends and do not say whether they have whole numbers only.

    Before such a range had any number between its ends, it had the whole ones.
    """
    rows = content.get("parameters")
    found = rows.items() if isinstance(rows, dict) else ()
    return [str(name) for name, row in found if isinstance(row, dict) and _is_unsaid(row)]


def _is_unsaid(row: dict[str, Any]) -> bool:
    return {"min", "max"} <= row.keys() <= {"min", "max", "scale", "points"} and all(
        type(row[key]) is int for key in ("min", "max")
    )


def _normal(written: Written, bare: Dimension) -> Dimension:
    mean, deviation = written.number("mean"), written.number("deviation")
    if mean is None or deviation is None or deviation <= 0:
        written.fault("a normal distribution needs mean, and deviation above 0")
        mean, deviation = 0.0, 1.0
    return Dimension(**{**vars(bare), "mean": mean, "deviation": deviation})
