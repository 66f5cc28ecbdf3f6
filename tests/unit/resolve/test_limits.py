"""Each kind of limit that a request can break, and the nearest request that is taken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.config.limits import Bin, Limits, Override
from hpclaunch.resolve.nodes.limits import (
    Ask,
    distance,
    flags,
    longest_walltime,
    nearest_allowed,
    suggestion,
    violations,
)
from tests.builders import HOUR

ASK = Ask(node_type="gpu", nodes=4, gpus=4, walltime=2 * HOUR, gpu_type="a100", tasks=4, cpus=8, memory=1024)
BINS = (Bin(max_nodes=2, max_walltime=HOUR), Bin(max_nodes=8, max_walltime=6 * HOUR))


def told(limits: Limits, **changes: Any) -> list[str]:
    return [str(violation) for violation in violations(limits, asked(**changes))]


def asked(**changes: Any) -> Ask:
    return replace(ASK, **changes)


@pytest.mark.parametrize(
    ("limits", "violation"),
    [
        (Limits(max_nodes=3), "4 nodes requested; allowed: at most 3 nodes"),
        (Limits(max_nodes=1), "4 nodes requested; allowed: at most 1 node"),
        (Limits(min_nodes=5), "4 nodes requested; allowed: at least 5 nodes"),
        (Limits(max_walltime=HOUR), "walltime 02:00:00 requested; allowed: at most 01:00:00"),
        (Limits(max_gpus_per_node=2), "4 GPUs per node requested; allowed: at most 2 GPUs per node"),
        (Limits(max_gpus=15), "16 GPUs requested; allowed: at most 15 GPUs"),
        (Limits(max_gpus=0), "16 GPUs requested; allowed: at most 0 GPUs"),
        (Limits(max_gpus_of_type={"a100": 15}), "16 a100 GPUs requested; allowed: at most 15 a100 GPUs"),
        (
            Limits(max_gpus_of_type_per_node={"a100": 1}),
            "4 a100 GPUs per node requested; allowed: at most 1 a100 GPU per node",
        ),
        (Limits(min_gpus_of_type={"h100": 1}), "0 h100 GPUs requested; allowed: at least 1 h100 GPU"),
        (Limits(max_cpus=31), "32 CPUs requested; allowed: at most 31 CPUs"),
        (Limits(min_cpus=33), "32 CPUs requested; allowed: at least 33 CPUs"),
        (Limits(max_cpus_per_node=7), "8 CPUs per node requested; allowed: at most 7 CPUs per node"),
        (Limits(max_memory=1024), "4G of memory requested; allowed: at most 1G of memory"),
        (Limits(min_memory=5000), "4G of memory requested; allowed: at least 5000M of memory"),
        (
            Limits(max_memory_per_node=1000),
            "1G of memory per node requested; allowed: at most 1000M of memory per node",
        ),
        (Limits(node_types=("cpu", "knl")), "node type gpu requested; allowed: cpu, knl"),
        (Limits(by_node_type={"gpu": Override(max_nodes=2)}), "4 nodes requested; allowed: at most 2 nodes"),
        (
            Limits(max_walltime=3 * HOUR, by_node_type={"gpu": Override(max_walltime=HOUR)}),
            "walltime 02:00:00 requested; allowed: at most 01:00:00",
        ),
    ],
)
def test_each_limit_that_is_broken_is_told(limits: Limits, violation: str) -> None:
    assert told(limits) == [violation]


@pytest.mark.parametrize(
    "limits",
    [
        Limits(),
        Limits(max_nodes=4, min_nodes=4, max_walltime=2 * HOUR, max_gpus_per_node=4, node_types=("cpu", "gpu")),
        Limits(max_gpus=16, max_gpus_of_type={"a100": 16, "h100": 0}, max_gpus_of_type_per_node={"a100": 4}),
        Limits(max_cpus=32, min_cpus=32, max_cpus_per_node=8),
        Limits(max_memory=4096, min_memory=4096, max_memory_per_node=1024),
        Limits(max_nodes=3, by_node_type={"gpu": Override(max_nodes=4)}),
        Limits(by_node_type={"cpu": Override(max_nodes=1)}),
    ],
)
def test_a_limit_itself_is_still_allowed(limits: Limits) -> None:
    assert told(limits) == []


@pytest.mark.parametrize(("most", "near"), [(16, (4, 4)), (15, (3, 4)), (4, (1, 4)), (2, (1, 2))])
def test_the_gpus_of_a_job_leave_fewer_nodes_first(most: int, near: tuple[int, int]) -> None:
    found = nearest_allowed([Limits(max_gpus=most)], ASK)
    assert found is not None
    assert (found.nodes, found.gpus) == near


def test_all_broken_limits_are_told() -> None:
    limits = Limits(max_nodes=3, max_walltime=HOUR, max_gpus_per_node=1, node_types=("cpu",))
    assert [violation.split()[0] for violation in told(limits)] == ["node", "4", "4", "walltime"]


def test_a_walltime_that_nobody_said_breaks_nothing() -> None:
    assert told(Limits(max_walltime=60), walltime=0) == []


@pytest.mark.parametrize(
    ("nodes", "longest"),
    [(1, HOUR), (2, HOUR), (3, 6 * HOUR), (8, 6 * HOUR)],
)
def test_bins_tie_the_walltime_to_the_number_of_nodes(nodes: int, longest: int) -> None:
    assert longest_walltime(Limits(bins=BINS), nodes)[0] == longest
    assert told(Limits(bins=BINS), nodes=nodes, walltime=longest) == []
    (violation,) = told(Limits(bins=BINS), nodes=nodes, walltime=longest + 1)
    assert violation.endswith(f"with up to {2 if nodes < 3 else 8} nodes")


def test_more_nodes_than_any_bin_has_are_refused_unless_there_is_a_walltime_for_them() -> None:
    assert told(Limits(bins=BINS), nodes=9) == ["9 nodes requested; allowed: at most 8 nodes"]
    assert told(Limits(bins=BINS, max_walltime=2 * HOUR), nodes=9) == []
    assert told(Limits(bins=BINS, max_walltime=HOUR), nodes=9) == [
        "walltime 02:00:00 requested; allowed: at most 01:00:00"
    ]


@pytest.mark.parametrize(
    ("several", "typed"),
    [
        ([Limits()], ""),
        ([Limits(max_nodes=2)], "--nodes 2"),
        ([Limits(min_nodes=6)], "--nodes 6"),
        ([Limits(max_nodes=3), Limits(max_nodes=2, max_walltime=HOUR)], "--nodes 2 --walltime 01:00:00"),
        ([Limits(max_gpus_per_node=1)], "--tasks-per-node 1 --gpus-per-node 1"),
        ([Limits(max_gpus_of_type={"a100": 8})], "--nodes 2"),
        ([Limits(max_gpus_of_type_per_node={"a100": 2})], "--tasks-per-node 2 --gpus-per-node 2"),
        ([Limits(min_gpus_of_type={"a100": 20})], "--nodes 5"),
        ([Limits(max_cpus=16)], "--nodes 2"),
        ([Limits(max_cpus=7)], "--nodes 1 --cpus-per-task 1"),
        ([Limits(max_cpus_per_node=7)], "--cpus-per-task 1"),
        ([Limits(min_cpus=33)], "--nodes 5"),
        ([Limits(max_memory=1024)], "--memory 256M"),
        ([Limits(max_memory_per_node=1000)], "--memory 1000M"),
        ([Limits(min_memory=8192)], "--memory 2G"),
        ([Limits(bins=BINS), Limits(max_nodes=1)], "--nodes 1 --walltime 01:00:00"),
    ],
)
def test_the_nearest_request_that_all_take(several: list[Limits], typed: str) -> None:
    near = nearest_allowed(several, ASK)
    assert near is not None
    assert flags(ASK, near) == typed
    assert not any(violations(limits, near) for limits in several)


@pytest.mark.parametrize(
    "several",
    [
        [Limits(max_gpus=0)],
        [Limits(max_gpus_of_type={"a100": 0})],
        [Limits(max_nodes=0)],
        [Limits(max_cpus=3)],
        [Limits(min_gpus_of_type={"h100": 1})],
        [Limits(max_memory_per_node=100), Limits(min_memory=8000)],
        [Limits(node_types=("cpu",))],
        [Limits(max_nodes=2), Limits(min_nodes=3)],
        [Limits(min_nodes=9, bins=BINS)],
    ],
)
def test_where_nothing_is_taken_nothing_is_near(several: list[Limits]) -> None:
    assert nearest_allowed(several, ASK) is None


def test_how_far_apart_two_requests_are() -> None:
    assert distance(ASK, ASK) == 1.0
    assert distance(ASK, asked(nodes=2)) == 2.0
    assert distance(ASK, asked(nodes=8, walltime=HOUR)) == 4.0


def test_of_several_places_the_nearest_then_the_first_is_proposed() -> None:
    half, quarter = [Limits(max_nodes=2)], [Limits(max_nodes=1)]
    assert suggestion([("-p a", quarter), ("-p b", half), ("-p c", half)], ASK) == "--nodes 2 -p b"
    assert suggestion([("-p a", half), ("-p b", [Limits()])], ASK) == "-p b"
    assert suggestion([("-p a", [Limits(node_types=("cpu",))])], ASK) is None


def test_a_place_without_a_name_that_takes_all_is_not_taken_for_none() -> None:
    assert suggestion([("", [Limits()])], ASK) == ""
    assert suggestion([("", [Limits(node_types=("cpu",))])], ASK) is None


def test_a_request_is_told_as_a_person_would_say_it() -> None:
    assert str(ASK) == "4 gpu nodes for 02:00:00"
    assert str(asked(nodes=1, walltime=0)) == "1 gpu node"


@pytest.mark.parametrize("limits", [Limits(max_cpus=1), Limits(max_memory=1), Limits(max_gpus_of_type={"a100": 1})])
def test_what_is_not_known_of_a_request_breaks_nothing(limits: Limits) -> None:
    assert told(limits, cpus=0, memory=0, gpu_type="") == []
