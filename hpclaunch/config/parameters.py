"""Hyper-parameters of a job: type, bounds, choices, and values as text; this module reads no file."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field, replace
from math import inf
from typing import Annotated, Any, Literal, TypeGuard

from hpclaunch.config.fileformat import INTERNAL, Before, Matching
from hpclaunch.core.errors import did_you_mean
from hpclaunch.core.records import record

Value = bool | int | float | str
Type = Literal["bool", "int", "float", "text", "epochs"]
ParameterName = Annotated[str, Matching(re.compile("[a-z][a-z0-9_]*"), "small letters, digits and _")]
_TYPES: dict[type, Type] = {bool: "bool", int: "int", float: "float", str: "text"}
_NOUNS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "text": "text",
    "epochs": "epochs above 0 in ascending order, such as 30,60,80",
}
_FEW = 12
"""So many names a person reads in an error."""


def several(value: Any) -> Any:
    """Return a single name of a file as a list of one."""
    return [value] if isinstance(value, str) else value


@record
class Effect:
    """A parameter with a value other than ``off`` has an effect only if one of ``needs`` has one of ``values``.

    Without ``values``, any is enough but false, 0 or an empty text. ``instead``: the parameter that has this effect
    with the others; empty if there is none.
    """

    off: Value
    needs: tuple[str, ...]
    values: tuple[Value, ...] = ()
    instead: str = ""


@record
class Conflict:
    """What a parameter with a value other than false, 0, 1 or an empty text excludes: ``values`` of the ``other`` one.

    Without ``values``, any but these. ``why`` is a clause in words. ``instead``: the switch that can be combined with
    the other; empty if there is none. ``gives_way``: the program overrides a default of the other.
    """

    other: str
    why: str
    values: tuple[Value, ...] = ()
    instead: str = ""
    gives_way: bool = False


@record
class Parameter:
    """A hyper-parameter. Its type is ``type``, else that of the default; only ``choices`` are allowed, if given.

    A number may have bounds: ``at_least``, ``above``, ``below`` and ``at_most``; a bounded number is finite.
    ``divides``: the parameters whose values this one must divide; ``less_than``: those that it must be less than. A
    file may name a single one. ``required``: a text that must not be empty, as its default is.
    ``effect``: what it needs to have one; None if it needs nothing. ``conflicts``: what it excludes.
    ``group`` is a heading for readers. ``builtin`` is the program's own default; None if hpclaunch does not know it.
    """

    default: bool | int | float | str
    help: str = ""
    type: Type | None = None
    choices: tuple[Value, ...] = ()
    at_least: int | float | None = None
    above: int | float | None = None
    below: int | float | None = None
    at_most: int | float | None = None
    divides: Annotated[tuple[ParameterName, ...], Before(several)] = ()
    less_than: Annotated[tuple[ParameterName, ...], Before(several)] = ()
    required: bool = False
    group: str = ""
    builtin: Value | None = field(default=None, metadata=INTERNAL)
    effect: Effect | None = field(default=None, metadata=INTERNAL)
    conflicts: tuple[Conflict, ...] = field(default=(), metadata=INTERNAL)

    def __post_init__(self) -> None:
        if self.type is not None:
            object.__setattr__(self, "default", _convert(self.default, self.type))
        if self.required and self.default != "":
            raise ValueError("only a text whose default is empty can be required")
        if not self.bounds and not self.less_than:
            return
        if not self.is_number:
            raise ValueError("only a number can have bounds (at_least, above, below, at_most, less_than)")
        limits = (self.at_least, self.above, self.below, self.at_most)
        if not all(-inf < limit < inf for limit in limits if limit is not None):
            raise ValueError("a bound must be a finite number")
        for value in (self.default, *self.choices):
            if not self._is_within(value):
                raise ValueError(f"{spell(value)}, the default or one of the choices, is not {self.bounds}")

    @property
    def value_type(self) -> Type:
        """The type of its values."""
        return self.type or _TYPES[self.default.__class__]

    @property
    def is_number(self) -> bool:
        return self.value_type in ("int", "float")

    @property
    def bounds(self) -> str:
        """The bounds in words, such as ``at least 0 and below 1``; empty without bounds."""
        bounds = {"at least": self.at_least, "above": self.above, "below": self.below, "at most": self.at_most}
        return " and ".join(f"{word} {bound}" for word, bound in bounds.items() if bound is not None)

    def parse(self, text: str) -> Value:
        """Return typed text as a value of this parameter's type. Raises ValueError that says what is allowed."""
        return self._check(_read_text(text, self.value_type), repr(text))

    def with_default(self, value: Value) -> "Parameter":
        """Return the parameter with another default from a file. Raises ValueError that says what is allowed."""
        return replace(self, default=self._check(_convert(value, self.value_type), repr(value)))

    def _check(self, value: Value, shown: str) -> Value:
        if self.required and value == "":
            raise ValueError("a value is required, not an empty text")
        if self.choices and value not in self.choices:
            allowed = [spell(choice) for choice in self.choices]
            if _FEW_BITS.match(spell(value)) and "bfloat16" in allowed:
                raise ValueError(f"{shown} is not one of {', '.join(allowed)}: {NO_FEW_BITS}")
            raise ValueError(f"{shown} is not one of {', '.join(allowed)}{did_you_mean(spell(value), allowed)}")
        if self.bounds and not self._is_within(value):
            raise ValueError(f"{shown} is not a number that is {self.bounds}")
        return value

    def _is_within(self, value: Any) -> bool:
        return (
            -inf < value < inf
            and (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
            and (self.at_most is None or value <= self.at_most)
        )


_FEW_BITS = re.compile(r"(fp|float|mxfp|nvfp|int)[468](_|\b)|e[2345]m[123]", re.IGNORECASE)
"""Names of number formats with 8 bits and fewer."""
NO_FEW_BITS = (
    "no bundled job computes in 8 bits or fewer; a program of your own can, with Transformer Engine or torchao, on GPUs"
    " that have units for it (H100 and newer, MI300 and newer)"
)


@record
class Pair:
    """Two parameters of a job of which the first must fit the second, by its ``divides`` or its ``less_than``."""

    name: str
    other: str
    must: Literal["divide", "be less than"]

    def misfit(self, value: object, limit: object) -> str:
        """What is wrong with these two values; empty if they fit.

        Left to the parameters' own bounds: values that are no numbers, and a divisor that is not above zero.
        """
        if self.must == "divide" and type(value) is int and type(limit) is int and value > 0 and limit % value:
            return f"{value} does not divide {self.other}={limit}"
        if self.must == "be less than" and _is_number(value) and _is_number(limit) and value >= limit:
            return f"{value} is not less than {self.other}={limit}"
        return ""


def pairs_of(rows: Mapping[str, Parameter]) -> Iterator[Pair]:
    """Yield all pairs of parameters that must fit, also those whose second one the job does not have."""
    for name, row in rows.items():
        yield from (Pair(name=name, other=other, must="divide") for other in row.divides)
        yield from (Pair(name=name, other=other, must="be less than") for other in row.less_than)


def misfits(rows: Mapping[str, Parameter], values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield each parameter that does not fit another one of the job, and what is wrong."""
    for pair in pairs_of(rows):
        if pair.other not in rows:
            what = f"it must {pair.must} {pair.other!r}, but the job has no such parameter"
        elif pair.must == "be less than" and not rows[pair.other].is_number:
            what = f"it must be less than {pair.other!r}, which is not a number"
        else:
            what = pair.misfit(values.get(pair.name), values.get(pair.other))
        if what:
            yield pair.name, what


def _is_number(value: object) -> TypeGuard[int | float]:
    return type(value) in (int, float)


def spell(value: Value) -> str:
    """Return a value as text for a job's command line: ``true`` and ``false`` for booleans."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read_text(text: str, value_type: Type) -> Value:
    """Return typed text as a value. Raises ValueError if it is not of that type."""
    if value_type == "bool":
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise ValueError(f"{text!r} is not true or false")
    if value_type in ("text", "epochs"):
        return _convert(text, value_type)
    try:
        return int(text) if value_type == "int" else float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not {_NOUNS[value_type]}") from None


def _convert(value: Value, value_type: Type) -> Value:
    """Return a value of a file as that type: a whole number can be a number; epochs get their one spelling."""
    try:
        if value_type == "float" and value.__class__ is int:
            return float(value)
        if value_type == "epochs" and isinstance(value, str):
            return _epochs(value)
    except (OverflowError, ValueError):
        raise ValueError(f"{value!r} is not {_NOUNS[value_type]}") from None
    if _TYPES[value.__class__] != value_type:
        raise ValueError(f"{value!r} is not {_NOUNS[value_type]}")
    return value


def _epochs(text: str) -> str:
    """Return a list of epochs in its one spelling: ``30.0, 60`` becomes ``30,60``. Raises ValueError."""
    found = [float(part) for part in text.split(",")] if text.strip() else []
    if not all(0 < epoch < inf for epoch in found) or found != sorted(set(found)):
        raise ValueError
    return ",".join(str(int(epoch)) if epoch.is_integer() else str(epoch) for epoch in found)


def listed(names: Collection[str], job: str) -> str:
    """Return the names of a job's parameters for a person to choose from; where to read them if they are many."""
    few = len(names) <= _FEW
    return ", ".join(names) if few else f"the {len(names)} that hpclaunch jobs show {job} lists"
