from __future__ import annotations

from typing import Any

import pytest

from hpclaunch.job import Resources
from hpclaunch.site import NodeType
from tests.builders import a_desk, a_job, a_site, around, bundled_site, planned


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        # nodes, tasks per node, CPUs per task (2 x floor(the GPUs' part of 16 cores / tasks)), GPUs per node
        ({}, (1, 4, 8, 4)),
        ({"nodes": 4}, (4, 4, 8, 4)),
        ({"tasks_per_node": 1}, (1, 1, 8, 1)),
        ({"tasks_per_node": 2}, (1, 2, 8, 2)),
        ({"tasks_per_node": 3}, (1, 3, 8, 3)),
        ({"tasks_per_node": 2, "gpus_per_node": 4}, (1, 2, 16, 4)),
        ({"tasks_per_node": 8, "gpus_per_node": 0}, (1, 8, 4, 0)),
        ({"tasks_per_node": 32, "gpus_per_node": 0, "cpus_per_task": 1}, (1, 32, 1, 0)),
        ({"cpus_per_task": 2}, (1, 4, 2, 4)),
        ({"node_type": "cpu"}, (1, 1, 32, 0)),
        ({"node_type": "cpu", "tasks_per_node": 5}, (1, 5, 6, 0)),
    ],
)
def test_layouts(typed: dict[str, Any], expected: tuple[int, int, int, int]) -> None:
    layout = planned(**typed).layout
    assert (layout.nodes, layout.tasks_per_node, layout.cpus_per_task, layout.gpus_per_node) == expected


@pytest.mark.parametrize(("tasks", "cpus"), [(1, 128), (2, 64), (4, 32)])
def test_cpus_per_task_on_perlmutter_are_those_that_nersc_prints(tasks: int, cpus: int) -> None:
    spec = planned(bundled_site("perlmutter"), account="m1234", qos="regular", tasks_per_node=tasks)
    assert spec.layout.cpus_per_task == cpus


@pytest.mark.parametrize(("tasks", "cpus"), [(1, 8), (2, 4), (8, 1), (16, 1)])
def test_this_machines_cpus_are_counted_not_read(tasks: int, cpus: int) -> None:
    assert planned(a_desk(), tasks_per_node=tasks).layout.cpus_per_task == cpus


@pytest.mark.parametrize(
    ("node", "tasks"),
    [
        (NodeType(title="x", cores_per_node=8), 1),
        (NodeType(title="x", cores_per_node=8, gpus_per_node=2), 2),
        (NodeType(title="x", cores_per_node=8, gpus_per_node=2, default_tasks_per_node=1), 1),
    ],
)
def test_default_tasks_per_node(node: NodeType, tasks: int) -> None:
    assert planned(a_site(node_types={"gpu": node})).layout.tasks_per_node == tasks


@pytest.mark.parametrize(("nodes", "planned_for"), [("auto", 1), (3, 3)])
def test_nodes_of_a_job(nodes: Any, planned_for: int) -> None:
    assert planned(job=a_job(resources=Resources(nodes=nodes))).layout.nodes == planned_for


@pytest.mark.parametrize(
    ("typed", "warned"), [({"tasks_per_node": 2}, True), ({}, False), ({"node_type": "cpu"}, False)]
)
def test_idle_gpus_are_warned_of(typed: dict[str, Any], warned: bool) -> None:
    assert ("2 of the 4 GPUs of every node are not asked for" in planned(**typed).warnings) is warned


@pytest.mark.parametrize(
    ("site", "expect_gpu"),
    [(a_site(), "1"), (bundled_site("testcluster"), "0"), (a_desk(), "0")],
    ids=lambda x: str(x)[:20],
)
def test_row_28_the_ranks_are_told_whether_to_expect_a_gpu(site: Any, expect_gpu: str) -> None:
    assert dict(planned(site).environment)["HPCLAUNCH_EXPECT_GPU"] == expect_gpu


def test_row_29_the_gpus_of_this_machine_are_numbered_only_as_far_as_they_are_asked_for() -> None:
    gpus = {"box": NodeType(title="x", cores_per_node=8, gpus_per_node=4)}
    seen = [
        dict(planned(a_desk(node_types=gpus), tasks_per_node=n).environment)["CUDA_VISIBLE_DEVICES"] for n in (1, 2)
    ]
    assert seen == ["0", "0,1"]


def test_row_04_the_ranks_are_told_the_world_size() -> None:
    assert dict(planned(nodes=2).environment)["HPCLAUNCH_WORLD_SIZE"] == "8"


def test_hosts_of_a_file_carry_the_slots() -> None:
    spec = planned(
        a_desk(),
        surroundings=around(hosts=("a", "b", "c")),
        hosts_file="hosts",
        launcher="mpirun",
        nodes=2,
        tasks_per_node=3,
    )
    assert spec.hosts == ("a slots=3", "b slots=3")
    assert f"{spec.run_dir}/hosts" in spec.launch
