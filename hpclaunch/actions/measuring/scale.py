"""``scale``: designs a scaling study, and the short runs that it needs; ``scale_runs`` submits them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpclaunch.actions.measuring.short_runs import (
    STEPS,
    keyed_case,
    layout_of_one_node,
    leave_out_export,
    shorten,
    shortenable,
)
from hpclaunch.actions.preparing.advice import advised
from hpclaunch.actions.preparing.submit import Prepared, prepare_case
from hpclaunch.actions.system import System
from hpclaunch.config.job import AS_WRITTEN
from hpclaunch.core.errors import Fault, HpclaunchError, Refused
from hpclaunch.core.records import record
from hpclaunch.core.spec import Request
from hpclaunch.core.spec_parts import PredictedRate
from hpclaunch.core.units import count
from hpclaunch.guidelines.throughput import Shape
from hpclaunch.planner.job.workload import Workload
from hpclaunch.planner.speed.scaling import (
    KeptBatch,
    Mode,
    StudyLayout,
    largest_alone,
    layouts_of,
    predicted,
    undivided,
)
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.nodes.cost import price_of
from hpclaunch.resolve.nodes.sizing import Sizing, sizing_of
from hpclaunch.runs.scaling_study import PREFIX, ScalingStudy, StudyPoint

if TYPE_CHECKING:
    from hpclaunch.planner.job.question import Question


@record
class StudyWish:
    """What a study is to measure: node counts, what they keep, repeats, and the most steps of a run's epoch.

    ``global_batch``: that of strong scaling, in samples; None: the job's batch per rank on the ranks of the smallest
    node count. ``looks``: a look at the job's model may start a program, if its figures are not known.
    """

    nodes: tuple[int, ...]
    mode: Mode = "strong"
    repeats: int = 1
    steps: int = STEPS
    global_batch: int | None = None
    looks: bool = False


@record
class StudyDesign:
    """A study as it would be submitted: its record, and the prepared run of every layout, one process first."""

    case: Case
    study: ScalingStudy
    prepared: tuple[Prepared, ...]
    repeats: int
    remarks: tuple[str, ...] = ()

    def cost(self) -> tuple[float, str] | None:
        """Return the highest cost of all runs of the study and its unit; None if it is not known."""
        costs = [one.spec.cost for one in self.prepared]
        known = [cost for cost in costs if cost is not None]
        if not known or len(known) < len(costs):
            return None
        return self.repeats * sum(cost.amount for cost in known), known[0].unit

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        cost = self.cost()
        return {
            "study": self.study.to_json(),
            "repeats": self.repeats,
            "cost_at_most": {"amount": cost[0], "unit": cost[1]} if cost else None,
            "runs": [one.spec.to_json() for one in self.prepared],
            "remarks": list(self.remarks),
        }


@record
class _Asked:
    """What a study is designed from: the case, the job's numbers, the wish, and what the planner knows before it."""

    case: Case
    work: Workload
    wish: StudyWish
    question: Question


def design(system: System, request: Request, wish: StudyWish, runs_dir: str | None = None) -> StudyDesign:
    """Return the study of a request. Raises Refused with every reason why one of its runs is not possible."""
    request = replace(request, recipe=AS_WRITTEN)  # only the speed is measured, at the batches that are named here
    case = keyed_case(system, request, runs_dir)
    work = shortenable(case.job, request)
    _check_whole_models(case, work)
    one_node = layout_of_one_node(case)
    # One process has the CPUs that a rank has elsewhere: more CPUs would be another comparison.
    case = replace(case, request=replace(request, cpus_per_task=request.cpus_per_task or one_node.cpus_per_task))
    asked = _Asked(case=case, work=work, wish=wish, question=_question(system, case, wish))
    layouts, uneven = _layouts(asked, one_node.tasks_per_node)
    prepared = [_prepare(system, asked, layout) for layout in layouts]
    faults = [*uneven, *_faults(layouts, prepared)]
    if faults:
        raise Refused(faults)
    study = _record(system, asked, layouts)
    for layout, one in zip(layouts, prepared, strict=True):
        study = study.with_point(_point(asked, layout, one))
    return StudyDesign(case=case, study=study, prepared=tuple(prepared), repeats=wish.repeats, remarks=_remarks(study))


def _check_whole_models(case: Case, work: Workload) -> None:
    if work.gpus_per_replica > 1:
        what = f"{case.job.name} shares its model among {work.gpus_per_replica} ranks, so it cannot run as one process"
        raise Refused(Fault(what=what, next="a speed-up over one process needs tensor_parallel=1, pipeline_stages=1"))


def _layouts(asked: _Asked, tasks_per_node: int) -> tuple[list[StudyLayout], list[Fault]]:
    """Return one process, then the wanted node counts; and why a global batch does not suit all of them.

    With such a fault the layouts have the batch per rank, so that the other faults of a request are found as well.
    """
    wish, work = asked.wish, asked.work
    shapes = list(dict.fromkeys([(1, 1), *((nodes, tasks_per_node) for nodes in sorted(wish.nodes))]))
    samples = _kept_samples(wish, work, min(wish.nodes) * tasks_per_node)
    fault = undivided(shapes, samples) if wish.mode == "strong" else None
    if wish.mode == "strong" and samples > work.samples:
        what = f"a global batch of {samples} is larger than the data set of {work.samples} samples"
        fault = Fault(where="--global-batch", what=what, allowed=f"1 to {work.samples}")
    mode: Mode = "weak" if fault else wish.mode
    kept = KeptBatch(mode=mode, samples=samples, largest=largest_alone(asked.question, work))
    return layouts_of(shapes, work, kept), [fault] if fault else []


