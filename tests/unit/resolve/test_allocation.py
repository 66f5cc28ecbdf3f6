"""A run inside an allocation: it has what that has, fits into it, and carries no flag of a queued job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.config.site import Site
from hpclaunch.core.errors import Fault
from hpclaunch.core.spec import JobSpec
from hpclaunch.core.spec_parts import Allocation
from hpclaunch.resolve import resolve
from hpclaunch.resolve.nodes.allocation import site_within
from tests.builders import a_case, a_context, a_job, a_site

WHOLE = Allocation(
    job_id="4711",
    hosts=("n1", "n2"),
    nodes="n[1-2]",
    cpus=32,
    gpus=4,
    account="m1",
    partition="other",
    qos="calm",
    walltime=7200,
    left=600,
)
PART = replace(WHOLE, cpus=8, gpus=1)


def resolved(allocation: Allocation, site: Site | None = None, **typed: Any) -> tuple[JobSpec, list[Fault]]:
    site = site or a_site()
    context = replace(a_context(), allocation=allocation)
    return resolve(a_case(site_within(site, allocation), a_job(restarts=5), context=context, **typed))


def test_the_default_is_all_nodes_of_the_allocation_its_places_and_its_walltime() -> None:
    spec, faults = resolved(WHOLE)
    assert not faults
    assert (spec.layout.nodes, spec.layout.tasks_per_node, spec.layout.gpus_per_node) == (2, 4, 4)
    assert (spec.account, spec.partition, spec.qos, spec.walltime) == ("m1", "other", "calm", 7200)
    assert {choice.origin for choice in spec.choices if choice.key in ("nodes", "partition")} == {"allocation 4711"}


def test_the_allocation_is_never_started_again_and_costs_nothing_more() -> None:
    spec, _ = resolved(WHOLE)
    assert (spec.restarts.most, spec.restarts.by, spec.cost) == (0, "none", None)


def test_of_a_part_of_a_node_the_defaults_take_that_part() -> None:
    spec, faults = resolved(PART)
    assert not faults
    assert (spec.layout.tasks_per_node, spec.layout.gpus_per_node, spec.layout.cpus_per_task) == (1, 1, 8)


def test_fewer_nodes_can_be_typed_and_more_are_refused() -> None:
    assert resolved(WHOLE, nodes=1)[0].layout.nodes == 1
    _, (fault,) = resolved(WHOLE, nodes=3)
    assert (fault.what, fault.where, fault.allowed, fault.next) == (
        "3 nodes requested",
        "allocation 4711",
        "at most 2 nodes",
        "--nodes 2",
    )


@pytest.mark.parametrize(
    ("typed", "what"),
    [
        ({"tasks_per_node": 2}, "2 tasks would share 1 GPUs"),
        ({"gpus_per_node": 2, "tasks_per_node": 1}, "2 GPUs per node requested"),
        ({"cpus_per_task": 9}, "1 tasks x 9 CPUs do not fit a node"),
    ],
)
def test_what_does_not_fit_the_part_of_a_node_is_refused(typed: dict[str, Any], what: str) -> None:
    assert what in [fault.what for fault in resolved(PART, **typed)[1]]


@pytest.mark.parametrize(
    ("flag", "typed"),
    [
        ("--account", {"account": "m2"}),
        ("--partition", {"partition": "batch"}),
        ("--qos", {"qos": "fast"}),
        ("--memory", {"memory": 1000}),
        ("--walltime", {"walltime": 60}),
        ("--after", {"after": ("run",)}),
        ("--after-any", {"after_any": ("run",)}),
        ("--sbatch", {"sbatch": ("--comment=x",)}),
        ("--restarts", {"restarts": 3}),
        ("--sweep", {"sweep": (("seed", "1,2"),)}),
        ("--at-once", {"at_once": 2}),
        ("--hosts", {"hosts_file": "hosts"}),
        ("--node-type A:N,B:N", {"further_nodes": (("cpu", "2"),)}),
    ],
)
def test_a_flag_of_a_queued_job_is_refused_by_its_name(flag: str, typed: dict[str, Any]) -> None:
    _, faults = resolved(WHOLE, **typed)
    assert f"{flag} is for a job of its own, and a run in the allocation 4711 has none" in [one.what for one in faults]


def test_the_node_type_is_that_of_the_constraint_else_that_of_the_partition() -> None:
    site = a_site()
    types = {
        "gpu": replace(site.node_types["gpu"], constraint="g", partition="batch"),
        "cpu": replace(site.node_types["cpu"], constraint="c", partition="thin"),
    }
    site = replace(site, node_types=types, partitions={})
    assert site_within(site, replace(WHOLE, features="c")).defaults.node_type == "cpu"
    assert site_within(site, replace(WHOLE, partition="thin")).defaults.node_type == "cpu"
    assert site_within(site, WHOLE).defaults.node_type == "gpu"


def test_an_allocation_whose_parts_are_not_known_limits_no_more_than_its_nodes() -> None:
    node = site_within(a_site(), replace(WHOLE, cpus=0, gpus=0)).node_types["gpu"]
    assert (node.nodes, node.gpus_per_node, node.cores) == (2, 4, 16)
