"""The words of a measured scaling study: what a layout costs beside one process, and why."""

from __future__ import annotations

from collections.abc import Sequence

from hpclaunch.core.units import count
from hpclaunch.guidelines.scaling import Cause, ScaledPoint
from hpclaunch.planner.amounts import time_of
from hpclaunch.planner.speed.scaling import Mode

MILLI = 1e3
NAMED = 0.2
"""The second cause is named too if it has this share of what the step is longer than the ideal one."""


def warnings_of(scaled: Sequence[ScaledPoint], samples: int, mode: Mode) -> tuple[str, ...]:
    """Return one warning for every layout that is slower, or hardly faster, than one process.

    ``samples``: those of an epoch.
    """
    alone = next((one for one in scaled if one.point.ranks == 1), None)
    if alone is None:
        return ()
    return tuple(_warning(one, alone, samples, mode) for one in scaled if not one.is_worth_it)


def _warning(one: ScaledPoint, alone: ScaledPoint, samples: int, mode: Mode) -> str:
    point = one.point
    times = [time_of(samples / rate) for rate in (point.samples_per_s, alone.point.samples_per_s)]
    parts = f" x {point.accumulation} micro-batches" if point.accumulation > 1 else ""
    batch = f"the same global batch of {point.batch}" if mode == "strong" else f"a batch of {alone.point.batch}"
    words = f"{point.ranks} ranks on {count(point.nodes, 'node')} x {count(point.per_rank, 'sample')}{parts} are"
    words += f" {one.verdict} than one process with {batch}: {times[0]} instead of {times[1]} an epoch"
    return f"{words} (measured, speed-up {one.speed_up:.2f}); {causes_in_words(one)}"


def causes_in_words(one: ScaledPoint) -> str:
    """Return which part of the step costs the speed-up: milliseconds beside those of the step and the ideal step."""
    named = leading_causes(one)
    if not named:
        return "its runs do not report the parts of their steps (hpclaunch docs training), so the cause is not known"
    step = f"a step takes {MILLI * one.point.step_s:.3g} ms, with the ideal speed-up {MILLI * one.ideal_s:.3g} ms"
    first = f"what costs most is {named[0].name}: {MILLI * named[0].seconds:.3g} ms"
    others = "".join(f", then {cause.name}: {MILLI * cause.seconds:.3g} ms" for cause in named[1:])
    return f"{step}; {first}{others}"


def leading_causes(one: ScaledPoint) -> tuple[Cause, ...]:
    """Return the largest cause, and the second one if it matters; none if the parts of the steps are not known."""
    lost = one.point.step_s - one.ideal_s
    first, second = one.causes[:1], one.causes[1:2]
    return (*first, *(cause for cause in second if cause.seconds >= NAMED * lost > 0))
