"""How often to save: the interval that loses the least time, from what saving takes and how likely failures are; pure.

Failures are taken as independent and equally likely at any time (a Poisson process), so that a job of N nodes fails N
times as often as one node.
"""

from __future__ import annotations

import math

from hpclaunch.core.records import record
from hpclaunch.guidelines.reasoning import Number, Origin, Reason, positive

YOUNG = "Young: A first order approximation to the optimum checkpoint interval, CACM 17 (9), 1974"
DALY = "Daly: A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 22 (3), 2006"
DAY_S = 86_400.0
ASSUMED_NODE_MTBF_DAYS = 240.0
"""Used where a site tells no figure: hpclaunch's own assumption, of the order of 466 interruptions in 54 days on 16,384
GPUs in nodes of 8 (Grattafiori et al.: The Llama 3 Herd of Models, 2024, section 3.3.4)."""
ASSUMED = "if a node fails once in 240 days (assumed; the site file has no mtbf_days)"
RULE = "save every sqrt(2 d M) (1 + sqrt(d/2M)/3 + (d/2M)/9) - d seconds; d: one checkpoint, M: between failures"


def young_interval(save_s: float, mtbf_s: float) -> float:
    """Return the seconds of training between two checkpoints, sqrt(2 d M), to the first order. Source: ``YOUNG``.

    ``save_s`` (d): seconds that one checkpoint takes; ``mtbf_s`` (M): mean time between failures of the whole job.
    Raises ValueError unless both are above zero.
    """
    positive(save_s=save_s, mtbf_s=mtbf_s)
    return math.sqrt(2 * save_s * mtbf_s)


def daly_interval(save_s: float, mtbf_s: float) -> float:
    """Return the seconds of training between two checkpoints, to a higher order. Source: ``DALY``.

    It is sqrt(2 d M) (1 + sqrt(d / 2M) / 3 + (d / 2M) / 9) - d, and M if saving takes 2 M or longer. Arguments and
    errors as ``young_interval``.
    """
    first = young_interval(save_s, mtbf_s)
    if save_s >= 2 * mtbf_s:
        return mtbf_s
    ratio = save_s / (2 * mtbf_s)
    return first * (1 + math.sqrt(ratio) / 3 + ratio / 9) - save_s


def lost_share(interval_s: float, save_s: float, mtbf_s: float, restart_s: float = 0.0) -> float:
    """Return the time that is expected to be lost for a second of training: to saving, repeated steps and restarts.

    It is (M / t) e^(R/M) (e^((t + d)/M) - 1) - 1 with t = ``interval_s`` and R = ``restart_s``, and infinite where it
    overflows. Source: ``DALY``, its complete cost function. Raises ValueError unless all but R are above zero.
    """
    positive(interval_s=interval_s, save_s=save_s, mtbf_s=mtbf_s)
    try:
        again = math.exp(restart_s / mtbf_s) * math.expm1((interval_s + save_s) / mtbf_s)
    except OverflowError:
        return math.inf
    return mtbf_s / interval_s * again - 1


@record
class Saving:
    """What is known of the checkpoints of a job, in seconds.

    ``save_s``: one checkpoint. ``used_s``: between two of them now (None: not known). ``restart_s``: a new start, until
    it trains again.
    """

    save_s: float
    used_s: float | None = None
    restart_s: float = 0.0
    origin: Origin = "profile"


@record
class CheckpointAdvice:
    """How often to save, and what other intervals lose; in seconds, and in shares of the time of training.

    ``mtbf_s``: mean time between failures of the job; ``assumed``: it rests on an assumption, not on the site's figure.
    ``interval_s``: the best one, which loses ``lost``. ``used_lost``: what the used one loses (None: not known).
    """

    saving: Saving
    nodes: int
    mtbf_s: float
    assumed: bool
    interval_s: float
    lost: float
    used_lost: float | None

    @property
    def words(self) -> str:
        """The advice in one clause."""
        best = f"save every {duration(self.interval_s)}, which loses {100 * self.lost:.2g} % of the time"
        best += f" {ASSUMED}" if self.assumed else ""
        if self.saving.used_s is None or self.used_lost is None:
            return best
        used = "more than all of it" if self.used_lost > 1 else f"{100 * self.used_lost:.2g} %"
        return f"{best}; every {duration(self.saving.used_s)}, as now, loses {used}"


def advise_interval(saving: Saving, nodes: int, mtbf_days: float | None) -> CheckpointAdvice:
    """Return the best interval of a job of so many nodes, beside the used one. Source: ``DALY``.

    ``mtbf_days``: mean time between failures of a node in days; None: the site tells none, and one is assumed.
    """
    mtbf = (ASSUMED_NODE_MTBF_DAYS if mtbf_days is None else mtbf_days) * DAY_S / nodes
    best = daly_interval(saving.save_s, mtbf)
    used = saving.used_s
    return CheckpointAdvice(
        saving=saving,
        nodes=nodes,
        mtbf_s=mtbf,
        assumed=mtbf_days is None,
        interval_s=best,
        lost=lost_share(best, saving.save_s, mtbf, saving.restart_s),
        used_lost=lost_share(used, saving.save_s, mtbf, saving.restart_s) if used else None,
    )


def explain_interval(advice: CheckpointAdvice) -> Reason:
    """Return the rule with its numbers."""
    saving = advice.saving
    node_days = advice.mtbf_s * advice.nodes / DAY_S
    numbers = [
        Number(name="one checkpoint", value=saving.save_s, unit="s", origin=saving.origin),
        Number(name="days between failures of a node", value=node_days, origin="default" if advice.assumed else "site"),
        Number(name="nodes", value=advice.nodes, origin="given"),
        Number(name="between failures of the job", value=advice.mtbf_s, unit="s"),
        Number(name="a new start", value=saving.restart_s, unit="s", origin=saving.origin),
        Number(name="best interval", value=advice.interval_s, unit="s"),
        Number(name="lost with it", value=100 * advice.lost, unit="%"),
    ]
    if saving.used_s is not None and advice.used_lost is not None:
        numbers.append(Number(name="used interval", value=saving.used_s, unit="s"))
        numbers.append(Number(name="lost with the used one", value=100 * advice.used_lost, unit="%"))
    source = f"{DALY}; first order: {YOUNG}"
    return Reason(rule=RULE, numbers=tuple(numbers), verdict=advice.words, source=source)


def duration(seconds: float) -> str:
    """Return a time in its largest unit of which there are two or more: ``35 min``, ``2.4 h``."""
    for size, unit in ((DAY_S, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"
