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

    Least squares, in which a size counts by its time. The latency is not below zero, and the bandwidth at most ten
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
    """Return the latency and the time of a byte (above zero) with the least sum of (distance^2 / time).

    So a size counts by its time: the large ones tell the bandwidth, the small ones the latency.
    """
    unit, largest = max(seconds), max(sent)  # so that the sums below are of one order
    weights = [1 / math.sqrt(time / unit) for time in seconds]
    scaled = [bytes_ / largest * weight for bytes_, weight in zip(sent, weights, strict=True)]
    times = [time / unit * weight for time, weight in zip(seconds, weights, strict=True)]
    a, b, c = _dot(weights, weights), _dot(weights, scaled), _dot(scaled, scaled)
    right, other = _dot(weights, times), _dot(scaled, times)
    determinant = a * c - b * b
    latency = per_byte = 0.0
    if determinant > 0:
        latency, per_byte = (right * c - other * b) / determinant, (other * a - right * b) / determinant
    fastest = min(time / bytes_ for time, bytes_ in zip(seconds, sent, strict=True)) * largest / unit / BEYOND
    if latency <= 0:
        latency, per_byte = 0.0, other / c
    elif per_byte < fastest:
        latency, per_byte = max(0.0, (right - b * fastest) / a), fastest
    return latency * unit, per_byte * unit / largest


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(left * right for left, right in zip(one, other, strict=True))
