"""What the planner predicts of a run before it is submitted, as its spec records it."""

from __future__ import annotations

from hpclaunch.core.records import record


@record
class PredictedRate:
    """Predicted samples/s of all ranks, with their 80 % interval. ``measured``: it rests on measurements of the job.

    A spec has none if the planner could predict nothing or was not asked, and for a sweep.
    """

    samples_per_s: float
    low: float
    high: float
    measured: bool
