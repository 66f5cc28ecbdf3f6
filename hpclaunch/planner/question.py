"""What is asked of a forecast, and the trial of one node count against the site's limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from hpclaunch.core.errors import Fault
from hpclaunch.core.records import record
from hpclaunch.guidelines.batch import MOST_NODES
from hpclaunch.guidelines.calibration import Measured
from hpclaunch.guidelines.choice import HOUR, Bill, Objective
from hpclaunch.guidelines.efficiency import NoiseScale
from hpclaunch.guidelines.figures import ModelFigures
from hpclaunch.guidelines.reasoning import Reason
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.cost import cost_of
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.limits import longest_walltime
from hpclaunch.resolve.sizing import Sizing, sizing_of


@record
class Evidence:
    """What was measured of a job on a kind of node: throughputs, noise scale, seconds outside the steps of a run.

    ``origin``: in words, where it is from; ``sources``: every figure, which runs it is from, and runs not taken in.
    """

    points: tuple[Measured, ...] = ()
    noise: NoiseScale | None = None
    overhead_s: float | None = None
    origin: str = ""
    sources: tuple[str, ...] = ()


@record
class Queue:
    """``waits``: seconds before the start by nodes, empty where nobody knows; how it was found, and one line on it."""

    waits: Mapping[int, float] = field(default_factory=dict)
    reasons: tuple[Reason, ...] = ()
    words: str = ""

    def wait_s(self, nodes: int) -> float:
        """Return the wait of a count, of the next larger one that is known, or of the largest; 0: nobody knows."""
        known = sorted(self.waits)
        return self.waits[next((one for one in known if one >= nodes), known[-1])] if known else 0.0


@record
class Question:
    """A case, the objective, and what is known of the model, of earlier runs and of the queue.

    ``global_batch``: typed. ``figures``: None where nobody knows what the model needs, ``unknown``: why.
    """

    case: Case
    figures: ModelFigures | None
    unknown: str = ""
    evidence: Evidence = field(default_factory=Evidence)
    objective: Objective = field(default_factory=Objective)
    queue: Queue = field(default_factory=Queue)
    global_batch: int | None = None

    @property
    def typed_nodes(self) -> int | None:
        """Nodes as a person or the job said."""
        wanted = self.case.job.resources.nodes
        return self.case.request.nodes or (wanted if wanted != "auto" else None)


@record
class Trial:
    """One node count at the site: where it would go, what it costs, how long one job may run, what refuses it."""

    nodes: int
    sizing: Sizing
    bill: Bill
    faults: tuple[Fault, ...]

    @property
    def refused(self) -> tuple[str, ...]:
        """Every reason in a line of its own."""
        return tuple(f"{fault.what}; {fault.allowed}" if fault.allowed else fault.what for fault in self.faults)


def trials_of(question: Question, whole: int = 1) -> list[Trial]:
    """Return the trials of 1, 2, 4, … 64 nodes and of the most that the site takes below that; typed: of 1 and it.

    ``whole``: nodes of one replica, if it takes several; then 1, 2, 4, … replicas instead, up to 64 nodes.
    """
    typed = question.typed_nodes
    if typed is not None:
        return [trial_of(question, nodes) for nodes in sorted({1, typed})]
    if whole > 1:
        most = max(1, MOST_NODES // whole)
        return [trial_of(question, whole << bit) for bit in range(most.bit_length())]
    found = [trial_of(question, 1 << bit) for bit in range(MOST_NODES.bit_length())]
    largest = max((one.nodes for one in found if not one.faults), default=0)
    # The site's limit may lie between two powers of two: halve what is not known until it is found.
    best, taken, refused = None, largest, 2 * largest
    while refused - taken > 1 and largest < MOST_NODES:
        between = trial_of(question, (taken + refused) // 2)
        if between.faults:
            refused = between.nodes
        else:
            best, taken = between, between.nodes
    return sorted([*found, *([best] if best else [])], key=lambda one: one.nodes)


def trial_of(question: Question, nodes: int) -> Trial:
    """Return the trial of one node count. An account is not needed: it changes neither place nor price."""
    decisions, typed = Decisions(), question.case.request.walltime
    request = replace(question.case.request, nodes=nodes)
    sizing = sizing_of(replace(question.case, request=request, needs_account=False), decisions)
    cost = cost_of(question.case.site, sizing)
    walltime = sizing.placement.walltime
    limits = [longest_walltime(one.of(sizing.node_type), nodes)[0] for one in sizing.placement.limits]
    longest = min((limit for limit in limits if limit is not None), default=None)
    if typed is not None:
        longest = min(typed, longest or typed)
    per_hour = cost.amount / nodes / (walltime / HOUR) if cost and walltime else 1.0
    bill = Bill(per_node_hour=per_hour, unit=cost.unit if cost else "node-hour", walltime_s=longest)
    return Trial(nodes=nodes, sizing=sizing, bill=bill, faults=tuple(decisions.faults))
