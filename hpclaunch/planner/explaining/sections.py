"""The reasoning of a plan, one function per section: every rule that was applied, with its numbers."""

from __future__ import annotations

from collections.abc import Sequence

from hpclaunch.core.records import record
from hpclaunch.core.spec import TENSORFLOW
from hpclaunch.core.units import count
from hpclaunch.guidelines.batch import MOST_NODES, batch_cap, node_cap
from hpclaunch.guidelines.choice import explain_batch
from hpclaunch.guidelines.communication import Links
from hpclaunch.guidelines.dataset import judge_dataset, judge_text
from hpclaunch.guidelines.efficiency import ENOUGH_STEPS
from hpclaunch.guidelines.framework import MESH_TENSORFLOW, OTHER_FRAMEWORKS, choose_framework, choose_updates
from hpclaunch.guidelines.memory import memory
from hpclaunch.guidelines.precision import PrecisionAdvice
from hpclaunch.guidelines.reasoning import Number, Reason
from hpclaunch.planner.choice.decision import PlanDecision
from hpclaunch.planner.choice.ladder import Ladder
from hpclaunch.planner.explaining.saving import checkpoint_sections
from hpclaunch.planner.explaining.settings import recipe_sections
from hpclaunch.planner.fitting.fit import UNLIMITED
from hpclaunch.planner.fitting.machine import link_reasons
from hpclaunch.planner.job.epochs import epochs_model_of, known_batches
from hpclaunch.planner.job.question import Question, Trial
from hpclaunch.planner.job.recipe import Recipe
from hpclaunch.planner.speed.prediction import SMALLEST, Predictor
from hpclaunch.planner.values import PlanRow, PlanSection, Rung
from hpclaunch.resolve.environment.framework import stated_framework


@record
class Outcome:
    """The results of planning a job whose model is known: trials, predictions, the decision, and the settings."""

    predictor: Predictor
    trials: tuple[Trial, ...]
    rows: tuple[PlanRow, ...]
    decision: PlanDecision
    ladder: Ladder
    recipe: Recipe | None
    formats: PrecisionAdvice

    @property
    def row(self) -> PlanRow:
        """The chosen row."""
        return self.decision.row


def sections_of(outcome: Outcome) -> tuple[PlanSection, ...]:
    """Return all sections, in the order in which they are read."""
    question = outcome.predictor.question
    return (
        _model_section(outcome),
        *([PlanSection(title="ladder", reasons=ladder_reasons(outcome.ladder.rungs))] if outcome.ladder.rungs else []),
        *_measurement_sections(outcome.predictor),
        _dataset_section(outcome),
        framework_section(question, outcome.predictor.node.links),
        _batch_section(outcome),
        *recipe_sections(outcome.recipe),
        PlanSection(title="precision", reasons=(outcome.formats.reason,)),
        *checkpoint_sections(outcome.predictor, outcome.row),
        *([PlanSection(title="queue", reasons=question.queue.reasons)] if question.queue.reasons else []),
        _nodes_section(outcome),
    )


def _model_section(outcome: Outcome) -> PlanSection:
    predictor = outcome.predictor
    return PlanSection(
        title="model",
        reasons=(predictor.strategy.parallelism.reason, *_memory_reasons(predictor, outcome.row)),
        declined=(MESH_TENSORFLOW,),
        remarks=(f"figures: {predictor.figures.origin}", *_largest_batch_remarks(predictor)),
    )


def ladder_reasons(rungs: Sequence[Rung]) -> tuple[Reason, ...]:
    """Return every rung with its formulas, its figures, its verdict and its source."""
    return tuple(_rung_reason(number, rung) for number, rung in enumerate(rungs, start=1))


def _rung_reason(number: int, rung: Rung) -> Reason:
    numbers = []
    if rung.memory is not None:
        parts = {"states": rung.memory.states, "activations": rung.memory.activations, "other": rung.memory.other}
        numbers = [Number(name=name, value=value, unit="bytes") for name, value in parts.items()]
        numbers.append(Number(name="usable", value=rung.memory.usable, unit="bytes", origin="site"))
        numbers.append(Number(name="micro-batch", value=rung.batch, unit="samples"))
    if rung.step_s is not None:
        numbers.append(Number(name="step", value=rung.step_s, unit="s"))
    place = f" on {count(rung.nodes, 'node')} ({rung.node_type})" if rung.memory is not None else ""
    return Reason(
        rule=f"{number}. {rung.name}; memory: {rung.rule.saves}; time: {rung.rule.takes}",
        numbers=tuple(numbers),
        verdict=f"{rung.verdict}{place}" + (f": {rung.why}" if rung.why not in ("", rung.verdict) else ""),
        source=rung.rule.source,
    )


def _memory_reasons(predictor: Predictor, row: PlanRow) -> list[Reason]:
    room = predictor.node.room
    if room is None or row.batch is None:
        return []
    found = memory(
        predictor.strategy.model,
        predictor.work.optimizer,
        row.batch.per_rank,
        room,
        predictor.strategy.arrangement,
    )
    return [found.reason]


