"""Reads the configuration of Comet's optimizer: JSON with comments and trailing commas, in Comet's own words.

Source: Comet's page "Configure the Optimizer" (comet.com/docs/v2/guides/optimizer/configure-optimizer, 2026-11-24),
and the configuration that the article of Nair prints ("Why Parallelized Training Might Not be Working for You").
"""

from __future__ import annotations

import json
from typing import Any

from hpclaunch.core.errors import Fault
from hpclaunch.search.space import Dimension, SearchSpace
from hpclaunch.search.terms import DIRECTIONS, SearchTerms
from hpclaunch.search.written import Written

_ALGORITHMS = {"grid": "grid", "random": "random", "bayes": "tpe"}
_SCALES = ("linear", "uniform", "log", "loguniform", "normal", "lognormal")
_TYPES = ("integer", "float", "double", "categorical", "discrete")
_KEYS = ("algorithm", "spec", "parameters", "name", "trials")
_WITHOUT_MEANING = ("minSampleSize", "retryLimit", "retryAssignLimit")
"""Of how Comet's server finds combinations: they change nothing here, as no combination is tried twice."""
_SPEC = ("metric", "objective", "maxCombo", "seed", "gridSize", "randomize", *_WITHOUT_MEANING)
_GRID_SIZE = 10
"""Comet's default number of values that a grid takes from a range."""


def terms_in(text: str, where: str, faults: list[Fault]) -> SearchTerms:
    """Return the terms in the text of a configuration; ``where`` names its file. Problems become faults."""
    try:
        content = json.loads(plain_json(text), parse_constant=_refuse_constant)
    except (RecursionError, ValueError) as error:
        faults.append(Fault(what=f"is not valid JSON: {error}", where=where))
        return SearchTerms(space=SearchSpace(dimensions=()))
    top = Written(where, content, faults)
    top.only(_KEYS)
    algorithm = top.text("algorithm", _ALGORITHMS)
    if "algorithm" not in top.values:
        top.fault("the algorithm is missing", "algorithm", allowed=", ".join(_ALGORITHMS))
    spec = Written(f"{where}: spec", top.values.get("spec", {}), faults)
    spec.only(_SPEC)
    points = spec.whole("gridSize", 1) or _GRID_SIZE
    space = SearchSpace(dimensions=_dimensions(where, top.values.get("parameters"), points, faults))
    if algorithm == "grid" and spec.values.get("randomize") is True:
        algorithm = "random"
        space = SearchSpace(dimensions=tuple(Dimension(name=one.name, values=one.grid()) for one in space.dimensions))
    return SearchTerms(
        space=space,
        metric=spec.text("metric", default="loss"),
        direction=spec.text("objective", DIRECTIONS, default="minimize"),
        sampler=_ALGORITHMS.get(algorithm, "grid"),
        trials=spec.whole("maxCombo", 0) or None,
        seed=spec.whole("seed", 0) or 0,
        repeats=top.whole("trials", 1) or 1,
    )


def _dimensions(where: str, rows: Any, points: int, faults: list[Fault]) -> tuple[Dimension, ...]:
    parameters = Written(f"{where}: parameters", rows, faults)
    if isinstance(rows, dict) and not rows:
        parameters.fault("there is no parameter to search for")
    return tuple(
        _dimension(name, Written(f"{where}: parameters.{name}", row, faults), points)
        for name, row in parameters.values.items()
    )


def _dimension(name: str, row: Written, points: int) -> Dimension:
    kind = row.text("type", _TYPES)
    if "type" not in row.values:
        row.fault("the type is missing", allowed=", ".join(_TYPES))
    if kind in ("categorical", "discrete", ""):
        row.only(("type", "values"))
        values = row.members("values") if kind else ()
        if kind == "discrete" and not all(isinstance(value, int | float) for value in values):
            row.fault("a discrete parameter has numbers; texts are categorical", "values")
        return Dimension(name=name, values=values)
    row.only(("type", "scalingType", "scaling_type", "min", "max", "mu", "sigma", "gridSize"))
    key = "scalingType" if "scalingType" in row.values else "scaling_type"
    scale = row.text(key, _SCALES, default="uniform")
    whole, log = kind == "integer", scale.startswith("log")
    points = row.whole("gridSize", 1) or points
    if scale.endswith("normal"):
        mean, deviation = row.number("mu"), row.number("sigma")
        if mean is None or deviation is None or deviation <= 0:
            row.fault("a normal distribution needs mu, and sigma above 0")
            mean, deviation = 0.0, 1.0
        low, high = row.bounds("min", "max", log, needed=False)
        return Dimension(
            name=name, low=low, high=high, whole=whole, log=log, mean=mean, deviation=deviation, points=points
        )
    if "mu" in row.values or "sigma" in row.values:
        row.fault(
            f"mu and sigma belong to a normal distribution, not to {scale!r}", next_step='"scalingType": "normal"'
        )
    low, high = row.bounds("min", "max", log)
    if whole and not all(bound is None or float(bound).is_integer() for bound in (low, high)):
        row.fault("an integer parameter begins and ends with a whole number")
    return Dimension(name=name, low=low, high=high, whole=whole, log=log, points=points)


def plain_json(text: str) -> str:
    """Return the text without comments (``#`` and ``//``) and without commas before a closing bracket.

    Lines and columns stay what they were, so that messages about the text are right.
    """
    made: list[str] = []
    comma, place = -1, 0
    while place < len(text):
        sign = text[place]
        if sign == '"':
            end = _end_of_string(text, place)
            made.append(text[place:end])
            comma, place = -1, end
            continue
        if sign == "#" or text.startswith("//", place):
            end = text.find("\n", place)
            end = len(text) if end < 0 else end
            made.append(" " * (end - place))
            place = end
            continue
        if sign == ",":
            comma = len(made)
        elif sign in "]}" and comma >= 0:
            made[comma] = " "
        if sign not in ", \t\r\n":
            comma = -1
        made.append(sign)
        place += 1
    return "".join(made)


def _end_of_string(text: str, begin: int) -> int:
    place = begin + 1
    while place < len(text) and text[place] != '"':
        place += 2 if text[place] == "\\" else 1
    return min(len(text), place + 1)


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not a number")
