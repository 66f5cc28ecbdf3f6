"""Which rung of the ladder makes a job's model fit a site: each is worked out, and the first that fits is taken."""

from __future__ import annotations

import math
from dataclasses import replace

from hpclaunch.config.job import Role
from hpclaunch.core.records import record
from hpclaunch.core.spec import Pairs
from hpclaunch.core.units import count
from hpclaunch.guidelines.batch import Batch, batch_cap
from hpclaunch.guidelines.figures import ModelFigures
from hpclaunch.guidelines.memory import memory
from hpclaunch.guidelines.optimizers import rules_of
from hpclaunch.guidelines.parallelism import dataset_fits_node
from hpclaunch.guidelines.rungs import RUNGS, RungName, RungRule
from hpclaunch.planner.amounts import shorten
from hpclaunch.planner.fitting.attempts import Attempt, NodePlace, attempts_of, places_of, work_with
from hpclaunch.planner.job.epochs import facts_of, known_batches
from hpclaunch.planner.job.question import (
    SHARD_WEIGHTS,
    Evidence,
    Question,
    evidence_for_work,
    shards_weights,
    trial_of,
)
from hpclaunch.planner.job.recipe import in_pipeline
from hpclaunch.planner.job.workload import Workload
from hpclaunch.planner.speed.prediction import Predictor, timing_of
from hpclaunch.planner.values import Rung

HOUR = 3600
BEYOND = (
    "PyTorch's FSDP shards weights and gradients as well: a program of your own under --launcher torchrun"
    " (hpclaunch docs any-program)"
)
BY_SETTING = "shard_weights=true shards weights and gradients as well, which is not predicted (hpclaunch docs training)"

SET_ALREADY = (
    "shard_weights=true is set, and what it saves is not predicted: whether the model fits with it is not known"
    " (hpclaunch docs training)"
)


@record
class Ladder:
    """The rungs, and the question with what the taken one sets (its node type, defaults of its job); None: none fits.

    ``settings``: the parameters that it sets. ``whole``: the fewest nodes that hold the model. ``is_usual``: the job
    trains as it is, where it would train without the ladder.
    """

    rungs: tuple[Rung, ...]
    question: Question | None
    settings: Pairs = ()
    whole: int = 1
    is_usual: bool = True

    @property
    def rung(self) -> Rung | None:
        """The taken rung."""
        return next((rung for rung in self.rungs if rung.verdict == "taken"), None)


def ladder_of(question: Question, figures: ModelFigures) -> Ladder:
    """Return the ladder of a job; without rungs if the memory of a rank is not known."""
    places = places_of(question, figures)
    if not places or places[0].node.room is None:
        return Ladder(rungs=(), question=question)
    rungs: list[Rung] = []
    taken: Attempt | None = None
    for rule in RUNGS:
        rung, attempt = _rung_of(rule, places)
        if taken is not None and rung.verdict == "taken":
            rung = replace(rung, verdict="not needed", why="not needed")
        elif rung.verdict == "taken":
            taken = attempt
        rungs.append(rung)
    if taken is None:
        return Ladder(rungs=tuple(rungs), question=None)
    return Ladder(
        rungs=tuple(rungs),
        question=_question_with(taken),
        settings=taken.settings,
        whole=taken.nodes if question.typed_nodes is None else math.ceil(taken.strategy.gpus / taken.place.ranks),
        is_usual=taken.place.first and not taken.settings,
    )


def _question_with(taken: Attempt) -> Question:
    """Return the question with what the taken rung sets. Measurements without it are of no use then."""
    question = taken.place.question
    if not taken.settings:
        return replace(question, evidence=evidence_for_work(question.evidence, taken.work))
    job = question.case.job.with_defaults(taken.settings)
    evidence = Evidence(links=question.evidence.links, devices=question.evidence.devices)
    return replace(question, case=replace(question.case, job=job), evidence=evidence)


def _rung_of(rule: RungRule, places: list[NodePlace]) -> tuple[Rung, Attempt | None]:
    """Return a rung at the first place where it fits, else as it is where its GPUs have most memory."""
    why = _why_impossible(rule.name, places[0])
    attempts: list[Attempt] = []
    for attempt in attempts_of(rule.name, places):
        attempts.append(attempt)
        if attempt.fits:
            break
    if not attempts:
        return Rung(name=rule.name, verdict="not possible", why=why or _NOTHING.get(rule.name, ""), rule=rule), None
    best = attempts[-1] if attempts[-1].fits else max(attempts, key=lambda one: one.strategy.largest)
    rung = _show_attempt(rule, best)
    lacking = _what_it_lacks(rule.name, best)
    if why or (best.fits and lacking):
        return replace(rung, verdict="not possible", why=why or lacking), None
    if not best.fits:
        return replace(rung, verdict="too large", why=f"too large with {count(rung.batch, 'sample')}"), None
    return replace(rung, verdict="taken", why=_taken_words(best)), best


# --- why a rung is not possible


_NOTHING: dict[RungName, str] = {
    "larger node type": "no other node type with more memory that the request may use",
    "16-bit arithmetic": "the job computes in 16 bits, or its format is typed",
    "smaller micro-batch": "the batch per rank is typed",
    "state sharding": "the optimizer keeps no values, or sharding is typed",
    "tensor parallel": "a node has one rank, or the job's parameters allow none",
    "model parallel": "the job's parameters allow none",
    "model-data parallel": "the job's parameters allow none",
}
"""Why there is nothing to try on a rung."""


