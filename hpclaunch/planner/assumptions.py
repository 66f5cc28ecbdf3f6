"""The assumptions of a plan, one line each: what is neither given nor measured, and what is used instead."""

from __future__ import annotations

from hpclaunch.guidelines.parallelism import dataset_fits_node
from hpclaunch.planner.prediction import Predictor
from hpclaunch.planner.question import Question
from hpclaunch.planner.strategy import traffic_of
from hpclaunch.planner.values import PlanRow


def assumed_of(predictor: Predictor, row: PlanRow, assumed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the lines for the chosen ``row``, after those (``assumed``) that do not depend on the choice."""
    timing, found, target = predictor.timing, list(assumed), predictor.question.case.request.target
    if timing is None:
        found.insert(0, f"speed of {predictor.node.device}: not known; hpclaunch profile {target} measures it")
    if not predictor.work.optimizer_known:
        found.append("optimizer: not given, or not known; memory and rates are those of Adam")
    if predictor.strategy.parallelism.gpus_per_replica > 1 and traffic_of(predictor.figures).guessed:
        found.append("layers of a split model: not known; every second saved value is exchanged, in both directions")
    if predictor.question.evidence.overhead_s is None:
        found.append("start-up, staging and evaluation: not measured, and not counted")
    if timing is not None and not timing.fixed_s:
        found.append("fixed time of a step: not measured, and not counted; it makes small models much slower")
    if timing is not None and timing.straggling_origin == "default":
        found.append(f"stragglers: not measured; a rank's steps vary by {timing.straggling:.0%} (hpclaunch's default)")
    return (*found, *_reading_assumptions(predictor, row), *_queue_assumptions(predictor.question))


def _queue_assumptions(question: Question) -> list[str]:
    """Return the assumption about the queue, if the site has one and its waits are not known."""
    if question.queue.waits or not question.case.site.scheduler_row.has_queue:
        return []
    why = f" ({question.queue.unknown})" if question.queue.unknown else ""
    return [f"wait in the queue: not known{why}, and not counted"]


def _reading_assumptions(predictor: Predictor, row: PlanRow) -> list[str]:
    """Return the assumption about reading, if a node cannot hold the data set and nothing was measured.

    No site file gives the bandwidth of its file systems. A measured throughput includes the reading.
    """
    work, room = predictor.work, predictor.node.room
    if row.throughput is None or predictor.question.evidence.points:
        return []
    if room is not None and dataset_fits_node(work.dataset_bytes, room):
        return []
    if work.sample_bytes is None:
        return ["reading samples: not counted; the size of a sample is not known (training.sample_bytes)"]
    rate = row.throughput.samples_per_s.middle * work.sample_bytes / 1e9
    return [f"reading samples: not counted; it needs {rate:.2g} GB/s, and the file system's bandwidth is not known"]
