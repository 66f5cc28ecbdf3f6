"""What a finished run measured of the parts of its steps; it starts no program."""

from __future__ import annotations

from hpclaunch.guidelines.scaling import StepSplit, median_split, split_of_event
from hpclaunch.planner.measured.measurement import WARM_UP, rate_of
from hpclaunch.runs import Run


def split_of(run: Run) -> StepSplit | None:
    """Return the parts of the steps in the epoch of median speed, of those that count; None if none are reported."""
    epochs = [event for event in run.metrics() if event.get("event") == "epoch"][WARM_UP:]
    found = [(rate_of(event), split_of_event(event)) for event in epochs]
    return median_split([(rate, split) for rate, split in found if rate is not None and split is not None])
