from __future__ import annotations

from typing import Any

import pytest

from hpclaunch.config.job import Resources
from hpclaunch.config.limits import Limits
from hpclaunch.config.site import GpuRequest, NodeType, Site
from tests.builders import a_context, a_desk, a_job, a_site, bundled_site, origin_of, planned, refused


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
    assert ("2 of the 4 GPUs of every node are not requested" in planned(**typed).warnings) is warned


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
        context=a_context(hosts=("a", "b", "c")),
        hosts_file="hosts",
        launcher="mpirun",
        nodes=2,
        tasks_per_node=3,
    )
    assert spec.hosts == ("a slots=3", "b slots=3")
    assert f"{spec.run_dir}/hosts" in spec.launch


def placed(whole_nodes: bool, directive: Any = "gpus-per-node") -> Site:
    """A site whose only partition gives out whole nodes, or parts of them."""
    return a_site(partitions={"batch": Limits(whole_nodes=whole_nodes)}, gpus=GpuRequest(directive=directive))


@pytest.mark.parametrize("directive", ["gpus-per-node", "gpus", "gres"])
def test_on_whole_nodes_all_gpus_and_cpus_are_asked_for(directive: str) -> None:
    spec = planned(placed(True, directive), tasks_per_node=2)
    layout = spec.layout
    assert (layout.whole_nodes, layout.gpus_per_node, layout.cpus_per_task) == (True, 4, 16)
    assert origin_of(spec, "gpus per node") == ("4", "whole nodes")


@pytest.mark.parametrize("directive", ["gpus-per-task", "none"])
def test_on_whole_nodes_gpus_that_are_not_asked_for_by_the_node_are_those_of_the_tasks(directive: str) -> None:
    layout = planned(placed(True, directive), tasks_per_node=2).layout
    assert (layout.gpus_per_node, layout.cpus_per_task) == (2, 16)


@pytest.mark.parametrize(("tasks", "cpus"), [(1, 8), (2, 8), (3, 8), (4, 8)])
def test_on_shared_nodes_a_run_gets_the_cpus_that_go_with_its_gpus(tasks: int, cpus: int) -> None:
    layout = planned(placed(False), tasks_per_node=tasks).layout
    assert (layout.whole_nodes, layout.gpus_per_node, layout.cpus_per_task) == (False, tasks, cpus)


def test_on_shared_nodes_tasks_may_share_out_more_gpus_than_they_are() -> None:
    layout = planned(placed(False), tasks_per_node=1, gpus_per_node=2).layout
    assert (layout.gpus_per_node, layout.cpus_per_task) == (2, 16)


@pytest.mark.parametrize(
    ("whole_nodes", "typed", "warning"),
    [
        (True, {"tasks_per_node": 3}, "1 of the 4 GPUs of every node will be idle, and whole nodes are charged"),
        (False, {"tasks_per_node": 1, "gpus_per_node": 2}, "3 of the 4 GPUs of every node will be idle"),
        (False, {"tasks_per_node": 3}, "1 of the 4 GPUs of every node are not requested"),
        (True, {"gpus_per_node": 0}, "4 of the 4 GPUs of every node will be idle, and whole nodes are charged"),
        (True, {}, None),
        (False, {}, None),
    ],
)
def test_gpus_that_nobody_uses_are_warned_of_with_what_they_cost(
    whole_nodes: bool, typed: dict[str, Any], warning: str | None
) -> None:
    warnings = [one for one in planned(placed(whole_nodes), **typed).warnings if "GPUs" in one]
    assert warnings == ([warning] if warning else [])


def test_a_whole_node_of_the_node_type_holds_unless_the_partition_says_otherwise() -> None:
    nodes = {"gpu": NodeType(title="x", cores_per_node=16, gpus_per_node=4, whole_nodes=True)}
    silent = a_site(node_types=nodes, partitions={"batch": Limits()})
    shared = a_site(node_types=nodes, partitions={"batch": Limits(whole_nodes=False)})
    assert planned(silent, tasks_per_node=1).layout.whole_nodes is True
    assert planned(shared, tasks_per_node=1).layout.whole_nodes is False
    qos_says = a_site(
        node_types=nodes, partitions={"batch": Limits(whole_nodes=False)}, qos={"x": Limits(whole_nodes=True)}
    )
    assert planned(qos_says, qos="x", tasks_per_node=1).layout.whole_nodes is True


def test_gpus_by_the_task_must_come_out_even() -> None:
    site = placed(False, "gpus-per-task")
    assert planned(site, tasks_per_node=2, gpus_per_node=4).layout.gpus_per_node == 4
    (fault,) = refused(site, tasks_per_node=2, gpus_per_node=3)
    assert "3 GPUs cannot be divided evenly among 2 tasks" in fault.what
    assert fault.allowed == "a multiple of 2 GPUs"
    assert planned(placed(False), tasks_per_node=2, gpus_per_node=3).layout.gpus_per_node == 3


@pytest.mark.parametrize(("tasks", "cpus"), [(4, 7), (2, 8)])
def test_the_sites_own_cpus_per_task_hold_for_its_usual_tasks_only(tasks: int, cpus: int) -> None:
    node = NodeType(title="x", cores_per_node=16, threads_per_core=2, gpus_per_node=4, default_cpus_per_task=7)
    assert planned(a_site(node_types={"gpu": node}), tasks_per_node=tasks).layout.cpus_per_task == cpus


def test_cores_that_the_site_keeps_and_threads_that_slurm_does_not_count_are_left_out() -> None:
    node = NodeType(title="x", cores_per_node=64, usable_cores=56, threads_per_core=2, cpus_per_core=1, gpus_per_node=8)
    layout = planned(a_site(node_types={"gpu": node})).layout
    assert (layout.cpus_per_task, layout.cores_per_task) == (7, 7)
    (fault,) = refused(a_site(node_types={"gpu": node}), cpus_per_task=8)
    assert fault.allowed == "at most 56 CPUs per node"


def test_where_cores_are_not_known_they_must_be_said() -> None:
    site = a_site(node_types={"gpu": NodeType(title="x", gpus_per_node=4)})
    (fault,) = refused(site)
    assert (fault.what, fault.next) == ("the number of cores of a node is not known at cluster", "--cpus-per-task N")
    assert planned(site, cpus_per_task=3).layout.cpus_per_task == 3