_OF_PARTS: tuple[RungName, ...] = ("state sharding", "tensor parallel", "model parallel", "model-data parallel")
"""Rungs on which a rank has a part of the model, or of the optimizer's values."""


def _why_whole(work: Workload) -> str:
    """Return why no rank may have only a part of the model or of the optimizer's values; empty: it may."""
    if work.needs_whole_models:
        return "gradient_lag and update_groups need the whole model on every rank"
    if rules_of(work.optimizer).needs_matrices:
        return f"{work.optimizer} needs whole weights on every rank"
    return ""


def _why_beyond(question: Question) -> str:
    """Return what shards more than every rung: a setting of the job, unless it is set, or another program."""
    if shards_weights(question):
        return SET_ALREADY
    return BY_SETTING if SHARD_WEIGHTS in question.case.job.parameters else BEYOND


def _why_impossible(name: RungName, place: NodePlace) -> str:
    """Return why no job with this data set, at this site, may take a rung; empty: it may."""
    work = work_with(place, {})
    if name == "beyond":
        return _why_beyond(place.question)
    if name in _OF_PARTS and (why := _why_whole(work)):
        return why
    if name in ("model parallel", "model-data parallel"):
        assert place.node.room is not None
        fits = dataset_fits_node(work.dataset_bytes, place.node.room)
        if name == "model parallel" and not fits:
            if work.dataset_bytes is None:
                return "the size of the data set is not known: model-data parallel"
            return f"the data set of {shorten(work.dataset_bytes)}B does not fit a node: model-data parallel"
        if name == "model-data parallel" and fits:
            return "the data set fits a node: model parallel"
    return ""


_NEEDED: dict[RungName, tuple[Role, ...]] = {"smaller micro-batch": ("batch_size_per_rank", "accumulation")}


def _what_it_lacks(name: RungName, attempt: Attempt) -> str:
    """Return why this request cannot take a rung that fits: what the job lacks, or too few nodes; empty if it can."""
    work, question = attempt.work, attempt.place.question
    typed, job = question.typed_nodes, question.case.job
    needed = [*_NEEDED.get(name, ()), *(["accumulation"] if work.pipeline_stages > 1 else [])]
    missing = [role for role in needed if role not in work.names]
    missing += [key for key, _ in attempt.settings if key not in job.parameters]
    if missing:
        return f"it would fit, but the job has no parameter {' or '.join(dict.fromkeys(missing))}"
    if typed is not None and attempt.nodes > typed:
        return too_few_words(attempt.nodes, typed)
    return ""


def too_few_words(nodes: int, typed: int | None) -> str:
    """Return why a rung that needs so many nodes is not possible on the ``typed`` ones."""
    return f"it needs {count(nodes, 'node')}, not {typed}"


# --- figures and words


def _show_attempt(rule: RungRule, attempt: Attempt) -> Rung:
    """Return the rung with its memory, and with the predicted time and cost of an epoch on its nodes."""
    place, work, strategy = attempt.place, attempt.work, attempt.strategy
    room = place.node.room
    assert room is not None
    # What does not fit is shown with the samples that it lacks room for.
    batch = min(strategy.largest, work.per_rank or attempt.needed) if attempt.fits else attempt.needed
    replicas = max(1, attempt.nodes * place.ranks // strategy.gpus)
    parts = math.ceil((work.per_rank or batch) / batch)
    whole = Batch(per_rank=batch, replicas=replicas, accumulation=parts)
    step = in_pipeline(whole, work, max(batch, strategy.largest))
    found = Rung(
        name=rule.name,
        verdict="too large",
        why="",
        rule=rule,
        node_type=place.name,
        nodes=attempt.nodes,
        gpus=strategy.gpus,
        batch=step.per_rank,
        memory=memory(strategy.model, work.optimizer, step.per_rank, room, strategy.arrangement),
        settings=attempt.settings,
    )
    return _predict(found, attempt, step)


def _predict(rung: Rung, attempt: Attempt, batch: Batch) -> Rung:
    place, work = attempt.place, attempt.work
    known = place.question.evidence
    question = replace(place.question, evidence=Evidence(links=known.links, devices=known.devices))
    predictor = Predictor(
        question=question,
        work=work,
        node=place.node,
        figures=place.figures,
        strategy=attempt.strategy,
        cap=batch_cap(work.samples, known_batches(work, None)),
        facts=facts_of(work, None),
        timing=timing_of(question, work, place.node, place.figures),
    )
    if predictor.timing is None:
        return rung
    trial = place.trial if place.trial.nodes == attempt.nodes else trial_of(question, attempt.nodes)
    rate = predictor.expected_rate(trial, batch)
    epoch_s = work.samples / rate
    price = trial.bill.per_node_hour
    cost = None if price is None else price * attempt.nodes * epoch_s / HOUR
    return replace(rung, step_s=batch.total / rate, epoch_s=epoch_s, cost=cost)


def _taken_words(attempt: Attempt) -> str:
    """Return what a taken rung sets, in words."""
    place, words = attempt.place, " ".join(f"{key}={text}" for key, text in attempt.settings)
    node = "" if place.first else f"--node-type {place.name}"
    return " ".join(filter(None, ("fits:", node, words))).removesuffix(":")