def _largest_batch_remarks(predictor: Predictor) -> list[str]:
    """Return a remark on the largest micro-batch of a replica, if the memory is known."""
    largest = predictor.strategy.largest
    return [] if largest == UNLIMITED else [f"the largest batch of a replica in memory: {count(largest, 'sample')}"]


def _measurement_sections(predictor: Predictor) -> list[PlanSection]:
    """Return what was measured and in which runs, and which runs were not used."""
    evidence, reasons = predictor.question.evidence, link_reasons(predictor.node.links)
    if evidence.sources:
        reason = Reason(
            rule="use the measurements of every successful run of this job, code, settings and node type",
            verdict=evidence.origin or "no usable measurements",
            source="hpclaunch's own (hpclaunch docs planning)",
        )
        reasons.insert(0, reason)
    return [PlanSection(title="measurements", reasons=tuple(reasons), remarks=evidence.sources)] if reasons else []


def _dataset_section(outcome: Outcome) -> PlanSection:
    figures, samples = outcome.predictor.figures, outcome.predictor.work.samples
    if figures.decoder is not None:
        text = judge_text(float(samples) * figures.decoder.context, figures.decoder.active_parameters)
        return PlanSection(title="data set", reasons=(text,))
    dataset = judge_dataset(samples, figures.parameters)
    return PlanSection(title="data set", reasons=(dataset.reason,), remarks=dataset.advice)


def framework_section(question: Question, links: Links | None = None) -> PlanSection:
    """Return what connects the ranks, of TensorFlow why it is Horovod, and why updates are synchronous.

    ``links``: those that are planned with; what was measured of them replaces what is expected of the library.
    """
    horovod, updates = choose_framework(), choose_updates()
    name = stated_framework(question.case)[1] or TENSORFLOW
    if name != TENSORFLOW and name not in OTHER_FRAMEWORKS:  # the program's own business
        return PlanSection(title="updates", reasons=(updates.reason,), declined=updates.declined)
    is_horovod = name == TENSORFLOW
    return PlanSection(
        title="framework and updates",
        reasons=(horovod.reason if is_horovod else OTHER_FRAMEWORKS[name], updates.reason),
        declined=(*(horovod.declined if is_horovod else ()), *updates.declined),
        remarks=(links.library.words,) if links is not None and links.between is None else (),
    )


def _batch_section(outcome: Outcome) -> PlanSection:
    predictor, row = outcome.predictor, outcome.row
    question, work = predictor.question, predictor.work
    batch = predictor.cap.reason
    if row.batch is not None and predictor.own_batch and question.global_batch is None:
        # The batch per rank, or the node count, was typed. Their global batch is known only now.
        known = known_batches(work, question.evidence.noise)
        batch = batch_cap(work.samples, known, typed=row.batch.total).reason
    reasons = [batch]
    if row.batch and row.candidate and not predictor.own_batch and question.global_batch is None:
        reasons.append(explain_batch(row.batch, work.base_batch))
    if row.batch:
        epochs_model = epochs_model_of(work, row.batch.total, predictor.facts)
        reasons += [epochs_model.explain(row.batch.total)] if epochs_model.pareto else []
    floor = f"at least {predictor.smallest} samples for each rank are advised; the time of a step decides"
    floor += " (hpclaunch's own choice)" if predictor.smallest == SMALLEST else ""
    return PlanSection(title="batch", reasons=tuple(reasons), remarks=(floor, *_noise_remarks(question)))


def _noise_remarks(question: Question) -> tuple[str, ...]:
    """Return the guidelines' reason to measure the noise scale, if there is no trustworthy measurement."""
    noise = question.evidence.noise
    if noise is not None and noise.trustworthy:
        return ()
    why = "more complex tasks have noisier gradients, and benefit from larger batches"
    return (f"{why}; the noise scale shows how much, after {ENOUGH_STEPS:,} training steps or more",)


def _nodes_section(outcome: Outcome) -> PlanSection:
    predictor, row, choice = outcome.predictor, outcome.row, outcome.decision.choice
    reasons = [node_cap(most_nodes(outcome.trials), typed=predictor.question.typed_nodes).reason]
    reasons += predictor.timing.reasons if predictor.timing else ()
    reasons += [row.throughput.reason] if row.throughput else []
    if row.candidate is not None:
        length = predictor.length(row.nodes, row.candidate.batch, row.candidate.samples_per_s.middle)
        reasons += [length.overhead.reason] if length.overhead.reason else []
        reasons.append(row.candidate.reason)
    reasons += [choice.reason] if choice else []
    return PlanSection(title="nodes", reasons=tuple(reasons))


def most_nodes(trials: Sequence[Trial]) -> int | None:
    """Return the most nodes that the site accepts, if that is fewer than the guidelines' cap."""
    most = max(trial.nodes for trial in trials if not trial.faults)
    return most if most < MOST_NODES else None
