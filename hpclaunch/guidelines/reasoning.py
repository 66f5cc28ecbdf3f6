"""How a recommendation is explained: its rule, numbers, verdict and source; it decides nothing."""

from __future__ import annotations

import math
from typing import Literal

from hpclaunch.core.records import record

Origin = Literal["typed", "given", "site", "default", "profile", "fitted", "computed"]
"""How a number was obtained: typed by a person, given by job or model, from the site file, a default, measured, …"""

GUIDELINES = "Distributed Training guidelines (Big Data Center, NERSC and Intel)"


@record
class Number:
    """A number that a rule was applied to. ``unit`` may be empty."""

    name: str
    value: float
    unit: str = ""
    origin: Origin = "computed"


@record
class Reason:
    """One rule as it was applied: its numbers, the result, and the source. ``warning`` is one line, or empty."""

    rule: str
    numbers: tuple[Number, ...] = ()
    verdict: str
    source: str
    warning: str = ""


def positive(**values: float) -> None:
    """Raise ValueError if a value is not a finite number above zero; it names all such values."""
    wrong = [f"{name} = {value}" for name, value in values.items() if not (math.isfinite(value) and value > 0)]
    if wrong:
        raise ValueError(f"must be above zero: {', '.join(wrong)}")
