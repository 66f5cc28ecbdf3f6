"""Predicts batch, throughput, time and cost of every node count that the site accepts; it chooses none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hpclaunch.core.records import record
from hpclaunch.guidelines.batch import Batch, BatchCap, share_out, smallest_efficient_batch
from hpclaunch.guidelines.calibration import calibrate, default_timing
from hpclaunch.guidelines.choice import Candidate, TrainingLength, candidate
from hpclaunch.guidelines.figures import ModelFigures
from hpclaunch.guidelines.memory import GRADIENT_BYTES
from hpclaunch.guidelines.parallelism import replicas as replicas_on
from hpclaunch.guidelines.published import TaskFacts
from hpclaunch.guidelines.throughput import Machine, Shape, Throughput, step_time, throughput
from hpclaunch.guidelines.throughput import Work as Moved
from hpclaunch.guidelines.timing import Timing
from hpclaunch.planner.epochs import epochs_law_of
from hpclaunch.planner.fit import Strategy
from hpclaunch.planner.machine import NodeModel
from hpclaunch.planner.prior import overhead_of, prior_of, reading_on
from hpclaunch.planner.question import Question, Trial
from hpclaunch.planner.recipe import kept_batch
from hpclaunch.planner.strategy import shared_timing
from hpclaunch.planner.values import PlanRow
from hpclaunch.planner.workload import Workload

TWO_BATCHES = 2
"""Measured batch sizes that separate a step's fixed time from its time per sample."""
SMALLEST = 32
"""The fewest samples per rank of an automatic batch, if a step's fixed time is not measured.

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
        """The smallest batch per rank of an automatic choice."""
        floor = min(SMALLEST, self.work.per_rank or SMALLEST)
        if self.timing is None or len(self.timing.batches) < TWO_BATCHES:
            return floor
        return smallest_efficient_batch(self.timing.fixed_s, self.timing.per_sample_s)

    def length(self, nodes: int, batch: Batch, samples_per_s: float) -> TrainingLength:
        """Return the length of the job's training with a batch, with what it does outside its steps."""
        epoch_s = self.work.samples / samples_per_s
        return TrainingLength(
            epochs=epochs_law_of(self.work, batch.total, self.facts).at(batch.total),
            samples=self.work.samples,
            overhead=overhead_of(self.question, self.work, self.figures, nodes, epoch_s),
        )

    @property
    def own_batch(self) -> bool:
        """Whether the job's own batch per rank is used: because it, or the node count, was typed."""
        return "batch_size_per_rank" in self.work.typed or self.question.typed_nodes is not None

    def rows(self, trials: Sequence[Trial]) -> list[PlanRow]:
        """Return a row for every trial, up to the node count where the batch cannot be divided any further."""
        rows: list[PlanRow] = []
        for trial in trials:
            row = self.row(trial, first=not any(earlier.batch for earlier in rows))
            rows.append(row)
            if row.batch is None and any(earlier.batch for earlier in rows):
                break  # strong scaling ends here, or the site's limit is reached: more nodes cannot help
        return rows

    def row(self, trial: Trial, *, first: bool = True) -> PlanRow:
        """Return the prediction for one trial; the ``first`` one may use a batch below the smallest."""
        ranks = trial.nodes * self.node.ranks
        empty = PlanRow(nodes=trial.nodes, ranks=ranks, obstacles=trial.refused)
        if trial.faults:
            return empty
        gpus = self.strategy.parallelism.gpus_per_replica
        if ranks < gpus:
            return replace(empty, obstacles=(f"a replica needs {gpus} GPUs",))
        try:
            batch = self.batch(replicas_on(self.strategy.parallelism, trial.nodes, self.node.ranks), first)
        except ValueError as error:
            return replace(empty, obstacles=(str(error),))
        if batch is None:
            cap = f"a global batch of at most {self.cap.batch}"
            return replace(empty, obstacles=(f"{cap} leaves each rank fewer than {self.smallest} samples",))
        row = replace(empty, batch=batch)
        if self.timing is None:
            return row
        predicted = self.throughput(trial.nodes, batch)
        return replace(row, throughput=predicted, candidate=self.candidate(trial, batch, predicted))

    def batch(self, replicas: int, first: bool) -> Batch | None:
        """Return the batch of the replicas: the typed one, the job's own, or the largest below the cap.

        Raises ValueError if a typed batch does not divide evenly.
        """
        largest = self.strategy.largest
        own = kept_batch(self.work, replicas, largest, total=self.question.global_batch, own=self.own_batch)
        if own is not None:
            return own
        found = share_out(self.cap.batch, replicas, largest=largest, smallest=self.smallest)
        if found is None and first:
            return share_out(self.cap.batch, replicas, largest=largest, smallest=1) or Batch(
                per_rank=1, replicas=replicas
            )
        return found

    def throughput(self, nodes: int, batch: Batch) -> Throughput:
        """Return the throughput on ``nodes`` nodes."""
        assert self.timing is not None
        gpus, links = self.strategy.parallelism.gpus_per_replica, self.node.links
        inside = self.node.ranks // gpus if gpus <= self.node.ranks else 1
        used = min(nodes, math.ceil(batch.replicas / inside))
        shape = Shape(
            nodes=used,
            ranks_per_node=max(1, batch.replicas // used),
            per_rank=batch.per_rank,
            accumulation=batch.accumulation,
        )
        timing = shared_timing(self.timing_on(used), self.figures, gpus, self.node)
        return throughput(shape, self.moved(gpus), Machine(links=links), timing, self.single_rate(gpus))

    def timing_on(self, nodes: int) -> Timing:
        """Return the timing on so many nodes: fewer hold less of the data set, and read the rest again and again."""
        assert self.timing is not None
        if self.timing.most_ranks:
            return self.timing  # a measured throughput contains the reading
        return replace(self.timing, reading=reading_on(nodes, self.question, self.work, self.node))

    def single_rate(self, gpus: int = 1) -> float | None:
        """Return the samples/s of one rank alone at its own best batch; None if a replica needs several GPUs.

        Its best batch is the largest that its memory and the cap allow, or the job's own if that is larger.
        """
        if gpus > 1:
            return None
        shape = Shape(nodes=1, ranks_per_node=1, per_rank=self.best_batch_alone)
        step = step_time(shape, self.moved(), Machine(links=self.node.links), self.timing_on(1))
        return shape.samples / step.total_s

    @property
    def best_batch_alone(self) -> int:
        """The batch of one rank that trains alone."""
        return max(1, min(max(self.cap.batch, self.work.per_rank or 1), self.strategy.largest))

    def moved(self, gpus: int = 1) -> Moved:
        """Return the bytes that a step of one rank moves."""
        return moved_by(self.work, self.figures, gpus)

    def candidate(self, trial: Trial, batch: Batch, predicted: Throughput) -> Candidate:
        """Return time and cost of a trial."""
        return candidate(
            trial.nodes,
            batch,
            predicted.samples_per_s,
            self.length(trial.nodes, batch, predicted.samples_per_s.middle),
            trial.bill,
            wait_s=self.question.queue.wait_s(trial.nodes),
        )

    def alone(self, trial: Trial) -> Candidate | None:
        """Return one process on one node with its own best batch, or None if a replica needs several GPUs."""
        if self.timing is None or self.strategy.parallelism.gpus_per_replica > 1:
            return None
        own = self.work.per_rank if self.own_batch else None
        per_rank = max(1, min(own or self.cap.batch, self.strategy.largest))
        batch = Batch(per_rank=per_rank, replicas=1)
        shape = Shape(nodes=1, ranks_per_node=1, per_rank=per_rank)
        predicted = throughput(shape, self.moved(), Machine(links=self.node.links), self.timing_on(1))
        return self.candidate(trial, batch, predicted)


def timing_of(question: Question, work: Workload, node: NodeModel, figures: ModelFigures) -> Timing | None:
    """Return the timing: fitted to measurements, else from the defaults of device and framework, else None."""
    machine, prior = Machine(links=node.links), prior_of(question, work, node, figures)
    if question.evidence.points:
        return calibrate(question.evidence.points, moved_by(work, figures), machine, prior)
    return None if prior.compute is None else default_timing(prior, machine)


def moved_by(work: Workload, figures: ModelFigures, gpus: int = 1) -> Moved:
    """Return the bytes that a step of one rank moves, if so many GPUs hold a replica."""
    gradient = GRADIENT_BYTES * figures.parameters / gpus
    return Moved(gradient_bytes=gradient, sample_bytes=work.sample_bytes or 0.0)
