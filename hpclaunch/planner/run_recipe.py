"""The recipe of a run or of a sweep: its parameters, what was typed instead, and both in words; it predicts no time.

It is light: ``submit`` calls it at every start, and only with an unknown node count asks for a whole forecast.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product

from hpclaunch.config.job import Job, Role
from hpclaunch.config.parameters import Parameter, spell
from hpclaunch.core.errors import Refused
from hpclaunch.core.records import record
from hpclaunch.core.spec import Followers, Pairs, RunRecipe
from hpclaunch.core.units import count
from hpclaunch.guidelines.batch import Batch, batch_cap
from hpclaunch.guidelines.efficiency import NoiseScale
from hpclaunch.guidelines.figures import ModelFigures
from hpclaunch.planner.epochs import critical_batch_of
from hpclaunch.planner.fit import strategy_of
from hpclaunch.planner.machine import NodeModel
from hpclaunch.planner.recipe import Recipe, kept_batch, recipe_at, same_value
from hpclaunch.planner.workload import Workload, workload_of

Axes = tuple[tuple[str, tuple[str, ...]], ...]
CONTEXT: tuple[Role, ...] = ("batch_size_per_rank", "global_batch_size", "accumulation", "train_samples", "precision")
"""Typed values for which a recipe is made; all others are compared with it."""


_SCHEDULE: tuple[Role, ...] = ("warmup_epochs", "decay", "epochs")


@record
class RunQuestion:
    """What the recipe of a run depends on. ``name``: that of the recipe; ``named``: its settings in the job file.

    ``replicas``: the ranks that share a batch. ``planned``: the batch that the planner chose with the node count; None
    where the node count is given, so that the job's own batch per rank stays. ``node`` and ``figures`` tell how many
    samples fit the memory (None: not known).
    """

    job: Job
    name: str
    named: Pairs
    typed: Pairs
    axes: Axes
    replicas: int
    planned: Batch | None = None
    node: NodeModel | None = None
    figures: ModelFigures | None = None
    noise: NoiseScale | None = None

    def work(self, settings: Pairs) -> Workload:
        """Return the job's workload with these settings."""
        assert self.job.training is not None
        return workload_of(self.job, self.job.training, settings)

    def recipe(self, settings: Pairs) -> Recipe | None:
        """Return the recipe with these settings, or None if the run's global batch size is not known."""
        work = self.work(settings)
        batch = self._batch(work)
        return None if batch is None else recipe_at(batch, work, self.noise)

    def _batch(self, work: Workload) -> Batch | None:
        typed = {"batch_size_per_rank", "global_batch_size"} & work.typed
        if self.planned is not None and not typed:
            return self.planned
        try:
            return kept_batch(work, self.replicas, self._largest(work), total=work.global_batch, own=True)
        except ValueError:
            return None  # resolve.batch refuses it

    def _largest(self, work: Workload) -> int:
        """Return the most samples of a rank that fit its memory; the job's own batch where that is not known."""
        own = work.per_rank or work.global_batch or 1
        if self.node is None or self.figures is None:
            return own
        try:
            return strategy_of(work, self.node, self.figures).largest
        except Refused:
            return own  # the whole planner refuses it


@record
class Applied:
    """What a recipe changes: the job's defaults in ``settings``, and values that differ between runs of a sweep."""

    settings: Pairs
    recipe: RunRecipe
    followers: Followers | None = None
    warnings: tuple[str, ...] = ()


def applied(question: RunQuestion) -> Applied:
    """Return the recipe of a run; in a sweep every run has the recipe of its own values."""
    typed = (*question.named, *question.typed)
    roles = set(question.work(typed).names.values())
    axes = tuple((name, values) for name, values in question.axes if name in roles)
    names = [name for name, _ in axes]
    combined = [tuple(zip(names, values, strict=True)) for values in product(*(values for _, values in axes))]
    recipes = [question.recipe((*typed, *swept)) for swept in combined]
    known = [recipe for recipe in recipes if recipe is not None]
    if len(known) < len(recipes):
        return _without_batch(question)
    common, followers = _split(question.job, names, known)
    return _explained(question, known, (*question.named, *common), followers)


def _without_batch(question: RunQuestion) -> Applied:
    """Return a recipe that changes nothing but named settings: rates cannot follow a batch that is not known."""
    why = ("the global batch size is not known, so nothing follows it: see training.names in docs/job-files.md",)
    recipe = RunRecipe(name=question.name, advised=question.named, applied=question.named, why=why)
    return Applied(settings=question.named, recipe=recipe)


def _split(job: Job, swept: Sequence[str], recipes: Sequence[Recipe]) -> tuple[Pairs, Followers | None]:
    """Return the settings that all recipes share, and those that follow the swept parameters."""
    each = [dict(recipe.settings) for recipe in recipes]
    names = list(dict.fromkeys(name for settings in each for name in settings))
    rows = {name: tuple(one.get(name, spell(job.parameters[name].default)) for one in each) for name in names}
    common = tuple((name, values[0]) for name, values in rows.items() if len(set(values)) == 1)
    different = tuple((name, values) for name, values in rows.items() if len(set(values)) > 1)
    if not different:
        return common, None
    typed = tuple(name for name, _ in different if job.parameters[name].builtin is None)
    return common, Followers(by=tuple(swept), values=different, typed=typed)


