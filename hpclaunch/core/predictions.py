"""What the planner predicts of a run before it is submitted, as its spec records it."""

from __future__ import annotations

from hpclaunch.core.json_values import finite
from hpclaunch.core.records import record


@record
class PredictedRate:
    """Predicted samples/s of all ranks, with their 80 % interval. ``measured``: it rests on measurements of the job.

    A spec has none if the planner could predict nothing or was not asked, and for a sweep. ``mfu``: the model FLOP
    utilization at this rate, of the ``peak`` in words (None: not known). It is proportional to the rate.
    """

    samples_per_s: float
    low: float
    high: float
    measured: bool
    mfu: float | None = None
    peak: str = ""


def utilization_at(predicted: object, samples_per_s: float) -> tuple[float, float, str] | None:
    """Return the utilization that a measured rate reaches, the expected one, and the peak that both refer to.

    ``predicted``: what a run's spec has recorded. None if it has recorded no utilization.
    """
    if not isinstance(predicted, dict):
        return None
    rate, expected = finite(predicted.get("samples_per_s")), finite(predicted.get("mfu"))
    if not rate or not expected or rate < 0 or expected < 0:
        return None
    return expected * samples_per_s / rate, expected, str(predicted.get("peak", ""))
