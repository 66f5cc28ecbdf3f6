"""The assumptions of a plan, one line each: what is neither given nor measured, and what is used instead."""

from __future__ import annotations

from hpclaunch.guidelines.candidates import Candidate
from hpclaunch.planner.amounts import time_of
from hpclaunch.planner.fitting.strategy import traffic_of
from hpclaunch.planner.job.question import Question, shards_weights
from hpclaunch.planner.speed.prediction import TWO_BATCHES, Predictor
from hpclaunch.planner.values import PlanRow

NEARLY = 0.5
"""Share of the bytes that a node can read from which on the reading may slow a run."""


def assumed_of(predictor: Predictor, row: PlanRow, assumed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the lines for the chosen ``row``, after those (``assumed``) that do not depend on the choice."""
    timing, found, target = predictor.timing, list(assumed), predictor.question.case.request.target
    if timing is None:
        found.insert(0, f"speed of {predictor.node.device}: not known; hpclaunch profile {target} measures it")
    elif not predictor.question.evidence.points:
        found = [*_guessed_speed(predictor), *found]
    if not predictor.work.optimizer_known:
        found.append("optimizer: not given, or not known; memory and rates are those of Adam")
    found += _update_assumptions(predictor)
    if predictor.strategy.gpus > 1 and traffic_of(predictor.figures).guessed:
        found.append("layers of a split model: not known; every second saved value is exchanged, in both directions")
    if row.candidate is not None:
        found += [*_time_assumptions(predictor, row.candidate), f"cost: {row.candidate.charged}"]
    if timing is not None and timing.straggling_origin == "default":
        found.append(f"stragglers: not measured; a rank's steps vary by {timing.straggling:.0%} (hpclaunch's default)")
    return (*found, *_reading_assumptions(predictor, row), *_queue_assumptions(predictor.question))


def _update_assumptions(predictor: Predictor) -> list[str]:
    """Return what a plan leaves out of updates that are not those of all ranks in every step."""
    work, found = predictor.work, []
    if shards_weights(predictor.question):
        found.append("shard_weights=true: its memory and traffic are not predicted; those of whole weights are counted")
    if work.gradient_lag:
        found.append("gradient_lag: epochs and time are those without it; its gain in speed and its loss are not known")
    if work.update_groups > 1:
        found.append(
            f"update_groups={work.update_groups}: epochs, rates and time are those of averaging over all ranks in"
            " every step"
        )
    return found


def _guessed_speed(predictor: Predictor) -> list[str]:
    """Return the assumption about a device of which no published throughput was compared with its estimate."""
    device = predictor.node.speed
    if device is None or not device.is_guess:
        return []
    figures = "the measured matrix product and copy rate" if device.is_measured else "its peaks"
    width = f"a guess within a factor of {1 + device.spread:g}"
    return [f"speed of {device.name}: {width}, from {figures} ({device.source})"]


def _time_assumptions(predictor: Predictor, run: Candidate) -> list[str]:
    """Return what was not measured of the time, with the values that are counted instead."""
    timing, found = predictor.timing, []
    if predictor.question.evidence.overhead_s is None:
        found.append(
            f"outside the steps: not measured; start-up and staging take {time_of(run.once_s.middle)}, evaluation and"
            f" checkpoints {time_of(run.between_s.middle)} in all, within a factor of 2"
        )
    if timing is not None and len(timing.batches) < TWO_BATCHES:
        hidden = " in which the host starts its operations, while the GPU computes" if timing.launches_ahead else ""
        found.append(
            f"fixed time of a step: not measured; {timing.fixed_s * 1e3:.2g} ms{hidden}, and"
            f" {timing.joining_s * 1e3:.2g} ms for the all-reduce of several ranks"
        )
    return found


def _queue_assumptions(question: Question) -> list[str]:
    """Return the assumption about the queue, if the site has one and its waits are not known."""
    if question.queue.waits or not question.case.site.scheduler_row.has_queue:
        return []
    why = f" ({question.queue.unknown})" if question.queue.unknown else ""
    return [f"wait in the queue: not known{why}, and not counted"]


def _reading_assumptions(predictor: Predictor, row: PlanRow) -> list[str]:
    """Return the assumption about reading, if nothing was measured: a measured throughput contains the reading."""
    work = predictor.work
    if row.throughput is None or predictor.question.evidence.points:
        return []
    if work.sample_bytes is None:
        return ["reading samples: not counted; the size of a sample is not known (training.sample_bytes)"]
    needed = row.throughput.samples_per_s.middle * work.sample_bytes / row.nodes
    offered = predictor.timing_on(row.nodes).reading
    if needed < NEARLY * offered:
        return []
    rates = f"needs {needed / 1e9:.2g} GB/s of a node, which can read and decode about {offered / 1e9:.2g} GB/s"
    return [f"reading samples: {rates}, within a factor of 2"]
