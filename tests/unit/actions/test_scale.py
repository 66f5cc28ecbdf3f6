"""The design of a scaling study: one process first, alike in everything but its ranks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpclaunch.actions.measuring.scale import StudyWish, design
from hpclaunch.actions.system import System
from hpclaunch.core.errors import Refused
from hpclaunch.core.spec import Request

REQUEST = Request(target="cifar", site="perlmutter", account="m1234_g", data_dir="/data", accept_unverified=True)


def test_one_process_has_a_gpu_and_the_cpus_of_a_rank(system: System) -> None:
    found = design(system, REQUEST, StudyWish(nodes=(1, 2)))
    layouts = [one.spec.layout for one in found.prepared]
    assert [(one.nodes, one.tasks_per_node, one.gpus_per_node) for one in layouts] == [(1, 1, 1), (1, 4, 4), (2, 4, 4)]
    assert len({one.cpus_per_task for one in layouts}) == 1
    batches = [dict(one.spec.parameters)["batch_size_per_rank"] for one in found.prepared]
    assert batches == ["2048", "512", "256"] and found.study.batch == 2048
    keys = {one.spec.calibration_key for one in found.prepared}
    assert keys == {found.study.key}


def test_a_global_batch_that_the_job_divides_is_the_one_that_is_kept(system: System) -> None:
    typed = replace(REQUEST, target="chips", settings=(("global_batch_size", "1024"),))
    found = design(system, typed, StudyWish(nodes=(1, 2)))
    parameters = [dict(one.spec.parameters) for one in found.prepared]
    samples = [int(one["batch_size_per_rank"]) * int(one["accumulation"]) for one in parameters]
    assert samples == [1024, 256, 128] and parameters[0]["accumulation"] == "4"  # a GPU does not hold 1,024 chips
    assert {one["global_batch_size"] for one in parameters} == {"0"}


def test_every_layout_has_its_prediction_and_its_price(system: System) -> None:
    points = design(system, REQUEST, StudyWish(nodes=(1, 2), mode="weak")).study.points
    assert [point.per_hour for point in points] == [0.25, 1.0, 2.0] and {point.unit for point in points} == {
        "node-hour"
    }
    assert all(point.predicted and point.predicted[0] < point.predicted[1] < point.predicted[2] for point in points)
    assert not any(point.from_measurements or point.run_dirs for point in points)


def test_the_folder_belongs_to_what_is_measured_not_to_node_counts_and_repeats(system: System) -> None:
    def folder(request: Request = REQUEST, **wish: object) -> str:
        return design(system, request, StudyWish(**{"nodes": (1, 2), **wish})).study.name  # type: ignore[arg-type]

    first = folder()
    assert first.startswith("scale-cifar-") and folder(nodes=(1, 2, 4), repeats=3) == first
    others = [
        folder(mode="weak"),
        folder(steps=50),
        folder(global_batch=1024),
        folder(replace(REQUEST, settings=(("precision", "bfloat16"),))),
        folder(replace(REQUEST, data_dir="/others")),
    ]
    assert len({first, *others}) == 6


def test_the_highest_cost_counts_all_repeats(system: System) -> None:
    cost = design(system, REQUEST, StudyWish(nodes=(1, 2), repeats=3)).cost()
    assert cost == (pytest.approx(3 * 0.25 * (0.25 + 1 + 2)), "node-hour")


def test_node_counts_that_the_site_refuses_are_an_error(system: System) -> None:
    with pytest.raises(Refused, match="local is a single machine"):
        design(system, replace(REQUEST, site="local", account=None), StudyWish(nodes=(1, 2)))


def test_a_reason_against_one_process_says_so(system: System) -> None:
    with pytest.raises(Refused, match="cannot run as one process") as refusal:
        design(
            system, replace(REQUEST, target="transformer", settings=(("tensor_parallel", "2"),)), StudyWish(nodes=(1,))
        )
    assert "tensor_parallel=1" in str(refusal.value)
