"""The predicted speed and time of a run, and whether it may take longer than its walltime; it chooses no walltime."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

from hpclaunch.core.records import record
from hpclaunch.core.spec_parts import PredictedRate
from hpclaunch.core.units import count, format_walltime
from hpclaunch.guidelines.candidates import Bill
from hpclaunch.guidelines.intervals import Interval
from hpclaunch.planner.amounts import time_of, time_range_of, walltime_for
from hpclaunch.planner.job.question import Question, Trial
from hpclaunch.planner.speed.mfu import mfu_of
from hpclaunch.planner.speed.prediction import PlannedTraining, predictor_of
from hpclaunch.resolve.nodes.limits import longest_walltime
from hpclaunch.resolve.nodes.sizing import Sizing

_DECIDES_TIME = attrgetter(
    *("samples", "sample_bytes", "epochs", "steps", "optimizer", "precision", "number_format", "tensor_parallel"),
    *("pipeline_stages", "recompute", "shard_optimizer", "gradient_lag", "update_groups"),
)
"""What of a ``Workload`` decides the time of a training, beside its batch: runs of a sweep that differ in the rest are
predicted once."""


@record
class PredictedTraining:
    """The predicted speed of a training, and the time of its run in seconds: start-up and evaluation included."""

    rate: PredictedRate
    time_s: Interval


def predict_trainings(
    question: Question, sizing: Sizing, trainings: Sequence[PlannedTraining]
) -> list[PredictedTraining]:
    """Return the predictions of all trainings that differ in what decides their time; none for an unknown speed."""
    different = {(one.batch, _DECIDES_TIME(one.work)): one for one in trainings}
    found = [_predict(question, sizing, one) for one in different.values()]
    return [one for one in found if one is not None]


def _predict(question: Question, sizing: Sizing, training: PlannedTraining) -> PredictedTraining | None:
    predictor = predictor_of(question, sizing, training.work)
    if predictor.timing is None:
        return None
    trial = Trial(nodes=sizing.layout.nodes, sizing=sizing, bill=Bill(), faults=())
    throughput = predictor.throughput(trial, training.batch)
    time_s = predictor.candidate(trial, training.batch, throughput).time_s
    rate, utilized = predictor.rate(throughput), mfu_of(predictor, throughput.samples_per_s, sizing.layout.world_size)
    if utilized is not None:
        rate = replace(rate, mfu=utilized.share.middle, peak=utilized.peak_words)
    return PredictedTraining(rate=rate, time_s=time_s)


def walltime_warning(predicted: Sequence[PredictedTraining], sizing: Sizing) -> str:
    """Return one warning if the longest of these trainings may not end within its walltime; empty: it will, or unknown.

    The upper end of the predicted time counts (it is enough in nine of ten cases), so that a prediction without a
    measurement, whose range is wide, warns early.
    """
    walltime = sizing.placement.walltime
    if not walltime:
        return ""
    slowest = max(predicted, key=lambda one: one.time_s.high, default=None)
    if slowest is None or slowest.time_s.high <= walltime:
        return ""
    longest = slowest.time_s
    takes = "takes" if longest.middle > walltime else "may take"
    origin = "from measured runs" if slowest.rate.measured else "nothing is measured"
    words = f"{time_of(longest.middle)} ({time_range_of(longest, ' to ')}; {origin})"
    ending = _ending_words(sizing, longest)
    return f"the training {takes} longer than the walltime of {format_walltime(walltime)}: {words}; {ending}"


def _ending_words(sizing: Sizing, time_s: Interval) -> str:
    """Return what happens at the end of the walltime, and one that is enough, as far as the site allows it."""
    walltime, restarts = sizing.placement.walltime, sizing.restart_request.most
    jobs = math.ceil(time_s.high / walltime)
    if not restarts:
        words = "the job would end before its training"
    elif jobs - 1 > restarts:
        words = f"the run may need {jobs} jobs, more than its {count(restarts, 'restart')} allow"
    else:
        words = f"the run would continue in up to {count(jobs, 'job')}, one after the other"
    enough = walltime_for(time_s)
    limits = [longest_walltime(place.of(sizing.node_type), sizing.layout.nodes)[0] for place in sizing.placement.limits]
    if any(limit is not None and enough > limit for limit in limits):
        return words
    return f"{words} (--walltime {format_walltime(enough)} is enough in nine of ten cases)"
