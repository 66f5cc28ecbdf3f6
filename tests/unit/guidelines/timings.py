"""Timings and shapes for the tests of the step-time model."""

from __future__ import annotations

import math

from hpclaunch.guidelines.communication import Links
from hpclaunch.guidelines.throughput import Machine, Shape, Work
from hpclaunch.guidelines.timing import QUANTITIES, Timing, independent

MACHINE = Machine(links=Links(gpu_gbytes_per_s=300, node_gbytes_per_s=100))
WORK = Work(gradient_bytes=1e9)


def timing(slowdown: float = 0.0, straggling: float = 0.0, between: float = 10e9, **more: float) -> Timing:
    return Timing(
        **{"fixed_s": 0.0, "per_sample_s": 0.01, "reading": math.inf, **more},
        inside=240e9,
        between=between,
        slowdown=slowdown,
        straggling=straggling,
        deviations=(0.1,) * len(QUANTITIES),
        covariance=independent(),
        origin="profile",
    )


def shape(nodes: int = 1, ranks: int = 4, batch: float = 10, accumulation: float = 1) -> Shape:
    return Shape(nodes=nodes, ranks_per_node=ranks, per_rank=batch, accumulation=accumulation)
