"""The layouts of a scaling study with their batches, and what a plan predicts for each; it submits nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from hpclaunch.core.errors import Fault
from hpclaunch.core.records import record
from hpclaunch.core.spec_parts import PredictedRate
from hpclaunch.guidelines.batch import Batch, typed_batch
from hpclaunch.planner.job.question import Question, question_for, trial_of
from hpclaunch.planner.job.workload import Workload
from hpclaunch.planner.speed.prediction import Predictor, predictor_of

Mode = Literal["strong", "weak"]
"""Strong: the global batch is the same on all node counts. Weak: the batch per rank is."""


@record
class StudyLayout:
    """One layout of a study: its nodes, the ranks of each, and its batch."""

    nodes: int
    tasks_per_node: int
    batch: Batch

    @property
    def ranks(self) -> int:
        """The ranks on all nodes."""
        return self.nodes * self.tasks_per_node


@record
class KeptBatch:
    """What all layouts of a study have in common: the global batch (strong) or that of a rank (weak), in samples.

    ``largest``: the samples that fit the memory of a rank; None: not known.
    """

    mode: Mode
    samples: int
    largest: int | None = None


def layouts_of(shapes: Sequence[tuple[int, int]], work: Workload, kept: KeptBatch) -> list[StudyLayout]:
    """Return the layouts of (nodes, tasks per node), with their batches.

    A part of a global batch that does not fit the memory of a rank becomes several micro-batches, if the job has a
    parameter for them. Raises ValueError, in words, for a global batch that does not divide evenly.
    """
    limit = kept.largest if kept.largest is not None and "accumulation" in work.names else kept.samples
    found = []
    for nodes, tasks in shapes:
        ranks = nodes * tasks
        if kept.mode == "weak":
            batch = Batch(per_rank=work.per_rank or 1, replicas=ranks, accumulation=work.accumulation)
        else:
            batch = typed_batch(kept.samples, ranks, largest=max(1, limit))
        found.append(StudyLayout(nodes=nodes, tasks_per_node=tasks, batch=batch))
    return found


def undivided(shapes: Sequence[tuple[int, int]], total: int) -> Fault | None:
    """Return why a global batch cannot be kept on all of these (nodes, tasks per node), with the nearest that can."""
    counts = sorted({nodes * tasks for nodes, tasks in shapes})
    if all(total % count == 0 for count in counts):
        return None
    least = _least_multiple(counts)
    nearest = max(least, round(total / least) * least)
    uneven = next(count for count in counts if total % count)
    return Fault(
        what=f"a global batch of {total} samples does not divide evenly among {uneven} ranks",
        where="--global-batch",
        allowed=f"a multiple of {least} for {', '.join(map(str, counts))} ranks",
        next=f"--global-batch {nearest}; or --weak, which keeps the batch per rank",
    )


def _least_multiple(counts: Sequence[int]) -> int:
    from math import lcm

    return lcm(*counts)


def largest_alone(question: Question, work: Workload) -> int | None:
    """Return the samples of a micro-batch that fit the memory of one rank; None if that is not known."""
    predictor = _predictor(question, work, 1, 1)
    return predictor.strategy.largest if predictor is not None and predictor.node.room is not None else None


def predicted(question: Question, work: Workload, layout: StudyLayout) -> PredictedRate | None:
    """Return what a plan predicts for a layout; None if it can predict nothing for this job."""
    predictor = _predictor(question, work, layout.nodes, layout.tasks_per_node)
    if predictor is None or predictor.timing is None:
        return None
    trial = trial_of(question_for(question, layout.tasks_per_node), layout.nodes)
    return predictor.rate(predictor.throughput(trial, layout.batch))


def _predictor(question: Question, work: Workload, nodes: int, tasks_per_node: int) -> Predictor | None:
    if question.figures is None:
        return None
    whole = replace(question, case=replace(question.case, needs_account=False))
    trial = trial_of(question_for(whole, tasks_per_node), nodes)
    return predictor_of(whole, trial.sizing, work)
