"""Asks the planner for a run's recipe, for the node count where no one set it, and for the key of its measurements."""

from __future__ import annotations

from dataclasses import replace

from hpclaunch.config.job import AS_WRITTEN
from hpclaunch.core.spec import HOROVOD, Pairs, RunRecipe
from hpclaunch.resolve.case import Advice, Case
from hpclaunch.resolve.program.recipes import ENOUGH_SAMPLES, as_typed, free_settings, recipe_faults, recipe_name_of


def advised(case: Case) -> Case:
    """Return the case with the planner's advice: the recipe's values are defaults of its job.

    Precedence of a parameter, highest first: typed, swept, the recipe that the request names, the planner's, the job
    file. With ``--recipe job`` the job file stays as it is, and the planner chooses only the node count, where none is
    given. Only a job with a ``training`` section has a planned recipe and measurements.
    """
    training, faults = case.job.training, recipe_faults(case)
    if faults:
        return replace(case, advice=Advice(objections=faults))
    if training is None:
        named = free_settings(case)
        recipe = RunRecipe(name=recipe_name_of(case), advised=named, applied=named) if named else None
        return _take_advice(case, Advice(recipe=recipe), named)
    from hpclaunch.planner.measured.calibrations import with_key

    if not case.calibration_key:  # profile has computed it for all of its runs
        case = replace(case, calibration_key=with_key(as_typed(case)).calibration_key)
    given = case.request.nodes is not None or case.job.resources.nodes != "auto" or case.context.allocation is not None
    decided = (given and not training.large) or case.request.strategy not in (None, HOROVOD)
    if recipe_name_of(case) == AS_WRITTEN and decided and not _has_own_or_small_batch(case):
        return _take_advice(case, Advice(recipe=RunRecipe(name=AS_WRITTEN)), ())
    from hpclaunch.planner.submission import advice_as_written, advice_for

    if recipe_name_of(case) == AS_WRITTEN and decided:
        return _take_advice(case, advice_as_written(case), ())
    found = _take_advice(case, *advice_for(case, given=given))
    if not found.advice.divides:
        return found
    return replace(found, calibration_key=with_key(as_typed(found)).calibration_key)


def _has_own_or_small_batch(case: Case) -> bool:
    """Whether a batch is typed or swept, or that of the job file is small: the planner looks if its ranks are worth it.

    For all other runs with ``--recipe job`` the planner is not imported.
    """
    names = {case.job.parameter_for(role) for role in ("batch_size_per_rank", "accumulation", "global_batch_size")}
    if not names.isdisjoint(name for name, _ in (*case.request.settings, *case.request.sweep)):
        return True
    row = case.job.parameters.get(case.job.parameter_for("batch_size_per_rank"))
    return row is not None and isinstance(row.default, int) and row.default < ENOUGH_SAMPLES


def _take_advice(case: Case, advice: Advice, settings: Pairs) -> Case:
    return replace(case, job=case.job.with_defaults(settings), advice=advice)