def _kept_samples(wish: StudyWish, work: Workload, fewest_ranks: int) -> int:
    """Return the global batch of strong scaling; of weak scaling the samples of a rank in a step."""
    per_rank = (work.per_rank or 1) * work.accumulation
    if wish.mode == "weak":
        return per_rank
    return wish.global_batch or work.global_batch or per_rank * fewest_ranks


def _prepare(system: System, asked: _Asked, layout: StudyLayout) -> Prepared:
    """Return a run of a layout. All have the run directory of the case; each gets its own when it is submitted."""
    case, batch = asked.case, layout.batch
    shape = Shape(
        nodes=layout.nodes,
        ranks_per_node=layout.tasks_per_node,
        per_rank=batch.per_rank,
        accumulation=batch.accumulation,
    )
    request = replace(case.request, tasks_per_node=layout.tasks_per_node)
    request = shorten(request, asked.work, shape, asked.wish.steps)
    request = leave_out_export(case.job, _set_batch(request, asked.work, batch.accumulation))
    return prepare_case(system, advised(replace(case, request=request)))


def _set_batch(request: Request, work: Workload, accumulation: int) -> Request:
    """Return the request with so many micro-batches; the batch per rank counts, and no global batch of the job."""
    ours = {}
    if "accumulation" in work.names and accumulation != work.accumulation:
        ours[work.names["accumulation"]] = str(accumulation)
    if work.global_batch is not None:
        ours[work.names["global_batch_size"]] = "0"
    others = tuple(pair for pair in request.settings if pair[0] not in ours)
    return replace(request, settings=(*others, *ours.items()))


def _faults(layouts: Sequence[StudyLayout], prepared: Sequence[Prepared]) -> list[Fault]:
    """Return every reason against one of the runs; those of one process alone say so, because it was not typed."""
    alone: list[Fault] = []
    others: list[Fault] = []
    for layout, one in zip(layouts, prepared, strict=True):
        (alone if layout.ranks == 1 else others).extend(one.faults)
    of_one = [
        replace(fault, what=f"as one process, with which the speed is compared: {fault.what}")
        for fault in alone
        if fault not in others
    ]
    return list(dict.fromkeys([*others, *of_one]))


def _question(system: System, case: Case, wish: StudyWish) -> Question:
    """Return what the planner knows of the job before the study: its model's figures, and earlier measurements."""
    from hpclaunch.actions.measuring.plan import figures_of
    from hpclaunch.planner.job.question import Question
    from hpclaunch.planner.measured.finished_runs import evidence_for
    from hpclaunch.planner.measured.model_figures import known_figures

    known = known_figures(case.job, case.context.environment, case.code_folders)
    figures = figures_of(system, case)[0] if known is None and wish.looks else known
    return Question(case=case, figures=figures, evidence=evidence_for(case))


def _record(system: System, asked: _Asked, layouts: Sequence[StudyLayout]) -> ScalingStudy:
    """Return the record of the study, without its points. The same command always gives the same folder."""
    case, wish = asked.case, asked.wish
    sizing = sizing_of(replace(case, request=replace(case.request, nodes=layouts[-1].nodes)), Decisions())
    batch = layouts[0].batch.total  # of one process: the global batch, or the batch per rank
    request = asdict(replace(case.request, nodes=None))
    measured = json.dumps([case.calibration_key, wish.mode, batch, wish.steps, request], sort_keys=True)
    name = f"{PREFIX}{case.job.name}-{hashlib.sha256(measured.encode()).hexdigest()[:8]}"
    return ScalingStudy(
        path=Path(case.context.run_dir).parent / name,
        job=case.job.name,
        target=case.request.target,
        site=case.site.name,
        node_type=sizing.node_type,
        created=case.context.now,
        mode=wish.mode,
        batch=batch,
        samples=asked.work.samples,
        steps=wish.steps,
        key=case.calibration_key,
        device=_device(case, sizing),
        cwd=str(system.cwd),
        request=request,
    )


def _device(case: Case, sizing: Sizing) -> str:
    """Return what a rank computes on, in words."""
    node = case.node(sizing.node_type)
    if node.gpus_per_node and not node.stand_in_gpus:
        return node.gpu_model or "GPU"
    cpus = f"{count(sizing.layout.cpus_per_task, 'CPU')}"
    return f"{cpus} of {node.cpu}" if node.cpu else cpus


def _point(asked: _Asked, layout: StudyLayout, prepared: Prepared) -> StudyPoint:
    """Return the record of a layout, with the plan's prediction and the price of an hour."""
    rate = _predict(asked, layout)
    case = prepared.case
    price = price_of(case.site, sizing_of(case, Decisions()))
    return StudyPoint(
        nodes=layout.nodes,
        tasks_per_node=layout.tasks_per_node,
        per_rank=layout.batch.per_rank,
        accumulation=layout.batch.accumulation,
        predicted=(rate.low, rate.samples_per_s, rate.high) if rate else None,
        from_measurements=bool(rate and rate.measured),
        per_hour=price.per_hour if price else None,
        shortest_s=price.shortest_s if price else 0,
        least=price.least if price else 0.0,
        unit=price.unit if price else "",
    )


def _predict(asked: _Asked, layout: StudyLayout) -> PredictedRate | None:
    try:
        return predicted(asked.question, asked.work, layout)
    except (ArithmeticError, HpclaunchError, ValueError):
        return None  # a study measures what a plan cannot predict


def _remarks(study: ScalingStudy) -> tuple[str, ...]:
    if any(point.predicted is None for point in study.points):
        return (f"the plan predicts no speed of {study.job}: its model's figures are not known (hpclaunch plan)",)
    return ()
