"""The parts of a plan about its recipe: the explanation of optimizer and rates, and the number format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hpclaunch.guidelines.figures import ModelFigures
from hpclaunch.guidelines.hardware import Arithmetic, unmeasured_compute
from hpclaunch.guidelines.precision import PrecisionAdvice, choose_precision, recommended
from hpclaunch.guidelines.rates import DECAYS, in_words
from hpclaunch.guidelines.reasoning import Reason
from hpclaunch.planner.fitting.machine import NodeModel
from hpclaunch.planner.job.recipe import Recipe
from hpclaunch.planner.job.workload import Workload
from hpclaunch.planner.values import PlanSection


def recipe_sections(recipe: Recipe | None) -> tuple[PlanSection, ...]:
    """Return the sections that explain a recipe; none without one."""
    if recipe is None:
        return ()
    optimizer = recipe.optimizer
    return (
        PlanSection(
            title="optimizer", reasons=(optimizer.reason,), remarks=(*optimizer.alternatives, *optimizer.cautions)
        ),
        PlanSection(
            title="learning rate",
            reasons=recipe.reasons,
            remarks=tuple(f"another decay to try: {in_words(name)}, {DECAYS[name]}" for name in recipe.decay.others),
        ),
    )


def precision_for(work: Workload, node: NodeModel, figures: ModelFigures, allowed: Sequence[str]) -> PrecisionAdvice:
    """Return the number format that suits the hardware best, and its gain if the model of the GPU predicts one.

    ``allowed``: values of the job's parameter for the format. A job without one gets the rule, but no suggestion.
    """
    name, _ = recommended(node.device, on_gpu=node.on_gpus)
    gain = None
    if node.on_gpus and node.speed is not None and name != "float32":
        full: Arithmetic = "tf32" if node.speed.tf32 else "float32"
        flops, saved = figures.flops_per_sample, figures.saved_bytes_per_sample
        slow = unmeasured_compute(node.speed, full, flops, saved).sample_s.middle
        gain = slow / unmeasured_compute(node.speed, "mixed", flops, figures.model("mixed").saved_bytes).sample_s.middle
    typed = "precision" in work.typed
    found = choose_precision(node.device, work.number_format, on_gpu=node.on_gpus, typed=typed, gain=gain)
    if found.name not in allowed:
        return replace(found, suggestion="")
    option = f" (--set {work.names['precision']}={found.name})" if found.suggestion else ""
    return replace(found, suggestion=found.suggestion + option)


def warnings_of(reasons: tuple[Reason, ...]) -> list[str]:
    """Return the warnings of the reasons."""
    return [reason.warning for reason in reasons if reason.warning]
