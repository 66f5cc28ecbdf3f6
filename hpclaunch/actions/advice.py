"""Asks the planner for a run's recipe, for the node count where no one set it, and for the key of its measurements."""

from __future__ import annotations

from dataclasses import replace

from hpclaunch.config.job import AS_WRITTEN
from hpclaunch.core.spec import HOROVOD, Pairs, RunRecipe
from hpclaunch.resolve.case import Advice, Case
from hpclaunch.resolve.recipes import named_settings, recipe_faults, recipe_name_of


def advised(case: Case) -> Case:
    """Return the case with the planner's advice: the recipe's values are defaults of its job.

    Precedence of a parameter, highest first: typed, swept, the recipe that the request names, the planner's, the job
    file. With ``--recipe job`` the job file stays as it is, and the planner chooses only the node count, where none is
    given. Only a job with a ``training`` section has a planned recipe and measurements.
    """
    training, named = case.job.training, _free_settings(case)
    faults = recipe_faults(case)
    if faults:
        return replace(case, advice=Advice(objections=faults))
    if training is None:
        recipe = RunRecipe(name=recipe_name_of(case), advised=named, applied=named) if named else None
        return _with_recipe(case, named, Advice(recipe=recipe))
    from hpclaunch.planner.measured.calibrations import with_key

    # The settings of a named recipe count like typed ones: the planner fills in what neither has.
    asked = with_key(replace(case, request=replace(case.request, settings=(*named, *case.request.settings))))
    case = replace(case, calibration_key=asked.calibration_key)
    given = case.request.nodes is not None or case.job.resources.nodes != "auto"
    decided = (given and not training.large) or case.request.strategy not in (None, HOROVOD)
    if recipe_name_of(case) == AS_WRITTEN and decided:
        return replace(case, advice=Advice(recipe=RunRecipe(name=AS_WRITTEN)))
    from hpclaunch.planner.submission import advice_for

    advice, settings = advice_for(asked, named, given=given)
    return _with_recipe(case, settings, advice)


def _free_settings(case: Case) -> Pairs:
    """Return the settings of the named recipe that are neither typed nor swept."""
    taken = {name for name, _ in (*case.request.settings, *case.request.sweep)}
    return tuple((name, text) for name, text in named_settings(case) if name not in taken)


def _with_recipe(case: Case, settings: Pairs, advice: Advice) -> Case:
    return replace(case, job=case.job.with_defaults(settings), advice=advice)
