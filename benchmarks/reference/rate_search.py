"""Tunes the learning rate of one batch size: which rate of a grid to try next; it trains nothing.

Shallue et al. 2018 (arXiv 1811.03600, section 4) compare batch sizes only at the rate that is best for each, and demand
that this rate lies inside the grid. Here the grid has steps of two around a rule's rate, and grows where it must.
"""

from __future__ import annotations

from collections.abc import Mapping

STEP = 2.0
FARTHEST = 4
"""No rate is tried that differs by more steps than this from the rule's rate."""


def next_power(tried: Mapping[int, float | None]) -> int | None:
    """Return the next rate to try as a power of STEP times the rule's rate; None: the best one lies between two others.

    tried: power → samples to the target, None if they were more than those of the best rate at that time. Raises
    ValueError if no rate of the whole grid reaches the target, or if the best one is at its edge.
    """
    reached = {power: samples for power, samples in tried.items() if samples is not None}
    if not reached:
        nearest_first = sorted(range(-FARTHEST, FARTHEST + 1), key=lambda power: (abs(power), -power))
        left = [power for power in nearest_first if power not in tried]
        if not left:
            raise ValueError(f"no rate within {FARTHEST} doublings of the rule's reaches the target")
        return left[0]
    best = best_power(tried)
    if abs(best) == FARTHEST:
        raise ValueError(
            f"the best rate is the last of the grid, {FARTHEST} doublings from the rule's: no best lies within it"
        )
    beside = [power for power in (best + 1, best - 1) if power not in tried]
    return beside[0] if beside else None


def best_power(tried: Mapping[int, float | None]) -> int:
    """Return the power that reached the target after the fewest samples."""
    return min((samples, power) for power, samples in tried.items() if samples is not None)[1]
