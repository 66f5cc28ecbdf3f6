"""Predicts throughput, time and cost of a trial with a batch; it chooses none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hpclaunch.core.records import record
from hpclaunch.guidelines.batch import Batch, BatchCap, PerRank, possible_batches, smallest_efficient_batch
from hpclaunch.guidelines.calibration import calibrate, default_timing
from hpclaunch.guidelines.choice import Candidate, TrainingLength, candidate, least_time
from hpclaunch.guidelines.figures import ModelFigures
from hpclaunch.guidelines.hardware import unmeasured_compute
from hpclaunch.guidelines.memory import GRADIENT_BYTES
from hpclaunch.guidelines.published import TaskFacts
from hpclaunch.guidelines.throughput import Machine, Shape, Throughput, Timing, throughput
from hpclaunch.guidelines.throughput import Work as Moved
from hpclaunch.planner.epochs import epochs_law_of
from hpclaunch.planner.fit import Strategy
from hpclaunch.planner.machine import NodeModel
from hpclaunch.planner.question import Question, Trial
from hpclaunch.planner.strategy import shared_timing
from hpclaunch.planner.workload import Workload

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
        """The smallest batch per rank of an automatic choice.

        It is lower for models whose few samples are work enough. A model that is too small for 32 samples to be
        enough gets no higher limit: the time of its steps shows what more ranks gain.
        """
        floor = min(SMALLEST, self.work.per_rank or SMALLEST)
        if self.timing is None or not self.timing.fixed_s:
            return floor
        return min(floor, smallest_efficient_batch(self.timing.fixed_s, self.timing.per_sample_s))

    def length(self, batch: Batch) -> TrainingLength:
        """Return the length of the job's training with a batch."""
        return TrainingLength(
            epochs=epochs_law_of(self.work, batch.total, self.facts).at(batch.total),
            samples=self.work.samples,
            overhead_s=self.question.evidence.overhead_s or 0.0,
        )

    @property
    def own_batch(self) -> bool:
        """Whether the job's own batch per rank is used: because it, or the node count, was typed."""
        return "batch_size_per_rank" in self.work.typed or self.question.typed_nodes is not None

    def throughput(self, trial: Trial, batch: Batch) -> Throughput:
        """Return the throughput of a trial."""
        assert self.timing is not None
        gpus, links = self.strategy.parallelism.gpus_per_replica, self.node.links
        inside = trial.ranks_per_node // gpus if gpus <= trial.ranks_per_node else 1
        used = min(trial.nodes, math.ceil(batch.replicas / inside))
        shape = Shape(
            nodes=used,
            ranks_per_node=max(1, batch.replicas // used),
            per_rank=batch.per_rank,
            accumulation=batch.accumulation,
        )
        timing = shared_timing(self.timing, self.figures, gpus, self.node)
        return throughput(shape, self.moved(gpus), Machine(links=links), timing)

    def moved(self, gpus: int = 1) -> Moved:
        """Return the bytes that a step of one rank moves."""
        return Moved(gradient_bytes=GRADIENT_BYTES * self.figures.parameters / gpus)

    def candidate(self, trial: Trial, batch: Batch, predicted: Throughput) -> Candidate:
        """Return time and cost of a trial."""
        found = candidate(
            trial.nodes,
            batch,
            predicted.samples_per_s,
            self.length(batch),
            trial.bill,
            wait_s=self.question.queue.wait_s(trial.nodes),
        )
        return replace(found, ranks_per_node=trial.ranks_per_node)

    def best(self, candidates: Sequence[Candidate]) -> Candidate:
        """Return the candidate of one node count with the best batch."""
        return least_time(candidates, self.work.base_batch or 1)

    def alone(self, trial: Trial) -> Candidate | None:
        """Return one process on one node with its own best batch, or None if a replica needs several GPUs."""
        if self.timing is None or self.strategy.parallelism.gpus_per_replica > 1:
            return None
        own, limits = self.work.per_rank if self.own_batch else None, PerRank(smallest=1, largest=self.strategy.largest)
        cap = min(own or self.cap.batch, self.strategy.largest)
        batches = possible_batches(max(1, cap), 1, limits, at_least=cap if own else 1)
        return self.best([self.candidate(trial, batch, self._of_one_rank(batch)) for batch in batches])

    def _of_one_rank(self, batch: Batch) -> Throughput:
        assert self.timing is not None
        shape = Shape(nodes=1, ranks_per_node=1, per_rank=batch.per_rank)
        return throughput(shape, self.moved(), Machine(links=self.node.links), self.timing)


def timing_of(question: Question, work: Workload, node: NodeModel, figures: ModelFigures) -> Timing | None:
    """Return the timing: fitted to measurements, else from the GPU's defaults, else None."""
    machine = Machine(links=node.links)
    if question.evidence.points:
        return calibrate(question.evidence.points, Moved(gradient_bytes=GRADIENT_BYTES * figures.parameters), machine)
    if node.gpu is None:
        return None
    saved = figures.model(work.precision).saved_bytes
    arithmetic = work.arithmetic(node.gpu.tf32 > 0)
    return default_timing(unmeasured_compute(node.gpu, arithmetic, figures.flops_per_sample, saved), machine)
