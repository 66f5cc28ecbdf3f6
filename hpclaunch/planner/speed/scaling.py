"""A scaling study: its layouts with their batches, what a plan predicts for each, and its results in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from hpclaunch.core.errors import Fault
from hpclaunch.core.records import record
from hpclaunch.core.spec_parts import PredictedRate
from hpclaunch.core.units import count
from hpclaunch.guidelines.batch import Batch, typed_batch
from hpclaunch.guidelines.scaling import Cause, ScaledPoint
from hpclaunch.planner.amounts import time_of
from hpclaunch.planner.job.question import Question, question_for, trial_of
from hpclaunch.planner.job.workload import Workload
from hpclaunch.planner.speed.prediction import Predictor, predictor_of

Mode = Literal["strong", "weak"]
"""Strong: the global batch is the same on all node counts. Weak: the batch per rank is."""


MILLI = 1e3
NAMED = 0.2
"""The second cause is named too if it has this share of what the step is longer than the ideal one."""


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


def warnings_of(scaled: Sequence[ScaledPoint], samples: int, mode: Mode) -> tuple[str, ...]:
    """Return one warning for every layout that is slower, or hardly faster, than one process.

    ``samples``: those of an epoch.
    """
    alone = next((one for one in scaled if one.point.ranks == 1), None)
    if alone is None:
        return ()
    return tuple(_warning(one, alone, samples, mode) for one in scaled if not one.is_worth_it)


def _warning(one: ScaledPoint, alone: ScaledPoint, samples: int, mode: Mode) -> str:
    point = one.point
    times = [time_of(samples / rate) for rate in (point.samples_per_s, alone.point.samples_per_s)]
    parts = f" x {point.accumulation} micro-batches" if point.accumulation > 1 else ""
    batch = f"the same global batch of {point.batch}" if mode == "strong" else f"a batch of {alone.point.batch}"
    words = f"{point.ranks} ranks on {count(point.nodes, 'node')} x {count(point.per_rank, 'sample')}{parts} are"
    words += f" {one.verdict} than one process with {batch}: {times[0]} instead of {times[1]} an epoch"
    return f"{words} (measured, speed-up {one.speed_up:.2f}); {causes_in_words(one)}"


def causes_in_words(one: ScaledPoint) -> str:
    """Return which part of the step costs the speed-up: milliseconds beside those of the step and the ideal step."""
    named = leading_causes(one)
    if not named:
        return "its runs do not report the parts of their steps (hpclaunch docs training), so the cause is not known"
    step = f"a step takes {MILLI * one.point.step_s:.3g} ms, with the ideal speed-up {MILLI * one.ideal_s:.3g} ms"
    first = f"what costs most is {named[0].name}: {MILLI * named[0].seconds:.3g} ms"
    others = "".join(f", then {cause.name}: {MILLI * cause.seconds:.3g} ms" for cause in named[1:])
    return f"{step}; {first}{others}"


def leading_causes(one: ScaledPoint) -> tuple[Cause, ...]:
    """Return the largest cause, and the second one if it matters; none if the parts of the steps are not known."""
    lost = one.point.step_s - one.ideal_s
    first, second = one.causes[:1], one.causes[1:2]
    return (*first, *(cause for cause in second if cause.seconds >= NAMED * lost > 0))
