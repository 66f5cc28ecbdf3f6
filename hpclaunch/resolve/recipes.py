"""The recipe that a request names: its settings among the job's parameters, or why there is none of this name."""

from __future__ import annotations

from dataclasses import replace

from hpclaunch.config.job import AS_WRITTEN, PLAN
from hpclaunch.config.parameters import spell
from hpclaunch.core.errors import Fault, did_you_mean
from hpclaunch.core.spec import Pairs
from hpclaunch.resolve.case import Case


def recipe_name_of(case: Case) -> str:
    """Return the name of the request's recipe: the typed one, else the planner's."""
    return case.request.recipe or PLAN


def named_settings(case: Case) -> Pairs:
    """Return the settings of a recipe of the job file, as a command line spells them; none for any other recipe."""
    recipe = case.job.recipes.get(recipe_name_of(case))
    if recipe is None:
        return ()
    rows = case.job.parameters
    return tuple((name, spell(rows[name].with_default(value).default)) for name, value in recipe.settings.items())


def free_settings(case: Case) -> Pairs:
    """Return the settings of the named recipe that are neither typed nor swept."""
    taken = {name for name, _ in (*case.request.settings, *case.request.sweep)}
    return tuple((name, text) for name, text in named_settings(case) if name not in taken)


def as_typed(case: Case) -> Case:
    """Return the case with the settings of the named recipe as typed ones: the planner fills in what neither has."""
    settings = (*free_settings(case), *case.request.settings)
    return replace(case, request=replace(case.request, settings=settings))


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
