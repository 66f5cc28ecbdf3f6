"""What a step's time depends on, and how certain each of these quantities is; it computes no step."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

from hpclaunch.core.records import record
from hpclaunch.guidelines.communication import DEPENDENT_S
from hpclaunch.guidelines.reasoning import Origin, Reason

Quantity = Literal[
    "per_sample_s",
    "fixed_s",
    "joining_s",
    "inside",
    "between",
    "slowdown",
    "straggling",
    "reading",
    "dependent_s",
]
QUANTITIES: tuple[Quantity, ...] = Quantity.__args__  # type: ignore[attr-defined]
"""The uncertain quantities of a timing, in the order of its deviations and of its covariance."""

UNMEASURED_ERROR = 0.3
"""Standard deviation of the logarithm of a step's time that no quantity explains, if nothing was measured: the program,
the framework's version, the optimizer (LAMB takes 34 ms where Adam takes 19). In sight of notebooks 3 and 4."""
MODEL_ERROR = 0.03
"""The same after a measurement."""
OF_A_DOUBLING = 0.03
"""The same for every doubling of the ranks beyond what was measured."""
OF_A_SLOWDOWN = 0.3
"""The same, relative to the part of a step that is slow-down: whether this part stays or grows with the ranks is not
known. If it grows with sqrt(ln p), like the largest of p random delays, it is 1.41 times as long on 4 ranks as on 2."""
OF_A_BATCH = 0.03
"""The same for every doubling or halving of the batch per rank from the nearest measured one."""


@record
class Timing:
    """What a step's time depends on: a micro-batch takes ``fixed_s`` + b x ``per_sample_s``; rates in bytes/s.

    ``launches_ahead``: the host starts the operations of a micro-batch one by one, while the GPU computes those before:
    then it takes the longer of both.
    ``joining_s``: fixed seconds of every step of several ranks (Horovod's own). ``inside`` and ``between``: bandwidth
    of an all-reduce in a node and among nodes. ``slowdown``: relative, of every step on more than one node.
    ``straggling``: relative standard deviation of a rank's step time, with its origin. ``reading``: bytes/s of samples
    that a node reads and decodes. ``dependent_s``: seconds of a small all-reduce that depends on the one before, among
    the ranks that share a model.

    ``deviations``: standard deviation of the logarithm of every quantity (in the order of ``QUANTITIES``) before
    anything was measured. ``covariance``: what is left of them after it, in units of these deviations.
    ``most_ranks`` and ``batches``: what was measured (0 and none: nothing). ``strain``: how far the measured points are
    from this timing (relative), if that is more than their own error. ``rivals``: other timings that explain the same
    points, each with its probability: whether the host or the GPU is the slower one does not show with one batch.
    """

    per_sample_s: float
    fixed_s: float
    launches_ahead: bool = False
    joining_s: float = 0.0
    inside: float
    between: float
    slowdown: float = 0.0
    straggling: float
    straggling_origin: Origin = "default"
    reading: float = math.inf
    dependent_s: float = DEPENDENT_S
    deviations: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    most_ranks: int = 0
    batches: tuple[float, ...] = ()
    strain: float = 0.0
    rivals: tuple[tuple[float, Timing], ...] = ()
    origin: Origin
    reasons: tuple[Reason, ...] = ()

    def micro_batch_s(self, per_rank: float) -> float:
        """Return the seconds of one micro-batch, forward and backward."""
        computing = self.per_sample_s * per_rank
        return max(self.fixed_s, computing) if self.launches_ahead else self.fixed_s + computing

    def fixed_of_micro_batch_s(self, per_rank: float) -> float:
        """Return the seconds of one micro-batch that a smaller batch would not shorten."""
        is_hidden = self.launches_ahead and self.per_sample_s * per_rank > self.fixed_s
        return 0.0 if is_hidden else self.fixed_s

    def moved(self, index: int, deviations: float) -> Timing:
        """Return the timing with one quantity moved by so many of its standard deviations (of its logarithm)."""
        name = QUANTITIES[index]
        return replace(self, **{name: getattr(self, name) * math.exp(deviations * self.deviations[index])})

    def model_error(self, ranks: int, per_rank: float) -> float:
        """Return the standard deviation of the logarithm of a step's time that comes from the model itself.

        It grows with the doublings of the ranks beyond the measured ones, more if the step slows down on several nodes,
        and with the change of the batch per rank.
        """
        if not self.most_ranks:
            return UNMEASURED_ERROR
        doublings = max(0.0, math.log2(ranks / self.most_ranks))
        changes = min(abs(math.log2(per_rank / batch)) for batch in self.batches)
        growth = OF_A_SLOWDOWN * self.slowdown / (1 + self.slowdown)
        return math.hypot(MODEL_ERROR, OF_A_DOUBLING * doublings, growth * doublings, OF_A_BATCH * changes, self.strain)


def independent() -> tuple[tuple[float, ...], ...]:
    """Return the covariance of quantities of which nothing was measured, in units of their deviations."""
    size = len(QUANTITIES)
    return tuple(tuple(float(row == column) for column in range(size)) for row in range(size))
