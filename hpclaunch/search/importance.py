"""How much each parameter decides the value of a trial: the share of the variance that its values explain; pure.

The first-order index of Sobol, estimated by the correlation ratio: trials are grouped by the values of one parameter
(of a range with many values by at most ten intervals with equally many trials), and the variance of the groups' means
is divided by that of all values (Saltelli et al., "Global Sensitivity Analysis: The Primer", 2008, section 1.2.7). It
is corrected for chance as the adjusted R-squared is: a parameter without any influence has about 0.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from statistics import fmean

from hpclaunch.search.events import COMPLETED
from hpclaunch.search.space import Dimension, SearchSpace, Value
from hpclaunch.search.table import TrialRow

FEWEST = 10
"""With fewer trials nothing is estimated."""
_MOST_INTERVALS, _IN_AN_INTERVAL = 10, 3


def importances(rows: Sequence[TrialRow], space: SearchSpace) -> dict[str, float]:
    """Return parameter -> share of the variance, from 0 to 1, the largest first; nothing of fewer than ten trials."""
    known = [row for row in rows if row.state == COMPLETED and row.value is not None]
    if len(known) < FEWEST:
        return {}
    values = [row.value for row in known if row.value is not None]
    shares = {
        one.name: _share(_groups(one, [row.values.get(one.name, "") for row in known]), values)
        for one in space.dimensions
    }
    return dict(sorted(shares.items(), key=lambda pair: -pair[1]))


def _groups(one: Dimension, given: Sequence[Value]) -> list[Hashable]:
    """Return for each trial the group that its value belongs to."""
    intervals = max(2, min(_MOST_INTERVALS, len(given) // _IN_AN_INTERVAL))
    if one.values or 2 * len(set(given)) <= len(given):
        return list(given)
    order = sorted(range(len(given)), key=lambda place: float(given[place]))
    groups: list[Hashable] = [0] * len(given)
    for rank, place in enumerate(order):
        groups[place] = rank * intervals // len(given)
    return groups


def _share(groups: Sequence[Hashable], values: Sequence[float]) -> float:
    mean, number = fmean(values), len(values)
    whole = sum((value - mean) ** 2 for value in values)
    members: dict[Hashable, list[float]] = {}
    for group, value in zip(groups, values, strict=True):
        members.setdefault(group, []).append(value)
    means = {group: fmean(own) for group, own in members.items()}
    rest = sum((value - means[group]) ** 2 for group, own in members.items() for value in own)
    if whole == 0 or len(members) < 2 or number <= len(members):
        return 0.0
    return max(0.0, 1 - (rest / (number - len(members))) / (whole / (number - 1)))
