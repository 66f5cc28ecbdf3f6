"""What nobody has said or measured of a plan, and what stands in its place, a line each; it decides nothing."""

from __future__ import annotations

from hpclaunch.guidelines.parallelism import dataset_fits_node
from hpclaunch.planner.prediction import Predictor
from hpclaunch.planner.strategy import traffic_of
from hpclaunch.planner.values import PlanRow


def assumed_of(predictor: Predictor, row: PlanRow, assumed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the lines for the chosen ``row``, after those (``assumed``) that were known before it was chosen."""
    timing, found, target = predictor.timing, list(assumed), predictor.question.case.request.target
    if timing is None:
        found.insert(0, f"speed of {predictor.node.device}: not known; hpclaunch profile {target} measures it")
    if not predictor.work.optimizer_said:
        found.append("optimizer: not said, or not known; memory and rates are those of Adam")
    if predictor.strategy.parallelism.gpus_per_replica > 1 and traffic_of(predictor.figures).guessed:
        found.append("layers of a split model: not known; every second kept value is said to the others, each way")
    if predictor.question.evidence.overhead_s is None:
        found.append("start-up, staging and evaluation: not measured, and not counted")
    if timing is not None and not timing.fixed_s:
        found.append("a step's fixed time: not measured, and not counted; it makes small models much slower")
    if timing is not None and timing.straggling_origin == "default":
        found.append(f"stragglers: not measured; a rank's steps vary by {timing.straggling:.0%} (hpclaunch's own)")
    return (*found, *_reading_assumptions(predictor, row))


def _reading_assumptions(predictor: Predictor, row: PlanRow) -> list[str]:
    """What the ranks would have to read, where a node cannot keep the data set and nothing was measured.

    No site file says what its file systems give; a measured throughput has waited for it.
    """
    work, room = predictor.work, predictor.node.room
    if row.throughput is None or predictor.question.evidence.points:
        return []
    if room is not None and dataset_fits_node(work.dataset_bytes, room):
        return []
    if work.sample_bytes is None:
        return ["reading samples: not waited for; how large one is, is not said (training.sample_bytes)"]
    rate = row.throughput.samples_per_s.middle * work.sample_bytes / 1e9
    return [f"reading samples: not waited for, at {rate:.2g} GB/s in all; what the file system gives is not known"]
