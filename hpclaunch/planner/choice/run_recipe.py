"""The recipe of a run or of a sweep: its parameters, what was typed instead, and both in words; it predicts no time.

``submit`` always calls this; it runs a full forecast only if the node count is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

from hpclaunch.config.job import Job, Role
from hpclaunch.config.parameters import Parameter, spell
from hpclaunch.core.records import record
from hpclaunch.core.spec import Followers, Pairs, RunRecipe
from hpclaunch.core.units import count
from hpclaunch.guidelines.batch import Batch, batch_cap, typed_batch
from hpclaunch.guidelines.efficiency import NoiseScale
from hpclaunch.guidelines.figures import ModelFigures
from hpclaunch.guidelines.parallelism import Room
from hpclaunch.planner.fitting.fit import Strategy, enough_samples, strategy_of
from hpclaunch.planner.job.epochs import critical_batch_of, known_batches
from hpclaunch.planner.job.recipe import Recipe, in_pipeline, names_batch, own_batch, recipe_at, same_value
from hpclaunch.planner.job.workload import Workload, workload_of

Axes = tuple[tuple[str, tuple[str, ...]], ...]
CONTEXT: tuple[Role, ...] = ("batch_size_per_rank", "global_batch_size", "accumulation", "train_samples", "precision")
"""Typed values for which a recipe is made; all others are compared with it."""


_SCHEDULE: tuple[Role, ...] = ("warmup_epochs", "decay", "epochs")


@record
class RunQuestion:
    """What the recipe of a run depends on. ``name``: that of the recipe; ``named``: all its settings in the job file.

    ``replicas``: those of a job that does not divide its model, one for each rank. ``planned``: the batch that the
    planner chose with the node count; None where the node count is given, so that the job's own batch per rank stays.
    ``room`` and ``figures`` tell how many samples fit the memory (None: not known). ``held_by``: parameters that make
    the model fit, which are defaults of the ``job`` here; ``why``: their reasons in words.
    """

    job: Job
    name: str
    named: Pairs
    typed: Pairs
    axes: Axes
    replicas: int
    planned: Batch | None = None
    room: Room | None = None
    figures: ModelFigures | None = None
    noise: NoiseScale | None = None
    held_by: Pairs = ()
    why: tuple[str, ...] = ()

    @property
    def settings(self) -> Pairs:
        """The typed settings, and those of the named recipe that are neither typed nor swept."""
        return (*self.free(self.typed), *self.typed)

    def free(self, typed: Pairs) -> Pairs:
        """Return the settings of the named recipe that are neither ``typed`` nor swept."""
        taken = {*dict(typed), *dict(self.axes)}
        return tuple(pair for pair in self.named if pair[0] not in taken)

    def work(self, settings: Pairs) -> Workload:
        """Return the job's workload with these settings.

        Swept learning rates are base rates, which every run scales by the rule of its own optimizer and batch.
        """
        assert self.job.training is not None
        rate = self.job.parameter_for("learning_rate")
        training = replace(self.job.training, rate_is_typed=rate in dict(self.typed))
        work = workload_of(self.job, training, settings)
        if rate in dict(self.axes):
            return replace(work, rate_is_typed=False, tuned_rate=work.learning_rate, tuned_for=work.optimizer)
        return work

    def recipe(self, settings: Pairs) -> Recipe | None:
        """Return the recipe with these settings, or None if the run's global batch size is not known."""
        work = self.work(settings)
        batch = self._batch(work)
        return None if batch is None else recipe_at(batch, work, self.noise)

    def batch(self, settings: Pairs) -> Batch | None:
        """Return the global batch of a run with these settings, or None if it is not known."""
        return self._batch(self.work(settings))

    def is_planned(self, work: Workload) -> bool:
        """Whether the planner chose the batch."""
        return self.planned is not None and not names_batch(work)

    def _batch(self, work: Workload) -> Batch | None:
        if self.is_planned(work):
            return self.planned
        replicas, largest = self.replicas // work.gpus_per_replica, self._largest(work)
        if not replicas:
            return None  # resolve.program.division refuses it
        try:
            found = own_batch(work, replicas, largest)
            if work.global_batch is not None:
                found = typed_batch(work.global_batch, replicas, largest=largest)
        except ValueError:
            return None  # resolve.program.division refuses it
        return found and in_pipeline(found, work, largest)

    @property
    def is_whole(self) -> bool:
        """Whether the ranks are whole replicas; resolve.program.division refuses others."""
        return self.replicas % self.work(self.settings).gpus_per_replica == 0

    @property
    def fits(self) -> bool:
        """Whether the job's GPUs hold its model as it is, as far as this is known."""
        work = self.work(self.settings)
        strategy = self._strategy(work)
        return strategy is None or strategy.largest >= enough_samples(work)

    def _strategy(self, work: Workload) -> Strategy | None:
        """Return how the model is distributed; None if its figures are not known."""
        return strategy_of(work, self.room, self.figures, self.replicas) if self.figures else None

    def _largest(self, work: Workload) -> int:
        """Return the most samples of a rank that fit its memory; the job's own batch where that is not known."""
        strategy = self._strategy(work)
        if strategy is None or not strategy.largest:  # the whole planner refuses a model that fits nowhere
            return work.per_rank or work.global_batch or 1
        return strategy.largest


