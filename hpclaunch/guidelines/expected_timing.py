"""What is known of a step's time before anything of the job is measured: priors, and the timing that follows."""

from __future__ import annotations

import math

from hpclaunch.core.records import record
from hpclaunch.guidelines.collectives import HOROVOD
from hpclaunch.guidelines.communication import MeasuredLink
from hpclaunch.guidelines.hardware import Compute
from hpclaunch.guidelines.intervals import Z90, deviation
from hpclaunch.guidelines.overhead import fixed_time
from hpclaunch.guidelines.reasoning import Reason
from hpclaunch.guidelines.throughput import Machine
from hpclaunch.guidelines.timing import QUANTITIES, Timing, independent

FACTOR_2 = math.log(2) / Z90
"""Standard deviation of the logarithm of a quantity whose 80 % interval is a factor of 2 to each side."""
BANDWIDTH_SPREAD = 0.7
"""Standard deviation of the logarithm of the all-reduce bandwidth around its default."""
UNKNOWN_SPREAD = math.log(10)
"""The same where the links are not known: the default may be ten times too high or too low."""
SLOWDOWN, SLOWDOWN_SPREAD = 0.05, 1.0
"""Slow-down of a step on several nodes: its median, and the standard deviation of its logarithm."""
STRAGGLING = 0.02
"""Relative standard deviation of a rank's step time if it was not measured; hpclaunch's own choice."""
FREE = 3.0
"""Standard deviation of the logarithm of the time of a sample if nothing but measurements tells it: a factor of 20
either way."""


@record
class Prior:
    """What is known of a job before it is measured: its fixed times, and how fast a node reads samples (bytes/s).

    ``compute``: the time of a sample; None: not known. ``fixed_spread``: the standard deviation of the logarithm of
    ``fixed_s``. ``launches_ahead``: as in ``Timing``.
    """

    compute: Compute | None = None
    fixed_s: float
    launches_ahead: bool = False
    fixed_spread: float
    joining_s: float = HOROVOD.joining_s
    reading: float = math.inf
    reasons: tuple[Reason, ...] = ()


_UNKNOWN = fixed_time(None)
NOTHING = Prior(fixed_s=_UNKNOWN.seconds, fixed_spread=deviation(_UNKNOWN.width))
"""The prior of a job of which nothing but its measurements is known."""


def default_timing(prior: Prior, machine: Machine) -> Timing:
    """Return the timing without measurements, from the defaults of GPU, framework and links, which name their sources.

    Raises ValueError if the time of a sample is not known.
    """
    if prior.compute is None:
        raise ValueError("without a measurement the time of a sample must be known")
    return timing_before(prior, machine, prior.compute.sample_s.middle)


def timing_before(prior: Prior, machine: Machine, per_sample_s: float) -> Timing:
    """Return the timing from what is known, with this time per sample: where a fit to measurements starts."""
    links, sample = machine.links, FREE
    if prior.compute is not None:
        sample = math.log(prior.compute.sample_s.high / prior.compute.sample_s.middle) / Z90
    spreads = {
        "per_sample_s": sample,
        "fixed_s": prior.fixed_spread,
        "joining_s": FACTOR_2,
        "inside": _bandwidth_spread(links.inside, known=links.gpu_gbytes_per_s is not None),
        "between": _bandwidth_spread(links.between, known=links.node_known),
        "slowdown": SLOWDOWN_SPREAD,
        "straggling": FACTOR_2,
        "reading": FACTOR_2,
        "dependent_s": BANDWIDTH_SPREAD if links.inside is None else links.inside.spread,
    }
    return Timing(
        per_sample_s=per_sample_s,
        fixed_s=prior.fixed_s,
        launches_ahead=prior.launches_ahead,
        joining_s=prior.joining_s,
        inside=links.inside_bytes_per_s,
        between=links.between_bytes_per_s,
        slowdown=SLOWDOWN,
        straggling=STRAGGLING,
        reading=prior.reading,
        dependent_s=links.dependent_s,
        deviations=tuple(spreads[name] for name in QUANTITIES),
        covariance=independent(),
        origin="default",
        reasons=((prior.compute.reason,) if prior.compute else ()) + prior.reasons,
    )


def _bandwidth_spread(measured: MeasuredLink | None, *, known: bool) -> float:
    """Return the standard deviation of the logarithm of a bandwidth: measured, from a known link, or assumed."""
    if measured is not None:
        return measured.spread
    return BANDWIDTH_SPREAD if known else UNKNOWN_SPREAD
