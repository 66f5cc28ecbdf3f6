"""A model that several ranks hold: what submit sets, and the layouts that are refused before anything is queued."""

from __future__ import annotations

from typing import Any

import pytest

from hpclaunch.actions.preparing.advice import advised
from hpclaunch.config.job import Job
from hpclaunch.config.parameters import Parameter
from hpclaunch.core.spec import JobSpec
from hpclaunch.launchers import LAUNCHERS
from hpclaunch.resolve import resolve
from hpclaunch.resolve.strategies import ranks_per_replica, replicas_of
from tests.unit.planner.questions import ask, with_parameters
from tests.unit.planner.test_ladder import RUNG_OF, a_job


def resolved(job: Job, **typed: Any) -> tuple[JobSpec, list[str]]:
    spec, faults = resolve(advised(ask(job, **{"account": "m1", **typed}).case))
    return spec, [fault.what for fault in faults]


@pytest.mark.parametrize("name", RUNG_OF)
@pytest.mark.parametrize("nodes", [None, 8])
def test_submit_sets_what_the_plan_chooses(name: str, nodes: int | None) -> None:
    from hpclaunch.planner.forecasting import forecast

    job, typed, _ = RUNG_OF[name]
    plan = forecast(ask(job, **typed, nodes=nodes))
    spec, faults = resolved(job, **typed, nodes=nodes)
    assert not faults
    assert (spec.layout.nodes, spec.node_type) == (plan.nodes, plan.node_type)
    values = dict(spec.parameters)
    assert all(values[key] == text for key, text in plan.rung_settings)
    assert spec.recipe is not None and set(plan.rung_settings) <= set(spec.recipe.applied)
    row = plan.chosen
    assert row is not None and row.batch is not None
    assert spec.recipe.global_batch == row.batch.total
    assert (values["batch_size_per_rank"], values["accumulation"]) == (
        str(row.batch.per_rank),
        str(row.batch.accumulation),
    )
    if plan.climbs:
        assert "does not hold the model" in spec.recipe.why[0] and spec.recipe.why[1].startswith(name)


def test_the_batch_of_a_replica_is_not_multiplied_by_its_ranks() -> None:
    typed = {"settings": (("tensor_parallel", "4"), ("batch_size_per_rank", "8"))}
    spec, faults = resolved(a_job(1e9, 1e8), nodes=4, **typed)
    assert not faults and spec.recipe is not None and spec.recipe.global_batch == 4 * 8
    assert any("4 replicas x 8 samples" in line for line in spec.recipe.why)


@pytest.mark.parametrize(
    ("typed", "what"),
    [
        ({"tensor_parallel": "3"}, "16 ranks cannot be whole replicas of 3 ranks (tensor_parallel=3)"),
        ({"pipeline_stages": "3"}, "16 ranks cannot be whole replicas of 3 ranks (pipeline_stages=3)"),
        (
            {"tensor_parallel": "4", "pipeline_stages": "8"},
            "16 ranks cannot be whole replicas of 32 ranks (tensor_parallel=4 pipeline_stages=8)",
        ),
    ],
)
def test_ranks_that_are_no_whole_replicas_are_refused(typed: dict[str, str], what: str) -> None:
    _, faults = resolved(a_job(1e9, 1e8), nodes=4, settings=tuple(typed.items()))
    assert faults == [what]


def test_layers_are_not_shared_across_the_border_of_a_node() -> None:
    _, faults = resolved(a_job(1e9, 1e8), nodes=3, settings=(("tensor_parallel", "3"),))
    assert faults == ["3 ranks would share layers across the borders of nodes, which have 4 ranks each"]
    _, whole = resolved(a_job(1e9, 1e8), nodes=2, settings=(("tensor_parallel", "8"),))
    assert not whole


def test_a_swept_split_is_checked_for_every_run() -> None:
    _, faults = resolved(a_job(1e9, 1e8), nodes=2, sweep=(("tensor_parallel", "1,2,3"),))
    assert faults == ["8 ranks cannot be whole replicas of 3 ranks (tensor_parallel=3)"]


@pytest.mark.parametrize("option", ["--distribution=cyclic", "--distribution=cyclic:block", "--distribution=plane=2"])
def test_a_cyclic_order_of_ranks_is_refused_for_a_divided_model_alone(option: str) -> None:
    divided = (("tensor_parallel", "2"),)
    _, faults = resolved(a_job(1e9, 1e8), nodes=2, settings=divided, sbatch=(option,))
    assert [fault for fault in faults if "must be neighbours" in fault]
    _, undivided = resolved(a_job(1e9, 1e8), nodes=2, sbatch=(option,))
    assert not [fault for fault in undivided if "must be neighbours" in fault]
    _, block = resolved(a_job(1e9, 1e8), nodes=2, settings=divided, sbatch=("--distribution=block:cyclic",))
    assert not [fault for fault in block if "must be neighbours" in fault]


def test_every_launcher_of_several_nodes_has_a_known_order() -> None:
    # These number by a list of hosts, which the script writes node by node.
    assert [name for name, row in LAUNCHERS.items() if not row.cyclic] == ["direct", "horovodrun", "local"]


def test_the_job_file_as_it_is_sets_nothing_and_is_refused() -> None:
    job, typed, _ = RUNG_OF["tensor parallel"]
    _, faults = resolved(job, **typed, nodes=4, recipe="job")
    assert faults == ["the model does not fit as the job file has it: too large with 32 samples"]


def test_measurements_of_a_divided_model_are_kept_apart() -> None:
    job, typed, _ = RUNG_OF["tensor parallel"]
    usual, divided = ask(job, **typed, nodes=1).case, advised(ask(job, **typed, nodes=1, account="m1").case)
    assert divided.advice.divides and divided.calibration_key != usual.calibration_key


def test_a_global_batch_is_divided_among_replicas() -> None:
    job = with_parameters(a_job(1e9, 1e8), {"global_batch_size": Parameter(default=0)})
    divided = (("tensor_parallel", "4"),)
    for total, expected in ((20, []), (18, ["18 does not divide among 4 replicas"])):
        typed = (*divided, ("global_batch_size", str(total)))
        case = ask(job, nodes=4, settings=typed, account="m1").case
        assert [fault.what for fault in resolve(case)[1]] == expected
    spec, _ = resolve(ask(job, nodes=4, account="m1").case)
    assert replicas_of(ask(job, settings=divided).case, spec.layout) == 4


def test_a_job_without_the_parameters_has_one_rank_for_each_replica() -> None:
    case = ask().case
    spec, _ = resolved(case.job, nodes=2)
    assert ranks_per_replica(case.job) == 1 and replicas_of(case, spec.layout) == 8
    assert ranks_per_replica(a_job(1e9, 1e8), (("tensor_parallel", "2"), ("pipeline_stages", "x"))) == 2
