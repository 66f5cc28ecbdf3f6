"""The question that a forecast answers, and the trial of one node count against the site's limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from hpclaunch.core.errors import Fault
from hpclaunch.core.records import record
from hpclaunch.core.spec import JAX, PYTORCH
from hpclaunch.guidelines.batch import MOST_NODES
from hpclaunch.guidelines.candidates import LONGEST_S, Bill
from hpclaunch.guidelines.choice import Objective
from hpclaunch.guidelines.communication import MeasuredLink
from hpclaunch.guidelines.efficiency import NoiseScale
from hpclaunch.guidelines.figures import ModelFigures
from hpclaunch.guidelines.hardware import MeasuredDevice
from hpclaunch.guidelines.reasoning import Reason
from hpclaunch.planner.job.workload import Workload
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.environment.framework import stated_framework, uses_horovod
from hpclaunch.resolve.nodes.cost import Price, price_of
from hpclaunch.resolve.nodes.limits import longest_walltime
from hpclaunch.resolve.nodes.sizing import Sizing, longest_job_on, sizing_of

if TYPE_CHECKING:
    from hpclaunch.guidelines.calibration import Measured

MOST_TRIED = 4096
"""The most nodes of a search for a node count that meets a deadline."""


@record
class Evidence:
    """Measurements of a job on a node type: throughputs, noise scale, seconds of a run outside its steps.

    ``origin``: where they come from, in words. ``sources``: every figure with its runs, and the runs not used.
    ``links``, ``devices``: all-reduces and devices that were measured on the node type; they hold for every job.
    ``save_s``: seconds of a checkpoint. ``alone``: throughputs of one process that has a node to itself
    (``resolve.nodes.sizing.one_process_on``).
    """

    points: tuple[Measured, ...] = ()
    noise: NoiseScale | None = None
    overhead_s: float | None = None
    origin: str = ""
    sources: tuple[str, ...] = ()
    links: tuple[MeasuredLink, ...] = ()
    devices: tuple[MeasuredDevice, ...] = ()
    save_s: float | None = None
    alone: tuple[Measured, ...] = ()


def evidence_for_work(evidence: Evidence, work: Workload) -> Evidence:
    """Return the measurements that count for a job as it divides its model: only the links, if none divides it so."""
    own = all(point.ranks_per_replica == work.gpus_per_replica for point in evidence.points)
    return evidence if own else Evidence(links=evidence.links, devices=evidence.devices)


@record
class Queue:
    """``waits``: queue wait in seconds by node count, empty if not known; ``reasons`` and one line in ``words``.

    ``unknown``: why nothing is known, in words.
    """

    waits: Mapping[int, float] = field(default_factory=dict)
    reasons: tuple[Reason, ...] = ()
    words: str = ""
    unknown: str = ""

    def wait_s(self, nodes: int) -> float:
        """Return the wait (s) of a node count: that of the next larger known one, else of the largest; else 0."""
        known = sorted(self.waits)
        return self.waits[next((larger for larger in known if larger >= nodes), known[-1])] if known else 0.0


@record
class Question:
    """A case, the objective, and what is known of the model, of earlier runs and of the queue.

    ``global_batch`` is the typed one. ``figures`` is None if the model's figures are not known; ``unknown`` is why.
    ``own_program``: a decoder that the job cannot train, or only slowly, is planned for a program of one's own.
    """

    case: Case
    figures: ModelFigures | None
    unknown: str = ""
    evidence: Evidence = field(default_factory=Evidence)
    objective: Objective = field(default_factory=Objective)
    queue: Queue = field(default_factory=Queue)
    global_batch: int | None = None
    own_program: bool = True

    @property
    def typed_nodes(self) -> int | None:
        """The node count that the request or the job gives, or None."""
        wanted = self.case.job.resources.nodes
        return self.case.request.nodes or (wanted if wanted != "auto" else None)

    @property
    def calls_nccl(self) -> bool:
        """Whether the ranks reduce gradients as PyTorch and JAX do, and not through Horovod."""
        return stated_framework(self.case)[1] in (PYTORCH, JAX) and not uses_horovod(self.case)


@record
class Trial:
    """One node count at the site: its placement, its price, the longest job, and the reasons to refuse it.

    A trial may also be a part of one node: some of its GPUs.
    """

    nodes: int
    sizing: Sizing
    bill: Bill
    faults: tuple[Fault, ...]

    @property
    def ranks_per_node(self) -> int:
        """The ranks of each node."""
        return self.sizing.layout.tasks_per_node

    @property
    def refused(self) -> tuple[str, ...]:
        """Every reason to refuse it, in one line each."""
        return tuple(f"{fault.what}; {fault.allowed}" if fault.allowed else fault.what for fault in self.faults)


def trials_of(question: Question, whole: int = 1) -> list[Trial]:
    """Return the trials of 1, 2, 4, … 64 nodes, and of the site's largest node count if that lies between.

    If a node count is typed, the trials are those of 1 node and of that count. ``whole``: nodes of one replica, if it
    needs several; then the trials are those of 1, 2, 4, … replicas, up to 64 nodes.
    """
    typed = question.typed_nodes
    if typed is not None:
        return [trial_of(question, nodes) for nodes in sorted({1, typed})]
    if whole > 1:
        most = max(1, MOST_NODES // whole)
        return [trial_of(question, whole << bit) for bit in range(most.bit_length())]
    doublings = [trial_of(question, 1 << bit) for bit in range(MOST_NODES.bit_length())]
    largest = max((trial.nodes for trial in doublings if not trial.faults), default=0)
    # The site's limit may lie between two powers of two. A binary search finds it.
    best, taken, refused = None, largest, 2 * largest
    while refused - taken > 1 and largest < MOST_NODES:
        between = trial_of(question, (taken + refused) // 2)
        if between.faults:
            refused = between.nodes
        else:
            best, taken = between, between.nodes
    return sorted([*doublings, *([best] if best else [])], key=lambda trial: trial.nodes)


def counts_between(question: Question, whole: int, fewer: int, more: int) -> list[Trial]:
    """Return the trials of all replicas, of ``whole`` nodes each, between two node counts."""
    counts = range(fewer // whole * whole + whole, more, whole)
    return [trial for trial in (trial_of(question, nodes) for nodes in counts) if not trial.faults]


def counts_beyond(question: Question, whole: int, nodes: int = MOST_NODES) -> Iterator[Trial]:
    """Yield the trials of more ``nodes``, each half as large again, up to what the site accepts."""
    replicas = max(1, nodes // whole)
    while True:
        replicas += max(1, replicas // 2)
        trial = trial_of(question, whole * replicas)
        if trial.faults or trial.nodes > MOST_TRIED:
            return
        yield trial


def parts_of_a_node(question: Question, whole: Trial, *, every: bool = False) -> list[Trial]:
    """Return the trials of 1, 2, 4, … GPUs of one node, or of ``every`` number; none if the layout is typed.

    Where the site shares nodes among jobs, they cost less. Elsewhere they may still be faster, because the ranks of
    small models wait for each other. ``whole``: the trial of one whole node.
    """
    if question.typed_nodes is not None or whole.nodes > 1:
        return []
    return parts_of_nodes(question, whole, every=every)


def parts_of_nodes(question: Question, whole: Trial, *, every: bool = False) -> list[Trial]:
    """Return the trials of 1, 2, 4, … GPUs of each node of a trial, or of ``every`` number; none if it is typed."""
    request, wants, layout = question.case.request, question.case.job.resources, whole.sizing.layout
    typed = (request.tasks_per_node, request.gpus_per_node, wants.tasks_per_node, wants.gpus_per_node)
    if any(number is not None for number in typed) or not layout.gpus_per_node or layout.stand_in_gpus:
        return []
    counts = [ranks for ranks in range(1, layout.tasks_per_node) if every or ranks.bit_count() == 1]
    trials = [trial_of(question_for(question, ranks), whole.nodes) for ranks in counts]
    return [trial for trial in trials if not trial.faults]


def question_for(question: Question, ranks_per_node: int | None) -> Question:
    """Return the question with these ranks of each node as if they were typed; None: unchanged."""
    if ranks_per_node is None:
        return question
    request = replace(question.case.request, tasks_per_node=ranks_per_node)
    return replace(question, case=replace(question.case, request=request))


def trial_of(question: Question, nodes: int) -> Trial:
    """Return the trial of one node count. It needs no account, which changes neither placement nor price."""
    decisions, typed = Decisions(), question.case.request.walltime
    request = replace(question.case.request, nodes=nodes)
    sizing = sizing_of(replace(question.case, request=request, needs_account=False), decisions)
    limits = [longest_walltime(place.of(sizing.node_type), nodes)[0] for place in sizing.placement.limits]
    longest = min((limit for limit in limits if limit is not None), default=None)
    if typed is not None:
        longest = min(typed, longest or typed)
    elif longest is not None:
        longest = max(longest, longest_job_on(replace(question.case, request=request), sizing, LONGEST_S))
    bill = _bill_of(price_of(question.case.site, sizing), nodes, longest)
    most = sizing.restart_request.most
    is_known = bool(most) or question.case.request.restarts is not None  # typed 0: it must end in one job
    bill = replace(bill, most_jobs=most + 1 if is_known else None)
    return Trial(nodes=nodes, sizing=sizing, bill=bill, faults=tuple(decisions.faults))


def _bill_of(price: Price | None, nodes: int, longest: float | None) -> Bill:
    if price is None:
        return Bill(walltime_s=longest, notes=("the site's charging is not known",))
    return Bill(
        per_node_hour=price.per_hour / nodes,
        unit=price.unit,
        walltime_s=longest,
        shortest_s=price.shortest_s,
        least=price.least,
        notes=price.notes,
    )


SHARD_WEIGHTS = "shard_weights"
"""The parameter with which ranks share weights and gradients, which no plan predicts."""


def shards_weights(question: Question) -> bool:
    """Whether the ranks share the weights, as the job or the request says."""
    row = question.case.job.parameters.get(SHARD_WEIGHTS)
    if row is None:
        return False
    typed = dict(question.case.request.settings).get(SHARD_WEIGHTS)
    try:
        return (row.default if typed is None else row.parse(typed)) is True
    except ValueError:  # resolve reports it
        return False
