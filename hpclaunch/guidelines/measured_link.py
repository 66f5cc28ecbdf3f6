"""Fits latency and bandwidth to the measured times of all-reduces; it measures nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hpclaunch.core.records import record
from hpclaunch.guidelines.communication import Group, MeasuredLink, ring_bytes
from hpclaunch.guidelines.reasoning import positive

SINGLE_SPREAD = 0.3
"""Standard deviation of the logarithm of the bandwidth that a training reaches, around that of single all-reduces: a
step has several, which begin with copies into Horovod's buffer and share the node with the computing. hpclaunch's own
number."""

BEYOND = 10.0
"""The fitted bandwidth relative to the best bus bandwidth of a single size: at most this."""


@record
class TimedSize:
    """The time of one all-reduce (s) of a size (bytes)."""

    size: int
    seconds: float

    def __post_init__(self) -> None:
        positive(size=self.size, seconds=self.seconds)


def bus_bandwidth(timed: TimedSize, ranks: int) -> float:
    """Return the bytes/s that every rank sends in a ring: size / time x 2 (p - 1) / p.

    It is comparable with the bandwidth of a link, for any number of ranks. Source: nccl-tests PERFORMANCE.md (busbw).
    """
    return ring_bytes(timed.size, ranks) / timed.seconds


def fitted_link(times: Sequence[TimedSize], group: Group, *, on_gpus: bool = False, origin: str = "") -> MeasuredLink:
    """Return latency and bandwidth of an all-reduce: time = latency + 2 (p - 1) / p x size / bandwidth.

    Relative least squares: every size counts the same. The latency is not below zero, and the bandwidth at most ten
    times the best of a single size: times that hardly grow with the size do not tell it. Raises ValueError for one
    rank, or fewer than two sizes. Source: the model of nccl-tests PERFORMANCE.md; the fit is hpclaunch's own.
    """
    if group.ranks < 2 or len({timed.size for timed in times}) < 2:
        raise ValueError("a fit needs several ranks and several sizes")
    sent = [ring_bytes(timed.size, group.ranks) for timed in times]
    seconds = [timed.seconds for timed in times]
    latency, per_byte = _fitted_line(sent, seconds)
    misfits = [math.log((latency + bytes_ * per_byte) / time) for bytes_, time in zip(sent, seconds, strict=True)]
    rms = math.sqrt(sum(misfit**2 for misfit in misfits) / len(misfits))
    return MeasuredLink(
        group=group,
        latency_s=latency,
        bytes_per_s=1 / per_byte,
        spread=math.hypot(SINGLE_SPREAD, rms),
        on_gpus=on_gpus,
        origin=origin,
    )


def _fitted_line(sent: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
    """Return the latency and the time of a byte (above zero) with the least squares of relative distances."""
    ones = [1 / time for time in seconds]
    rates = [bytes_ / time for bytes_, time in zip(sent, seconds, strict=True)]
    largest = max(rates)
    scaled = [rate / largest for rate in rates]  # so that the sums below are of one order
    fixed = [one / max(ones) for one in ones]
    a, b, c = _dot(fixed, fixed), _dot(fixed, scaled), _dot(scaled, scaled)
    right, other = sum(fixed), sum(scaled)
    determinant = a * c - b * b
    latency = per_byte = 0.0
    if determinant > 0:
        latency, per_byte = (right * c - other * b) / determinant, (other * a - right * b) / determinant
    if latency <= 0:
        latency, per_byte = 0.0, other / c
    elif per_byte < 1 / BEYOND:
        latency, per_byte = (right - b / BEYOND) / a, 1 / BEYOND
    return latency / max(ones), per_byte / largest


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(left * right for left, right in zip(one, other, strict=True))
