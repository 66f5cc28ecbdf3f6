"""Reads the values that describe a parameter in a file: numbers, bounds and lists; every problem becomes a fault."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hpclaunch.core.errors import Fault, did_you_mean
from hpclaunch.core.json_values import finite


class Written:
    """The keys of one mapping in a file; ``where`` names its place. ``faults`` collects what is wrong."""

    def __init__(self, where: str, values: Any, faults: list[Fault]) -> None:
        self.where, self.faults = where, faults
        self.values: dict[str, Any] = values if isinstance(values, dict) else {}
        if not isinstance(values, dict):
            self.fault("must be a mapping of keys to values")

    def fault(self, what: str, key: str = "", allowed: str = "", next_step: str = "") -> None:
        """Note that something is wrong."""
        where = f"{self.where}.{key}" if key else self.where
        self.faults.append(Fault(what=what, where=where, allowed=allowed, next=next_step))

    def only(self, known: Collection[str]) -> None:
        """Note a fault for every key that is not known."""
        for key in self.values:
            if key not in known:
                self.fault(f"the key is unknown{did_you_mean(key, known)}", str(key), allowed=", ".join(known))

    def text(self, key: str, known: Collection[str] = (), default: str = "") -> str:
        """Return a text; only the ``known`` ones if there are any."""
        value = self.values.get(key, default)
        if not isinstance(value, str):
            self.fault(f"{value!r} is not a text", key)
            return default
        if known and value not in known:
            self.fault(f"{value!r} is unknown{did_you_mean(value, known)}", key, allowed=", ".join(known))
            return default
        return value

    def number(self, key: str) -> float | None:
        """Return a finite number, None if the key is missing; a whole number stays one."""
        value = self.values.get(key)
        if value is None:
            return None
        if finite(value) is None:
            self.fault(f"{value!r} is not a number", key)
            return None
        number: float = value
        return number

    def whole(self, key: str, at_least: int) -> int | None:
        """Return a whole number, None if the key is missing."""
        value = self.values.get(key)
        if value is None:
            return None
        if type(value) is not int or value < at_least:
            self.fault(f"{value!r} is not a whole number of at least {at_least}", key)
            return None
        return value

    def members(self, key: str) -> tuple[Any, ...]:
        """Return a list of numbers and texts that are all different; none if it is missing or wrong."""
        values = self.values.get(key)
        if not isinstance(values, list) or not values:
            self.fault("a list of values is missing", key)
            return ()
        wrong = [value for value in values if not isinstance(value, bool | int | float | str)]
        spelled = [str(value) for value in values]
        twice = sorted({text for text in spelled if spelled.count(text) > 1})
        if wrong:
            self.fault(f"{wrong[0]!r} is not a number or a text", key)
        elif twice:
            self.fault(f"{twice[0]!r} is listed twice", key)
        return () if wrong or twice else tuple(values)

    def bounds(self, low: str, high: str, log: bool, needed: bool = True) -> tuple[float | None, float | None]:
        """Return the ends of a range; with ``log`` they must be above zero."""
        first, last = self.number(low), self.number(high)
        if needed and (first is None or last is None):
            missing = [key for key in (low, high) if key not in self.values]
            if missing:
                self.fault(f"{' and '.join(missing)} of the range {'is' if len(missing) == 1 else 'are'} missing")
        if first is not None and last is not None and first > last:
            self.fault(f"the range ends at {last}, before it begins at {first}")
        if log and first is not None and first <= 0:
            self.fault(f"a range with a logarithmic scale begins above 0, not at {first}", low)
        return first, last