@record
class Applied:
    """What a recipe changes: the job's defaults in ``settings``, and values that differ between runs of a sweep.

    ``batches``: the typed and swept values of every run with its global batch, as far as batches are known.
    """

    settings: Pairs
    recipe: RunRecipe
    followers: Followers | None = None
    warnings: tuple[str, ...] = ()
    batches: tuple[tuple[Pairs, Batch], ...] = ()


def apply_recipe(question: RunQuestion) -> Applied:
    """Return the recipe of a run; in a sweep every run has the recipe of its own values."""
    names, every = _values_of_runs(question)
    recipes = [question.recipe(values) for values in every]
    known = [recipe for recipe in recipes if recipe is not None]
    if len(known) < len(recipes):
        return _unknown_batch(question)
    rows = question.job.parameters
    without = {name: spell(row.default) for name, row in rows.items()} | dict(question.free(question.typed))
    common, followers = _split(question.job, names, known, without)
    planned = {name for name, _ in (*common, *(followers.values if followers else ()))}
    own = [
        (name, text)
        for name, text in question.free(question.typed)
        if name not in planned and _differs(rows[name], text, spell(rows[name].default))
    ]
    found = _explain(question, known, (*question.held_by, *own, *common), followers)
    return replace(found, batches=tuple((pairs, one.batch) for pairs, one in zip(every, known, strict=True)))


def batches_of(question: RunQuestion) -> tuple[tuple[Pairs, Batch], ...]:
    """Return the typed and swept values of every run with its global batch; none if one of them is not known."""
    if question.job.training is None:
        return ()
    _, every = _values_of_runs(question)
    batches = [question.batch(values) for values in every]
    return tuple((values, batch) for values, batch in zip(every, batches, strict=True) if batch) if all(batches) else ()


def _values_of_runs(question: RunQuestion) -> tuple[list[str], list[Pairs]]:
    """Return the swept parameters that a recipe depends on, and the settings of every combination of their values."""
    typed = question.settings
    roles = set(question.work(typed).names.values())
    axes = tuple((name, values) for name, values in question.axes if name in roles)
    names = [name for name, _ in axes]
    combined = [tuple(zip(names, values, strict=True)) for values in product(*(values for _, values in axes))]
    return names, [(*typed, *swept) for swept in combined]


def _unknown_batch(question: RunQuestion) -> Applied:
    """Return a recipe that changes nothing but named settings: rates cannot follow a batch that is not known."""
    why = ("the global batch size is not known, so nothing follows it: see training.names (hpclaunch docs job-files)",)
    settings = (*question.held_by, *question.free(question.typed))
    recipe = RunRecipe(name=question.name, advised=question.named, applied=settings, why=(*question.why, *why))
    return Applied(settings=settings, recipe=recipe)


def _split(
    job: Job, swept: Sequence[str], recipes: Sequence[Recipe], without: Mapping[str, str]
) -> tuple[Pairs, Followers | None]:
    """Return the settings that all recipes share, and those that follow the swept parameters.

    ``without``: the value of each parameter that a recipe does not set.
    """
    each = [dict(recipe.settings) for recipe in recipes]
    names = dict.fromkeys(name for settings in each for name in settings)
    common: list[tuple[str, str]] = []
    following: list[tuple[str, tuple[str, ...]]] = []
    for name in names:
        row = job.parameters[name]
        texts = [settings.get(name, without[name]) for settings in each]
        if len(set(texts)) == 1:
            common.append((name, texts[0]))
        else:
            following.append((name, tuple(spell(row.parse(text)) for text in texts)))
    if not following:
        return tuple(common), None
    # The program does not know the default of such a parameter, so its value is passed like a typed one.
    typed = tuple(name for name, _ in following if job.parameters[name].builtin is None)
    return tuple(common), Followers(by=tuple(swept), values=tuple(following), typed=typed)


def _explain(question: RunQuestion, recipes: Sequence[Recipe], settings: Pairs, followers: Followers | None) -> Applied:
    """Return the recipe with its record, its words, and one warning of what was typed against it."""
    swept = {name: ",".join(values) for name, values in question.axes}
    advised = {**_advice(question, recipes[0]), **dict(question.held_by)}
    against = _typed_against(question, advised)
    totals = sorted({recipe.batch.total for recipe in recipes})
    explained = RunRecipe(
        name=question.name,
        advised=tuple((name, text) for name, text in advised.items() if name not in swept),
        applied=settings,
        typed=(*against, *((name, text) for name, text in swept.items() if name in advised)),
        global_batch=totals[0] if len(totals) == 1 else None,
        why=(
            *_name_words(question),
            *question.why,
            *_words(question, recipes, _final_values(question, recipes[0])),
            *_set_words(settings, followers),
        ),
    )
    contrasts = ", ".join(f"{name}={text} (advised: {advised[name]})" for name, text in against)
    words = [f"typed against the advice: {contrasts}"] if against else []
    doubts = dict.fromkeys(recipe.doubt for recipe in recipes if recipe.doubt)
    warnings = _warnings(question, totals[-1], [*words, *doubts])
    return Applied(settings=settings, recipe=explained, followers=followers, warnings=warnings)


