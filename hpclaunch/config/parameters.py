"""Hyper-parameters of a job: type, bounds, choices, and values as text; this module reads no file."""

import re
from collections.abc import Iterator, Mapping
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


def several(value: Any) -> Any:
    """Return a single name of a file as a list of one."""
    return [value] if isinstance(value, str) else value


@record
class Parameter:
    """A hyper-parameter. Its type is ``type``, else that of the default; only ``choices`` are allowed, if given.

    A number may have bounds: ``at_least``, ``above``, ``below`` and ``at_most``; a bounded number is finite.
    ``divides``: the parameters whose values this one must divide; ``less_than``: those that it must be less than. A
    file may name a single one. ``required``: a text that must not be empty, as its default is.
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

    def __post_init__(self) -> None:
        if self.type is not None:
            object.__setattr__(self, "default", _convert(self.default, self.type))
        if self.required and self.default != "":
            raise ValueError("only a text whose default is empty can be required")
        if not self.bounds:
            return
        if self.value_type not in ("int", "float"):
            raise ValueError("only a number can have bounds (at_least, above, below, at_most)")
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


def misfits(rows: Mapping[str, Parameter], values: Mapping[str, object]) -> Iterator[tuple[str, str, str]]:
    """Yield each parameter that does not fit one that its ``divides`` or ``less_than`` names: both names, and why not.

    Left to the parameter's own bounds: a value that is no number, and a divisor that is not a whole number above zero.
    """
    for name, row in rows.items():
        value = values.get(name)
        for other in dict.fromkeys((*row.divides, *row.less_than)):
            if other not in rows:
                must = "divide" if other in row.divides else "be less than"
                yield name, other, f"it must {must} {other!r}, but the job has no such parameter"
        for other in row.divides:
            whole = values.get(other)
            if type(value) is int and type(whole) is int and value > 0 and whole % value:
                yield name, other, f"{value} does not divide {other}={whole}"
        for other in row.less_than:
            limit = values.get(other)
            if _is_number(value) and _is_number(limit) and value >= limit:
                yield name, other, f"{value} is not less than {other}={limit}"


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
