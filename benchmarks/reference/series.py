"""The medians of several seeds with their range, as a series of a chart."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from hpclaunch.reports.charts.study_chart import Series


def medians_of(label: str, x: Sequence[Any], values: Sequence[Sequence[float]], **more: Any) -> Series:
    """A series whose points are the medians; values: for each x those of all seeds; more: of a Series."""
    middle, low, high = (list(map(choose, values)) for choose in (statistics.median, min, max))
    return Series(label=label, x=x, y=middle, low=low, high=high, **more)
