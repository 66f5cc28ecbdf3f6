"""The recipe that a request names: its settings among the job's parameters, or why there is none of this name."""

from __future__ import annotations

from dataclasses import replace

from hpclaunch.config.job import AS_WRITTEN, PLAN, Job
from hpclaunch.config.parameters import spell
from hpclaunch.core.errors import Fault, did_you_mean
from hpclaunch.core.spec import Pairs
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.nodes.placement import named_places
from hpclaunch.resolve.nodes.size import node_type_of

BFLOAT16 = "bfloat16"
ENOUGH_SAMPLES = 32
"""Of a rank in a step: a micro-batch of so many needs no more memory, as more are further micro-batches.

It is the smallest automatic batch per rank. With fewer, several ranks may be no faster than one process."""


def recipe_name_of(case: Case) -> str:
    """Return the name of the request's recipe: the typed one, else the planner's."""
    return case.request.recipe or PLAN


def named_settings(case: Case) -> Pairs:
    """Return the settings of a recipe of the job file, as a command line spells them; none for any other recipe.

    A decoder also gets bfloat16 where its GPUs have units for it, unless the job file is to stay as it is.
    """
    named = _settings_of_recipe(case)
    return (*(pair for pair in _format_of_a_decoder(case) if pair[0] not in dict(named)), *named)


def _settings_of_recipe(case: Case) -> Pairs:
    recipe, rows = case.job.recipes.get(recipe_name_of(case)), case.job.parameters
    settings = recipe.settings if recipe is not None else {}
    return tuple((name, spell(rows[name].with_default(value).default)) for name, value in settings.items())


def _format_of_a_decoder(case: Case) -> Pairs:
    """Return the number format that decoders are trained in, if the job takes it and the GPUs have units for it."""
    training, name = case.job.training, case.job.parameter_for("precision")
    row = case.job.parameters.get(name)
    if training is None or row is None or "decoder_layers" not in {*training.formulas, *training.figures}:
        return ()
    if recipe_name_of(case) == AS_WRITTEN or row.default != "float32" or BFLOAT16 not in (row.choices or ()):
        return ()
    decisions = Decisions()
    kind = case.site.node_types[node_type_of(case, named_places(case, decisions), decisions)]
    wanted = case.job.resources.gpus_per_node if case.request.gpus_per_node is None else case.request.gpus_per_node
    if wanted == 0 or not kind.gpus_per_node or kind.stand_in_gpus:
        return ()
    from hpclaunch.guidelines.precision import recommended

    found, _ = recommended(kind.gpu_model or "", on_gpu=True)
    return ((name, BFLOAT16),) if found == BFLOAT16 else ()


def free_settings(case: Case) -> Pairs:
    """Return the settings of the named recipe that are neither typed nor swept."""
    taken = {name for name, _ in (*case.request.settings, *case.request.sweep)}
    return tuple((name, text) for name, text in named_settings(case) if name not in taken)


def as_typed(case: Case) -> Case:
    """Return the case with the settings of the named recipe as typed ones: the planner fills in what neither has.

    The number format of a decoder is none of them: the plan sets it (``Job.formats``).
    """
    free, named = free_settings(case), {name for name, _ in _settings_of_recipe(case)}
    settings = (*(pair for pair in free if pair[0] in named), *case.request.settings)
    job = rated(case).with_formats(pair for pair in free if pair[0] not in named)
    return replace(case, job=job, request=replace(case.request, settings=settings))


def rated(case: Case) -> Job:
    """Return the job with the rate of the request's recipe, with which a typed one is compared; not if rates are swept.

    Swept rates are base rates of the job's own batch.
    """
    name, request = case.job.parameter_for("learning_rate"), case.request
    if name in dict(request.sweep):
        return case.job
    return case.job.with_rate_of(recipe_name_of(case), rate_is_typed=name in dict(request.settings))


def sized(case: Case) -> Case:
    """Return the case with the figures of its job's training for the settings of the request and of its recipe."""
    return replace(case, job=case.job.sized((*free_settings(case), *case.request.settings)))


def recipe_faults(case: Case) -> tuple[Fault, ...]:
    """Return why the typed recipe does not exist; none if it does, or if none was typed."""
    job, typed = case.job, case.request.recipe
    known = (*([PLAN] if job.training else []), AS_WRITTEN, *job.recipes)
    if typed is None or typed in known:
        return ()
    what = f"{job.name} has no recipe {typed!r}{did_you_mean(typed, known)}"
    after = f"hpclaunch jobs show {case.request.target}"
    if typed == PLAN:
        what = f"{job.name} has no 'training' section, so its recipe cannot be planned"
        after = "leave --recipe out, or describe the training in its job file (hpclaunch docs job-files)"
    return (Fault(where="--recipe", what=what, allowed=", ".join(known), next=after),)