def _explained(
    question: RunQuestion, recipes: Sequence[Recipe], settings: Pairs, followers: Followers | None
) -> Applied:
    """Return the recipe with its record, its words, and one warning of what was typed against it."""
    rows, swept = question.job.parameters, {name: ",".join(values) for name, values in question.axes}
    advised = _advice(question, recipes[0])
    decided = [(name, text) for name, text in question.typed if name in advised]
    against = tuple((name, text) for name, text in decided if _differs(rows[name], text, advised[name]))
    words = [f"{name}={text} (advised: {advised[name]})" for name, text in against]
    totals = sorted({recipe.batch.total for recipe in recipes})
    record = RunRecipe(
        name=question.name,
        advised=tuple((name, text) for name, text in advised.items() if name not in swept),
        applied=settings,
        typed=(*against, *((name, text) for name, text in swept.items() if name in advised)),
        global_batch=totals[0] if len(totals) == 1 else None,
        why=(*_words(question, recipes, {**advised, **dict(decided)}), *_set_words(settings, followers)),
    )
    warnings = _warnings(question, recipes[0].batch, totals[-1], words)
    return Applied(settings=settings, recipe=record, followers=followers, warnings=warnings)


def _advice(question: RunQuestion, recipe: Recipe) -> dict[str, str]:
    """Return all parameters that the recipe decides, with the values that it has if nothing but a batch is typed."""
    work = question.work((*question.named, *question.typed))
    context = {work.names[role] for role in CONTEXT if role in work.names}
    free = (*question.named, *(pair for pair in question.typed if pair[0] in context))
    untyped = question.recipe(free) or recipe
    rows = question.job.parameters
    decided = {name: spell(rows[name].default) for name in untyped.decides if name in rows}
    return {**decided, **dict(question.named), **dict(untyped.wanted)}


def _differs(parameter: Parameter, typed: str, advised: str) -> bool:
    """Whether a typed value is another one than the advised; a value that cannot be read is refused elsewhere."""
    try:
        return not same_value(parameter, typed, advised)
    except ValueError:
        return False


def _words(question: RunQuestion, recipes: Sequence[Recipe], values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the batch with its bounds, then optimizer and rate, then warm-up, decay and epochs (``values``)."""
    work = question.work((*question.named, *question.typed))
    critical = critical_batch_of(work, question.noise).samples
    bounds = (
        f"sqrt(N) = {math.sqrt(work.samples):.0f}, B_crit = {'not known' if critical is None else f'{critical:.0f}'}"
    )
    if len(recipes) > 1:
        totals = [recipe.batch.total for recipe in recipes]
        batches = f"B = {min(totals)}" if min(totals) == max(totals) else f"B = {min(totals)} to {max(totals)}"
        return (f"{batches}; {bounds}", "every run has the recipe of its own values")
    recipe = recipes[0]
    batch = recipe.batch
    parts = f" x {batch.accumulation} micro-batches" if batch.accumulation > 1 else ""
    rate = f"; learning rate {recipe.kept_rate.verdict}" if recipe.kept_rate else ""
    return (
        f"B = {batch.total} = {count(batch.replicas, 'rank')} x {count(batch.per_rank, 'sample')}{parts}; {bounds}",
        f"{recipe.optimizer.reason.verdict}{rate}",
        _schedule_words({role: values.get(name, "") for role, name in work.names.items()}),
    )


def _schedule_words(values: Mapping[Role, str]) -> str:
    """Return warm-up, decay and epochs in words, as far as the job has parameters for them."""
    climb, decay, epochs = (values.get(role, "") for role in _SCHEDULE)
    words = [f"{climb} epochs of warm-up" if climb.strip("0.") else "no warm-up"] if climb else []
    words += [f"{decay} decay" if decay != "constant" else "no decay"] if decay else []
    words += [f"epochs: {epochs}"] if epochs else []
    return ", ".join(words) or "the job has no parameters for warm-up, decay and epochs"


def _set_words(settings: Pairs, followers: Followers | None) -> tuple[str, ...]:
    if not settings and followers is None:
        return ("nothing to set: the job file has these values",)
    words = " ".join(f"{name}={text}" for name, text in settings)
    other = f"by {', '.join(followers.by)}: {', '.join(name for name, _ in followers.values)}" if followers else ""
    return (f"set: {'; '.join(filter(None, (words, other)))} (--recipe job: none of this)",)


def _warnings(question: RunQuestion, batch: Batch, largest: int, against: Sequence[str]) -> tuple[str, ...]:
    """Return one warning of what was typed against the advice; none if nothing was."""
    found = []
    if batch != question.planned:
        work = question.work((*question.named, *question.typed))
        critical = critical_batch_of(work, question.noise)
        found.append(batch_cap(work.samples, typed=largest, noise=question.noise, critical=critical).reason.warning)
    if against:
        found.append(f"typed against the advice: {', '.join(against)}")
    text = "; ".join(filter(None, found))
    return (text,) if text else ()
