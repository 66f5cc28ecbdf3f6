"""The sections of a plan's reasoning: what connects the ranks of each framework."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.guidelines.framework import OTHER_FRAMEWORKS
from hpclaunch.planner.values import Forecast, PlanSection
from tests.builders import a_job, bundled_job
from tests.unit.planner.questions import plan_of


def about_updates(plan: Forecast) -> PlanSection:
    (found,) = [part for part in plan.sections if part.title.endswith("updates")]
    return found


@pytest.mark.parametrize(
    ("job", "connects"), [("cifar", "Horovod on MPI"), ("ddp", "torch.distributed: "), ("jax", "jax.distributed; ")]
)
def test_a_plan_says_what_connects_the_ranks(job: str, connects: str) -> None:
    part = about_updates(plan_of(bundled_job(job)))
    assert part.title == "framework and updates"
    assert part.reasons[0].verdict.startswith(connects)
    assert ("gRPC" in [one.name for one in part.declined]) == (job == "cifar")


@pytest.mark.parametrize(
    ("imports", "typed", "rule"),
    [
        (("torch",), {}, OTHER_FRAMEWORKS["pytorch"].rule),
        (("mpi4py",), {}, OTHER_FRAMEWORKS["mpi"].rule),
        (("tensorflow",), {"framework": "jax"}, OTHER_FRAMEWORKS["jax"].rule),
        ((), {"framework": "none"}, "synchronous SGD"),
    ],
)
def test_a_typed_framework_goes_before_the_imported_one(
    imports: tuple[str, ...], typed: dict[str, Any], rule: str
) -> None:
    part = about_updates(plan_of(replace(a_job(), imports=imports), **typed))
    assert part.reasons[0].rule.startswith(rule)
    assert "Horovod on MPI" not in str(part)
