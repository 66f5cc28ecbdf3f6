"""The forecast: a frozen result that is shown, written as JSON, drawn as a chart, and used by ``submit``."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any, Literal

from hpclaunch.core.errors import Fault
from hpclaunch.core.records import record
from hpclaunch.guidelines.batch import Batch
from hpclaunch.guidelines.candidates import Candidate
from hpclaunch.guidelines.checkpoints import CheckpointAdvice
from hpclaunch.guidelines.efficiency import CriticalBatch, NoiseScale
from hpclaunch.guidelines.epochs import EpochsModel
from hpclaunch.guidelines.framework import Passed
from hpclaunch.guidelines.intervals import Interval
from hpclaunch.guidelines.memory import Memory
from hpclaunch.guidelines.parallelism import Parallelism
from hpclaunch.guidelines.reasoning import Reason
from hpclaunch.guidelines.rungs import RungName, RungRule
from hpclaunch.guidelines.throughput import Throughput
from hpclaunch.planner.amounts import Mfu
from hpclaunch.planner.job.recipe import Recipe

Trust = Literal["guess", "one node measured", "measured at scale"]
"""What a figure rests on: published figures alone, a measurement on one node, or one on several."""
RungVerdict = Literal["taken", "slower", "too large"]
"""What became of one way to hold a decoder."""


@record
class Headline:
    """One of the first five lines of a plan: a figure and its range in words and as numbers, and the mark of trust.

    ``name``: nodes, batch, rate, time or cost. ``number``, ``low`` and ``high`` are in ``unit``; None: not known.
    """

    name: str
    value: str
    range: str
    trust: Trust
    number: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = ""


@record
class StatisticalEfficiency:
    """What a larger global batch costs in epochs; all batches in samples, ``samples``: those of an epoch.

    ``base``: the batch of the job's own epochs and rate. ``bound``: the largest batch of an automatic choice.
    ``epochs_model``: epochs by batch, with the optimizer of this plan. ``critical``: what is known or presumed of
    B_crit.
    """

    samples: int
    base: int | None
    bound: int
    critical: CriticalBatch
    noise: NoiseScale | None
    epochs_model: EpochsModel


@record
class PlanRow:
    """One node count: its ranks, its batch, and its predicted throughput, time and cost, as far as they are known.

    ``obstacles``: why it is not possible, or not feasible. ``marginal``: what the last doubling of the ranks gained, 1
    if it at least halved the time, 1/2 if it gained nothing. ``trade_off``: of time and cost; smaller is better.
    ``whole_nodes``: no other job runs on them.
    """

    nodes: int
    ranks: int
    whole_nodes: bool = True
    batch: Batch | None = None
    throughput: Throughput | None = None
    candidate: Candidate | None = None
    marginal: float | None = None
    trade_off: float | None = None
    obstacles: tuple[str, ...] = ()


@record
class PlanSection:
    """A part of the reasoning: its title, the applied rules, the declined alternatives, and remarks."""

    title: str
    reasons: tuple[Reason, ...] = ()
    declined: tuple[Passed, ...] = ()
    remarks: tuple[str, ...] = ()


@record
class Split:
    """A model that is split over GPUs: ``gpus`` GPUs hold one of ``replicas``; layout of the ranks, and memory.

    ``tensor_parallel`` of them share each layer, in ``pipeline_stages`` stages. ``communication_s``: seconds per step
    inside a replica; ``communication_guessed``: the layers are not known, and this is an approximate upper bound.
    ``dependent_s``: of it, the latency of each all-reduce; ``communication_source``: where these figures come from.
    """

    gpus: int
    tensor_parallel: int
    pipeline_stages: int
    replicas: int
    layout: str
    memory: Memory
    communication_s: float
    communication_guessed: bool
    dependent_s: float
    communication_source: str


@record
class Rung:
    """One rung of the ladder for a job at a site; memory is that of a GPU.

    ``nodes`` of ``node_type`` are the fewest that hold it (the typed ones, if there are any); ``gpus`` hold a replica.
    ``batch``: samples of a replica's micro-batch. ``step_s`` and ``epoch_s``: predicted seconds of a step and of an
    epoch on these nodes; ``cost``: that of an epoch, in the site's unit (None: not known). ``settings``: the parameters
    that take it. ``why``: its verdict in words. ``rule``: its formulas and their source.
    """

    name: RungName
    verdict: Literal["taken", "not needed", "too large", "not possible"]
    why: str
    rule: RungRule
    node_type: str = ""
    nodes: int = 0
    gpus: int = 1
    batch: int = 0
    memory: Memory | None = None
    step_s: float | None = None
    epoch_s: float | None = None
    cost: float | None = None
    settings: tuple[tuple[str, str], ...] = ()


@record
class LayoutRung:
    """One way to hold a decoder on the chosen nodes: its fastest layout that fits, else the one that needs least.

    ``memory``: bytes of a GPU. ``verdict``: taken, slower or too large.
    """

    name: str
    layout: str
    micro_batch: int
    memory: float
    tokens_per_s: float
    verdict: RungVerdict


@record
class OwnProgram:
    """How a program of a person's own would train a decoder, where the job cannot, or is much slower (``why``).

    ``layout`` in words, and its parts: ``tensor`` x ``pipeline`` x ``context`` x ``data`` ranks (guidelines.layouts).
    ``batch_source``: what the batch is, in words.
    ``bubble``: the share of a step in which a pipeline's rank waits. ``memory`` and ``usable``: bytes of a GPU.
    ``utilization``: model FLOP utilization, of the ``peak`` of a ``device`` in 16 bits (TFLOP/s; if none is known, of
    its measured matrix product). ``rate``: of Adam, with its source. ``command``: how such a program is submitted.
    ``rungs``: the ways to hold the model there.
    """

    why: str
    layout: str
    tensor: int
    pipeline: int
    context: int
    data: int
    experts: int
    sharded: str
    recompute: bool
    micro_batch: int
    micro_batches: int
    batch_source: str
    bubble: float
    memory: float
    usable: float
    tokens_per_s: Interval
    tokens_per_step: float
    tokens_in_all: float
    utilization: Interval
    peak: float
    device: str
    rate: float
    rate_source: str
    command: str
    rungs: tuple[LayoutRung, ...] = ()


@record
class ProgramMeasured:
    """A program of which only measured points are known: ``unit`` is what its rates count.

    ``own_batch``: its batch is not known. ``amount``: what time and cost are for, in the unit; ``amount_typed``: it was
    typed, else it is an hour of the fewest nodes.
    """

    unit: str
    own_batch: bool
    amount: float
    amount_typed: bool


@record
class Forecast:
    """The plan of a job at a site.

    ``nodes``: the node count to submit with; ``typed``: the request or the job gives it. ``ranks_per_node``: those of a
    part of a shared node; None: as the request, the job or the site has it. ``known``: the model's figures are known;
    if not, the count follows the guidelines' cap alone. ``settings``: parameters to set, as in the ``recipe``.
    ``measuring``: the command that measures the job first, if nothing was measured. ``jobs``: the jobs of a chain that
    are enough in nine of ten cases, 1 if a single job is; the chosen row has the expected ones.
    ``precision``: the recommended number format; ``precision_words``: one line if the job uses
    another. ``measured``: the measurements it is based on; ``links``: the measured all-reduces among
    them; ``queue``: the queue wait, if known. ``checkpoints``: how often to save, if what saving takes was measured.
    ``notes``: where evidence overrides a rule of thumb, or advice is not followed. ``refusals``: why the request is not
    feasible. ``headlines``: the first five lines.
    ``gpus_per_node``: the GPUs of a node that compute; 0 where the ranks use CPUs.
    ``efficiency``: what a larger batch costs. ``trust``: the mark of throughput, time and cost. ``ladder``: the ways to
    make the model fit, in the order in which they are tried; empty if its figures, or the memory of a rank, are not
    known. ``rung_settings``: the parameters that the taken one sets, among ``settings``. ``program``: the figures are
    those of a program of a person's own, and ``command`` submits that. ``tokens_per_sample``: of a decoder; 0: none.
    ``mfu``: how much of the GPUs' peak the training is expected to use (None: not known). ``measured_program``: only
    measured points of the program are known.
    """

    job: str
    site: str
    node_type: str
    nodes: int
    typed: bool
    known: bool
    summary: str
    parallelism: Parallelism | None = None
    split: Split | None = None
    ladder: tuple[Rung, ...] = ()
    rung_settings: tuple[tuple[str, str], ...] = ()
    ranks_per_node: int | None = None
    rows: tuple[PlanRow, ...] = ()
    unit: str = "node-hour"
    settings: tuple[tuple[str, str], ...] = ()
    recipe: Recipe | None = None
    command: str = ""
    measuring: str = ""
    jobs: int = 1
    sections: tuple[PlanSection, ...] = ()
    precision: str = ""
    precision_words: str = ""
    measured: str = ""
    links: tuple[str, ...] = ()
    queue: str = ""
    assumed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    refusals: tuple[Fault, ...] = ()
    headlines: tuple[Headline, ...] = ()
    gpus_per_node: int = 0
    efficiency: StatisticalEfficiency | None = None
    batch_alone: int | None = None
    checkpoints: CheckpointAdvice | None = None
    trust: Trust = "guess"
    program: OwnProgram | None = None
    tokens_per_sample: int = 0
    mfu: Mfu | None = None
    measured_program: ProgramMeasured | None = None

    @property
    def feasible(self) -> bool:
        """Whether there is no reason to refuse it."""
        return not self.refusals

    @property
    def rung(self) -> Rung | None:
        """The rung that is taken."""
        return next((rung for rung in self.ladder if rung.verdict == "taken"), None)

    @property
    def device(self) -> str:
        """What holds a model, or a part of it, in words."""
        return "GPU" if self.gpus_per_node else "rank"

    @property
    def climbs(self) -> bool:
        """Whether the model needs more than the first rung."""
        return bool(self.ladder) and self.ladder[0].verdict != "taken"

    @property
    def chosen(self) -> PlanRow | None:
        """The row of the chosen node count; that of the whole node unless a part of one is chosen."""
        ranks = self.ranks_per_node
        found = [row for row in self.rows if row.nodes == self.nodes and ranks in (None, row.ranks)]
        return found[-1] if found else None

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers; a number that is not finite, such as no B_crit, is None."""
        return {**{name: _json_value(value) for name, value in asdict(self).items()}, "feasible": self.feasible}


def _json_value(value: Any) -> Any:
    """Return the value without numbers that JSON does not know."""
    if isinstance(value, dict):
        return {name: _json_value(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