def _typed_against(question: RunQuestion, advised: Mapping[str, str]) -> Pairs:
    """Return the typed settings that differ from the advice."""
    rows = question.job.parameters
    decided = [(name, text) for name, text in question.typed if name in advised]
    return tuple((name, text) for name, text in decided if _differs(rows[name], text, advised[name]))


def _final_values(question: RunQuestion, recipe: Recipe) -> dict[str, str]:
    """Return the parameters of a run with their values."""
    defaults = {name: spell(row.default) for name, row in question.job.parameters.items()}
    return {**defaults, **dict(question.settings), **dict(recipe.settings)}


def _advice(question: RunQuestion, recipe: Recipe) -> dict[str, str]:
    """Return all parameters that the recipe decides, with the values that it has if nothing but a batch is typed."""
    work = question.work(question.settings)
    context = {work.names[role] for role in CONTEXT if role in work.names}
    batches = tuple(pair for pair in question.typed if pair[0] in context)
    alone = replace(question, typed=batches)
    untyped = alone.recipe(alone.settings) or recipe
    rows = question.job.parameters
    decided = {name: spell(rows[name].default) for name in untyped.decides if name in rows}
    return {**decided, **dict(untyped.wanted), **dict(question.free(batches)), **dict(untyped.settings)}


def _differs(parameter: Parameter, typed: str, advised: str) -> bool:
    """Whether a typed value is another one than the advised; a value that cannot be read is refused elsewhere."""
    try:
        return not same_value(parameter, typed, advised)
    except ValueError:
        return False


def _name_words(question: RunQuestion) -> tuple[str, ...]:
    """Return what the named recipe is; nothing for the planner's."""
    recipe = question.job.recipes.get(question.name)
    if recipe is None:
        return ()
    batch = f"; for B = {recipe.global_batch}" if recipe.global_batch else ""
    return (f"{recipe.summary}{batch}",)


def _words(question: RunQuestion, recipes: Sequence[Recipe], values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the batch with its bounds, then optimizer and rate, then warm-up, decay and epochs (``values``)."""
    work = question.work(question.settings)
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
    noun = "rank" if work.gpus_per_replica == 1 else "replica"
    return (
        f"B = {batch.total} = {count(batch.replicas, noun)} x {count(batch.per_rank, 'sample')}{parts}; {bounds}",
        recipe.optimizer.reason.verdict,
        ", ".join([*_rate_words(recipe), *_schedule_words({role: values[name] for role, name in work.names.items()})]),
    )


def _rate_words(recipe: Recipe) -> list[str]:
    """Return the rate in training, with the rule behind it; nothing for a job without a rate."""
    if recipe.rate is None:
        return []
    if recipe.other_rate is not None:
        return [f"learning rate {recipe.other_rate:.4g} (by the rule: {recipe.rate.scaled:.4g})"]
    return [f"learning rate {recipe.rate.reason.verdict}"]


def _schedule_words(values: Mapping[Role, str]) -> list[str]:
    """Return warm-up, decay and epochs in words, as far as the job has parameters for them."""
    climb, decay, epochs = (values.get(role, "") for role in _SCHEDULE)
    words = []
    if climb:
        words.append(f"{count(float(climb), 'epoch')} of warm-up" if float(climb) else "no warm-up")
    if decay:
        words.append("no decay" if decay == "constant" else f"{decay} decay")
    if epochs:
        words.append(f"epochs: {epochs}")
    return words


def _set_words(settings: Pairs, followers: Followers | None) -> tuple[str, ...]:
    if not settings and followers is None:
        return ("nothing to set: the job file has these values",)
    words = " ".join(f"{name}={text}" for name, text in settings)
    other = f"by {', '.join(followers.by)}: {', '.join(name for name, _ in followers.values)}" if followers else ""
    return (f"set: {'; '.join(filter(None, (words, other)))} (--recipe job: as in the job file)",)


def _warnings(question: RunQuestion, largest: int, against: Sequence[str]) -> tuple[str, ...]:
    """Return one warning, of the ``largest`` batch and of what was typed ``against`` the advice; none without these."""
    found, work = [], question.work(question.settings)
    if question.axes or not question.is_planned(work):
        found.append(batch_cap(work.samples, known_batches(work, question.noise), typed=largest).reason.warning)
    own = question.job.recipes.get(question.name)
    if own and own.global_batch not in (None, largest):
        found.append(f"the recipe {question.name} is for B = {own.global_batch}")
    text = "; ".join(filter(None, (*found, *against)))
    return (text,) if text else ()
