"""A hyper-parameter of a job: its type, bounds and choices, and its value as text; it reads no file."""

import re
from dataclasses import field, replace
from math import inf
from typing import Annotated, Any, Literal

from hpclaunch.config.fileformat import INTERNAL, Matching
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


@record
class Parameter:
    """A hyper-parameter. Its default fixes its type, unless ``type`` does; ``choices`` are all that is allowed.

    A number may have bounds: ``at_least``, ``above``, ``below`` and ``at_most``; one that has some is finite.
    ``group`` is a heading for readers. ``builtin`` is the value that the program takes without being told; None where
    hpclaunch does not know it.
    """

    default: bool | int | float | str
    help: str = ""
    type: Type | None = None
    choices: tuple[Value, ...] = ()
    at_least: int | float | None = None
    above: int | float | None = None
    below: int | float | None = None
    at_most: int | float | None = None
    group: str = ""
    builtin: Value | None = field(default=None, metadata=INTERNAL)

    def __post_init__(self) -> None:
        if self.type is not None:
            object.__setattr__(self, "default", _converted(self.default, self.type))
        if not self.bounds:
            return
        if self.kind not in ("int", "float"):
            raise ValueError("only a number has bounds (at_least, above, below, at_most)")
        limits = (self.at_least, self.above, self.below, self.at_most)
        if not all(-inf < limit < inf for limit in limits if limit is not None):
            raise ValueError("a bound is a finite number")
        for value in (self.default, *self.choices):
            if not self._is_within(value):
                raise ValueError(f"{spell(value)}, the default or a choice, is not {self.bounds}")

    @property
    def kind(self) -> Type:
        """What its values are."""
        return self.type or _TYPES[self.default.__class__]

    @property
    def bounds(self) -> str:
        """What a number must be, such as ``at least 0 and below 1``; empty without bounds."""
        said = {"at least": self.at_least, "above": self.above, "below": self.below, "at most": self.at_most}
        return " and ".join(f"{word} {bound}" for word, bound in said.items() if bound is not None)

    def parse(self, text: str) -> Value:
        """Return typed text as this parameter's type. Raises ValueError saying what is allowed."""
        return self._admitted(_read_text(text, self.kind), repr(text))

    def with_default(self, value: Value) -> "Parameter":
        """Return it with another default, as a file writes it. Raises ValueError saying what is allowed."""
        return replace(self, default=self._admitted(_converted(value, self.kind), repr(value)))

    def _admitted(self, value: Value, shown: str) -> Value:
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


def spell(value: Value) -> str:
    """Return a value as a job's command line takes it: ``true`` and ``false`` for booleans."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read_text(text: str, kind: Type) -> Value:
    """Return typed text as a value. Raises ValueError."""
    if kind == "bool":
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise ValueError(f"{text!r} is not true or false")
    if kind in ("text", "epochs"):
        return _converted(text, kind)
    try:
        return int(text) if kind == "int" else float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not {_NOUNS[kind]}") from None


def _converted(value: Value, kind: Type) -> Value:
    """Return a value of a file as that kind: a whole number as a number too, epochs always spelled alike."""
    try:
        if kind == "float" and value.__class__ is int:
            return float(value)
        if kind == "epochs" and isinstance(value, str):
            return _epochs(value)
    except (OverflowError, ValueError):
        raise ValueError(f"{value!r} is not {_NOUNS[kind]}") from None
    if _TYPES[value.__class__] != kind:
        raise ValueError(f"{value!r} is not {_NOUNS[kind]}")
    return value


def _epochs(text: str) -> str:
    """Return epochs in one spelling: ``30.0, 60`` is ``30,60``. Raises ValueError."""
    found = [float(part) for part in text.split(",")] if text.strip() else []
    if not all(0 < epoch < inf for epoch in found) or found != sorted(set(found)):
        raise ValueError
    return ",".join(str(int(epoch)) if epoch.is_integer() else str(epoch) for epoch in found)
