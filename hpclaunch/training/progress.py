"""Reports a training on rank 0: its schedule, the times of its steps, its epochs; it needs no framework."""

from __future__ import annotations

import time
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from hpclaunch.training.metrics import MetricsLog
from hpclaunch.training.monitoring import step_parts
from hpclaunch.training.optimization.learning_rate import Schedule
from hpclaunch.training.rank.world import World

FEWEST_STEPS = 10  # steps of an epoch that are needed to measure how much they vary


def report_warm_up(world: World, schedule: Schedule) -> None:
    """Print on rank 0, before training, that the warm-up of the settings has no effect, if that is so."""
    reason = schedule.why_no_warm_up()
    if reason and world.is_root:
        print(reason, flush=True)


def step_times(lengths: Sequence[float]) -> dict[str, float]:
    """Median of the steps (step_s, seconds) and their relative standard deviation; empty if there are too few steps.

    The deviation comes from the median absolute deviation, so that single slow steps (a check of the weights, a
    checkpoint) count little. Ranks wait for each other, so a step takes as long as on its slowest rank.
    """
    if len(lengths) < FEWEST_STEPS:
        return {}
    middle = float(np.median(lengths))
    spread = 1.4826 * float(np.median(np.abs(np.array(lengths) - middle))) / middle  # 1.4826: of a normal variable
    return {"step_s": round(middle, 6), "step_spread": round(spread, 5)}


class Epoch:
    """The progress of one epoch (from 0) of `steps` steps over `samples` samples of all ranks.

    first: the step at which it begins, above 0 if an earlier attempt made the others. exchange_s: returns the seconds
    in which the steps so far exchanged gradients, None if that is not measured.
    """

    def __init__(
        self,
        epoch: int,
        steps: int,
        samples: int,
        first: int = 0,
        exchange_s: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._epoch, self._samples = epoch, samples * (steps - first) / steps
        self._ends = [time.perf_counter()]
        self._waits = step_parts.Waits()
        self._parts = step_parts.Window(lambda: self._waits.seconds, exchange_s)

    def waited_for(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The same batches; how long the steps wait for them is part of the report."""
        return self._waits.of(batches)

    def step_ended(self) -> None:
        """Note that a step has ended; on a GPU, when its loss is known."""
        self._ends.append(time.perf_counter())
        self._parts.step_ended(len(self._ends))

    def report(
        self, world: World, log: MetricsLog, metrics: Mapping[str, float], validation_s: float | None = None
    ) -> None:
        """Write the line of the epoch to metrics.jsonl, and print it. A collective.

        metrics: the loss of the epoch first. validation_s: the seconds of the validation, which are none of the epoch;
        None: it was not validated.
        """
        seconds = time.perf_counter() - self._ends[0] - (validation_s or 0.0)
        rate = self._samples / seconds
        lengths = [end - begin for begin, end in zip(self._ends[1:], self._ends[2:])]  # the first step may compile
        line = {"images_per_s": round(rate, 1), "seconds": round(seconds, 3), **step_times(lengths)}
        parts = step_parts.gathered(world, self._parts.own())
        if validation_s is not None:
            line["validation_s"] = round(validation_s, 3)
        log.write("epoch", epoch=self._epoch + 1, **metrics, **line, **parts)
        if world.is_root:
            values = "  ".join("{} {:.4f}".format(name, value) for name, value in metrics.items())
            print("epoch {} {:.1f} s  {}  {:.0f} images/s".format(self._epoch + 1, seconds, values, rate), flush=True)


def mean_loss(world: World, losses: Sequence[float], counts: Sequence[int]) -> float:
    """The mean of a loss over all samples of all ranks, so that a last batch with fewer of them counts less.

    losses: this rank's, each the mean over a batch; counts: the samples of these batches. A collective.
    """
    own = sum(loss * count for loss, count in zip(losses, counts))
    sums = world.gather((own, sum(counts)))
    return float(sum(one for one, _ in sums) / sum(count for _, count in sums))
