"""Predicts throughput, time and cost of a trial with a batch; it chooses none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hpclaunch.core.records import record
from hpclaunch.core.spec_parts import PredictedRate
from hpclaunch.guidelines.batch import (
    MOST_NODES,
    Batch,
    BatchCap,
    batch_cap,
    possible_batches,
    smallest_efficient_batch,
)
from hpclaunch.guidelines.candidates import Candidate, TrainingLength, candidate
from hpclaunch.guidelines.expected_timing import default_timing
from hpclaunch.guidelines.figures import ModelFigures
from hpclaunch.guidelines.intervals import Interval, spread
from hpclaunch.guidelines.memory import GRADIENT_BYTES
from hpclaunch.guidelines.published import TaskFacts
from hpclaunch.guidelines.throughput import Machine, Shape, Throughput, step_time, throughput
from hpclaunch.guidelines.throughput import Work as Moved
from hpclaunch.guidelines.timing import Timing
from hpclaunch.planner.fitting.fit import Strategy, strategy_of
from hpclaunch.planner.fitting.machine import NodeModel, node_for, share_of_node
from hpclaunch.planner.job.epochs import facts_of, known_batches, optimizer_of, run_epochs
from hpclaunch.planner.job.question import Question, Trial, evidence_for_work
from hpclaunch.planner.job.workload import Workload
from hpclaunch.planner.speed.prior import nodes_that_keep, overhead_of, prior_of, reading_on
from hpclaunch.resolve.nodes.sizing import Sizing
from hpclaunch.resolve.program.recipes import ENOUGH_SAMPLES

TWO_BATCHES = 2
"""Measured batch sizes that separate a step's fixed time from its time per sample."""
SMALLEST = ENOUGH_SAMPLES
"""The fewest samples per rank that are advised, if a step's fixed time is not measured.

It is hpclaunch's own number for the guidelines' "make sure the local batch size is not too small".
"""


