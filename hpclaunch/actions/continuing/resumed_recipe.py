"""The recipe of a resumed run: kept with another number of ranks, or replaced by a new one; it submits nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from hpclaunch.actions.preparing.submit import Prepared
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.spec import Layout, Pairs, RunRecipe
from hpclaunch.planner.choice.resumed_layout import shared_again
from hpclaunch.planner.job.continued import Kept, Worlds, kept_recipe
from hpclaunch.planner.measured.calibrations import with_key
from hpclaunch.resolve.case import Advice, Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.nodes.sizing import sizing_of
from hpclaunch.resolve.program.recipes import recipe_name_of
from hpclaunch.resolve.strategies import replicas_of
from hpclaunch.runs import Run


def keep_recipe(case: Case, run: Run) -> tuple[Case, str]:
    """Return the case with the parameters of the run as its job's defaults, and a remark if its ranks are others.

    The batch per rank and the base rate change so that global batch and rate stay, and ranks share the model in another
    way if they cannot do it as before. Raises Refused if there is none.
    """
    parameters = {name: text for name, text in run.parameters().items() if name in case.job.parameters}
    sizing = sizing_of(replace(case, needs_account=False), Decisions())
    layout = sizing.layout
    before = _layout_of(run.spec().get("layout"), layout)
    as_before = replace(case, job=case.job.with_defaults(tuple(parameters.items())))
    untyped = replace(as_before, request=replace(case.request, settings=()))
    shared = shared_again(as_before, before, sizing)
    here = replace(as_before, job=as_before.job.with_defaults(shared))
    now, then = replicas_of(here, layout), replicas_of(untyped, before)
    worlds = Worlds(before=then, now=now, nodes=layout.nodes)
    # Ranks that are no whole replica (now = 0) are refused by resolve.program.division.
    kept = kept_recipe(case.job, parameters, worlds) if now and now != then else None
    changed = kept.settings if kept else ()
    # What was typed at submission and must change with the ranks counts no longer as typed.
    settings = tuple(pair for pair in case.request.settings if pair[0] not in dict(changed))
    case = replace(with_key(case), request=replace(case.request, settings=settings))
    recipe = _add_layout(_recorded_recipe(case, run, kept), shared)
    defaults = (*parameters.items(), *changed, *shared)
    case = replace(case, job=case.job.with_defaults(defaults), advice=Advice(recipe=recipe))
    remarks = [
        f"the ranks share the model with {name}={text} instead of {parameters[name]}"
        for name, text in shared
        if parameters[name] != text
    ]
    if kept:
        what = "world size" if now == layout.world_size else "replicas:"
        remarks.append(f"{what} {now} instead of {then}: {kept.remark}")
    return case, "; ".join(remarks)


def _add_layout(recipe: RunRecipe, shared: Pairs) -> RunRecipe:
    """Return the recipe with how ranks share the model now."""
    others = (pair for pair in recipe.applied if pair[0] not in dict(shared))
    return replace(recipe, applied=(*others, *shared))


def new_recipe(run: Run, prepared: Prepared) -> list[str]:
    """Return what a new recipe changes. Raises Refused if the run's checkpoints hold another optimizer's state."""
    before, after = run.parameters(), dict(prepared.spec.parameters)
    name = prepared.case.job.parameter_for("optimizer")
    differs = before.get(name) != after.get(name)
    if differs and any((run.path / "checkpoints").glob("step-*")):
        what = f"its checkpoints hold the state of {before.get(name)}, but this recipe has {name}={after.get(name)}"
        fault = Fault(where=f"--recipe {recipe_name_of(prepared.case)}", what=what, next="a new run: hpclaunch submit")
        raise Refused(fault)
    changes = [f"{key}={text} instead of {before.get(key)}" for key, text in after.items() if before.get(key) != text]
    recipe = prepared.spec.recipe
    if recipe is None:
        return []
    words = ", ".join(changes) or "it is the one that the run had"
    why = f" ({recipe.why[0]})" if recipe.why else ""
    return [f"a new recipe, {recipe.name}{why}: {words}"]


def _recorded_recipe(case: Case, run: Run, kept: Kept | None) -> RunRecipe:
    """Return the recipe in the run's record, with what changes with the ranks."""
    recorded = run.spec().get("recipe")
    known: Mapping[str, Any] = recorded if isinstance(recorded, dict) else {}
    recipe = RunRecipe(name=str(known.get("name", recipe_name_of(case))), advised=_pairs(known.get("advised")))
    recipe = replace(recipe, applied=_pairs(known.get("applied")), typed=_pairs(known.get("typed")))
    total = known.get("global_batch")
    if kept is None:
        return replace(recipe, global_batch=total if isinstance(total, int) else None)
    names = {name for name, _ in kept.settings}
    applied = (*(pair for pair in recipe.applied if pair[0] not in names), *kept.settings)
    typed = tuple(pair for pair in recipe.typed if pair[0] not in names)
    return replace(recipe, applied=applied, typed=typed, global_batch=kept.batch.total, why=(kept.remark,))


def _pairs(value: Any) -> Pairs:
    """Return recorded pairs of texts; whatever else a damaged record holds is left out."""
    members = value if isinstance(value, list) else []
    return tuple((str(pair[0]), str(pair[1])) for pair in members if isinstance(pair, list) and len(pair) == 2)


def _layout_of(recorded: Any, usual: Layout) -> Layout:
    """Return the layout in the run's record; ``usual`` where there is none."""
    names = {field.name for field in fields(Layout)}
    known = {key: value for key, value in recorded.items() if key in names} if isinstance(recorded, dict) else {}
    further = known.pop("further", ())
    layouts = zip(further, usual.further, strict=False) if isinstance(further, list) else ()
    return replace(usual, **known, further=tuple(_layout_of(one, layout) for one, layout in layouts))
