"""Whether several ranks are faster than one process with the same global batch; it predicts no step."""

from __future__ import annotations

from hpclaunch.core.records import record
from hpclaunch.guidelines.reasoning import Number, Reason
from hpclaunch.guidelines.throughput import StepTime

HARDLY_FASTER = 1.2
"""The speed-up over one process below which a distributed run is hardly faster: what two ranks gain if a doubling is
just worth it (``choice.WORTHWHILE``)."""
SOURCE = (
    "Nair 2021, Why Parallelized Training Might Not be Working for You: four processes took 443 s where one took 73 s,"
    " with the same global batch"
)


@record
class Distribution:
    """A step of several ranks beside one of one process with the same global batch: ``ranks_s`` and ``one_s`` seconds.

    ``speed_up``: below 1, the ranks are slower. ``communication`` and ``fixed``: shares of the ranks' step that are
    communication, and that no batch moves (``StepTime.fixed_s``, a part of both computing and communication).
    """

    ranks_s: float
    one_s: float
    speed_up: float
    communication: float
    fixed: float
    reason: Reason

    @property
    def is_worth_it(self) -> bool:
        """Whether the ranks are more than hardly faster."""
        return self.speed_up >= HARDLY_FASTER


def verdict_of(speed_up: float) -> str:
    """Return what a speed-up over one process means.

    >>> verdict_of(0.9), verdict_of(1.1), verdict_of(3.5)
    ('slower', 'hardly faster', 'faster')
    """
    if speed_up < 1:
        return "slower"
    return "hardly faster" if speed_up < HARDLY_FASTER else "faster"


def compare_with_one(ranks: StepTime, one: StepTime) -> Distribution:
    """Return how a step of several ranks compares with one of one process with the same global batch.

    Waiting for samples does not count: it is the same problem on one process. Source: ``SOURCE``; the limit is
    hpclaunch's own.
    """
    speed_up = one.busy_s / ranks.busy_s
    communication, fixed = ranks.communication_s / ranks.busy_s, ranks.fixed_s / ranks.busy_s
    return Distribution(
        ranks_s=ranks.busy_s,
        one_s=one.busy_s,
        speed_up=speed_up,
        communication=communication,
        fixed=fixed,
        reason=Reason(
            rule=f"several ranks should be at least {HARDLY_FASTER:g} times as fast as one process with their batch",
            numbers=(
                Number(name="step of the ranks", value=ranks.busy_s, unit="s"),
                Number(name="step of one process", value=one.busy_s, unit="s"),
                Number(name="speed-up", value=speed_up),
                Number(name="communication", value=communication),
                Number(name="fixed time", value=fixed),
            ),
            verdict=verdict_of(speed_up),
            source=SOURCE,
        ),
    )