@record
class Predictor:
    """Everything that does not depend on the node count; ``timing`` is None if the speed is not known."""

    question: Question
    work: Workload
    node: NodeModel
    figures: ModelFigures
    strategy: Strategy
    cap: BatchCap
    facts: TaskFacts
    timing: Timing | None

    @property
    def smallest(self) -> int:
        """The smallest batch per rank that is advised.

        It is advice, and no limit. It is lower for models whose few samples are work enough. A model that is too small
        for 32 samples to be enough gets no higher one: the time of its steps shows what more ranks gain.
        """
        floor = min(SMALLEST, self.work.per_rank or SMALLEST)
        if self.timing is None or not self.timing.fixed_s:
            return floor
        timing = self.timing
        enough = smallest_efficient_batch(timing.fixed_s, timing.per_sample_s, launches_ahead=timing.launches_ahead)
        return min(floor, enough)

    def length(self, nodes: int, batch: Batch, samples_per_s: float) -> TrainingLength:
        """Return the length of the job's training with a batch, with what it does outside its steps."""
        work, epoch_s = self.work, self.work.samples / samples_per_s
        epochs, optimizer = run_epochs(work, batch.total, self.facts), optimizer_of(work, batch.total, self.facts)
        if optimizer.changed:  # its state is saved
            work = replace(work, optimizer=optimizer.name)
        overhead = overhead_of(self.question, work, nodes, epoch_s)
        return TrainingLength(epochs=epochs.interval, samples=work.samples, overhead=overhead)

    @property
    def own_batch(self) -> bool:
        """Whether the job's own batch per rank is used: because it, or the node count, was typed."""
        typed = not self.work.typed.isdisjoint(("batch_size_per_rank", "accumulation"))
        return typed or self.question.typed_nodes is not None

    def throughput(self, trial: Trial, batch: Batch) -> Throughput:
        """Return the throughput of a trial."""
        shape, timing = self._shape(trial, batch), self._timing_of(trial, batch)
        return throughput(shape, self.moved, Machine(links=self.node.links), timing, self.single_rate())

    def expected_rate(self, trial: Trial, batch: Batch) -> float:
        """Return the samples/s of a trial, without a range."""
        shape, timing = self._shape(trial, batch), self._timing_of(trial, batch)
        return shape.samples / step_time(shape, self.moved, Machine(links=self.node.links), timing).total_s

    def _shape(self, trial: Trial, batch: Batch) -> Shape:
        used = self._used_nodes(trial, batch)
        return Shape(
            nodes=used,
            ranks_per_node=max(1, batch.replicas // used),
            per_rank=batch.per_rank,
            accumulation=batch.accumulation,
        )

    def _used_nodes(self, trial: Trial, batch: Batch) -> int:
        """Return the nodes of a trial that hold a replica, or a part of one."""
        gpus = self.strategy.gpus
        inside = trial.ranks_per_node // gpus if gpus <= trial.ranks_per_node else 1
        return min(trial.nodes, math.ceil(batch.replicas / inside))

    def _timing_of(self, trial: Trial, batch: Batch) -> Timing:
        share = share_of_node(self.question.case.node(trial.sizing.node_type), trial.sizing.layout)
        return self.timing_on(self._used_nodes(trial, batch), share)

    def timing_on(self, nodes: int, share: float = 1.0) -> Timing:
        """Return the timing on so many nodes: fewer hold less of the data set, and read the rest again and again.

        ``share``: the part of each node that the job has; with it, it has this part of the cores that read.
        """
        assert self.timing is not None
        if self.timing.most_ranks:
            return self.timing  # a measured throughput contains the reading
        return replace(self.timing, reading=share * reading_on(nodes, self.question, self.work, self.node))

    def single_rate(self) -> float | None:
        """Return the samples/s of one rank alone at its own best batch; None if a replica needs several GPUs.

        It has its share of a node whose memory holds its part of the data set, as with the most nodes. Its best batch
        is the largest that its memory and the cap allow, or the job's own if that is larger.
        """
        if self.is_split:
            return None
        shape = Shape(nodes=1, ranks_per_node=1, per_rank=self.best_batch_alone)
        timing = self.timing_on(MOST_NODES, 1 / self.node.ranks)
        step = step_time(shape, self.moved, Machine(links=self.node.links), timing)
        return shape.samples / step.total_s

    @property
    def fewest_that_keep(self) -> int:
        """The fewest nodes that keep the data set in their memory, of whole replicas."""
        whole = math.ceil(self.strategy.gpus / self.node.ranks)
        return math.ceil(nodes_that_keep(self.question, self.work, self.node) / whole) * whole

    @property
    def is_split(self) -> bool:
        """Whether several GPUs hold one replica."""
        return self.strategy.gpus > 1

    @property
    def is_whole(self) -> bool:
        """Whether one rank can hold the model with all its state, so that any number of ranks can train."""
        return not self.is_split and not self.work.shard_optimizer

    def largest_on(self, ranks: int) -> int:
        """Return the samples of a replica that fit its memory, if so many ranks train; 0: none do."""
        if not self.work.shard_optimizer:
            return max(1, self.strategy.largest)
        return strategy_of(self.work, self.node.room, self.figures, ranks).largest

    @property
    def best_batch_alone(self) -> int:
        """The batch of one rank that trains alone."""
        return max(1, min(max(self.cap.batch, self.work.per_rank or 1), self.strategy.largest))

    @property
    def moved(self) -> Moved:
        """What a step of one rank moves, and how the ranks of a replica share it."""
        return moved_by(self.work, self.figures, self.node)

    def candidate(self, trial: Trial, batch: Batch, predicted: Throughput) -> Candidate:
        """Return time and cost of a trial."""
        return self._candidate_at(trial, batch, predicted.samples_per_s)

    def _candidate_at(self, trial: Trial, batch: Batch, samples_per_s: Interval) -> Candidate:
        found = candidate(
            trial.nodes,
            batch,
            samples_per_s,
            self.length(trial.nodes, batch, samples_per_s.middle),
            trial.bill,
            wait_s=self.question.queue.wait_s(trial.nodes),
        )
        return replace(found, ranks_per_node=trial.ranks_per_node)

    def best_batch(self, trial: Trial, batches: Sequence[Batch]) -> Batch:
        """Return the best batch of a trial. The ranges play no part in it, and take most of a plan's time."""
        if len(batches) == 1:
            return batches[0]
        rates = [spread(self.expected_rate(trial, batch), 0.0, "default") for batch in batches]
        pairs = zip(batches, rates, strict=True)
        return self.best([self._candidate_at(trial, batch, rate) for batch, rate in pairs]).batch

    def rate(self, predicted: Throughput) -> PredictedRate:
        """Return the samples/s of a throughput, and whether measurements of the job are behind them."""
        speed = predicted.samples_per_s
        is_measured = bool(self.question.evidence.points)
        return PredictedRate(samples_per_s=speed.middle, low=speed.low, high=speed.high, measured=is_measured)

    def best(self, candidates: Sequence[Candidate]) -> Candidate:
        """Return the candidate of one node count with the best batch."""
        from hpclaunch.guidelines.choice import least_time

        return least_time(candidates, self.work.base_batch or 1)

    def alone(self, trial: Trial) -> Candidate | None:
        """Return one process on one node with its own best batch, or None if a replica needs several GPUs."""
        if self.timing is None or self.is_split:
            return None
        own = self.work.per_rank if self.own_batch else None
        cap = max(1, min(own or self.cap.batch, self.strategy.largest))
        batches = [Batch(per_rank=cap, replicas=1)] if own else possible_batches(cap, 1, cap)
        return self.best([self.candidate(trial, batch, self._single_throughput(batch)) for batch in batches])

    def _single_throughput(self, batch: Batch) -> Throughput:
        assert self.timing is not None
        shape = Shape(nodes=1, ranks_per_node=1, per_rank=batch.per_rank)
        machine, timing = Machine(links=self.node.links), self.timing_on(1)
        return throughput(shape, self.moved, machine, timing, self.single_rate())


@record
class PlannedTraining:
    """One training of a run or sweep: the job with its typed values, and the global batch."""

    work: Workload
    batch: Batch


def predictor_of(question: Question, sizing: Sizing, work: Workload) -> Predictor:
    """Return the predictor of a run whose layout and batch are known; measurements of other divisions do not count."""
    figures, noise = question.figures, question.evidence.noise
    assert figures is not None
    question = replace(question, evidence=evidence_for_work(question.evidence, work))
    node = node_for(question, sizing.node_type, sizing.layout)
    return Predictor(
        question=question,
        work=work,
        node=node,
        figures=figures,
        strategy=strategy_of(work, node.room, figures, sizing.layout.world_size),
        cap=batch_cap(work.samples, known_batches(work, noise)),
        facts=facts_of(work, noise),
        timing=timing_of(question, work, node, figures),
    )


def timing_of(question: Question, work: Workload, node: NodeModel, figures: ModelFigures) -> Timing | None:
    """Return the timing: fitted to measurements, else from the defaults of device and framework, else None."""
    machine, prior = Machine(links=node.links), prior_of(question, work, node, figures)
    if question.evidence.points:
        from hpclaunch.guidelines.calibration import calibrate

        return calibrate(question.evidence.points, moved_by(work, figures, node), machine, prior)
    return None if prior.compute is None else default_timing(prior, machine)


def moved_by(work: Workload, figures: ModelFigures, node: NodeModel) -> Moved:
    """Return what a step of one rank moves, and how the ranks of a replica share it.

    Among nodes, the groups of a node's tensor-parallel ranks share its network: together they send whole layers.
    """
    gradient = GRADIENT_BYTES * figures.parameters / work.pipeline_stages
    whole = Moved(gradient_bytes=gradient, sample_bytes=work.sample_bytes or 0.0)
    if work.gpus_per_replica == 1 and not work.recompute:
        return whole
    from hpclaunch.planner.fitting.strategy import arranged_by  # few models are split

    return replace(whole, inside_parts=work.tensor_parallel, arranged=arranged_by(work, figures, node))
