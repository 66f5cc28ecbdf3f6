"""The nodes of a partition that only the scheduler knows: the request is made for what they have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.core.errors import Refused
from hpclaunch.core.spec import JobSpec, LiveNames, LiveNodes
from hpclaunch.resolve import resolve
from hpclaunch.resolve.nodes.live_nodes import with_live_nodes
from tests.builders import a_case, a_context, a_site

NODE = replace(a_site().node_types["gpu"], gpu_type="a100", gpu_model="NVIDIA A100", constraint="gpu")
SITE = a_site(node_types={**a_site().node_types, "gpu": NODE})
AS_FILE = LiveNodes(
    number=3,
    cores=NODE.cores_per_node or 0,
    cpus=NODE.slurm_cpus or 0,
    memory=(NODE.memory_gb or 0) * 1024,
    gpus=NODE.gpus_per_node,
    gpu_type="a100",
    features=frozenset({"gpu"}),
)
EIGHT = LiveNodes(number=2, cores=96, cpus=192, memory=2_000_000, gpus=8, gpu_type="h100")


def planned_with(*kinds: LiveNodes, **typed: Any) -> JobSpec:
    live = {"partition": LiveNames(names=("batch", "new"), nodes={"new": kinds})}
    case = a_case(SITE, context=a_context(live=live), partition="new", **typed)
    spec, faults = resolve(with_live_nodes(case, ["new"]))
    if faults:
        raise Refused(faults)
    return spec


def remark(spec: JobSpec) -> str:
    (found,) = [one for one in spec.warnings if "partition new" in one]
    return found.partition("has it: ")[2]


def test_the_request_has_the_cpus_and_gpus_that_the_nodes_have() -> None:
    spec = planned_with(EIGHT)
    assert (spec.layout.node_gpus, spec.layout.tasks_per_node, spec.layout.gpus_per_node) == (8, 8, 8)
    assert (spec.layout.cpus_per_task, spec.layout.cpus_per_core) == (24, 2)
    assert "constraint" not in dict(spec.directives), "no node of the partition has the feature"
    assert "h100:8" in str(spec.directives)
    assert remark(spec) == "its nodes have 192 CPUs, 8 h100 GPUs and 1953 GB each"


def test_nodes_without_gpus_get_no_gpus() -> None:
    spec = planned_with(replace(EIGHT, gpus=0, gpu_type=""))
    assert (spec.layout.gpus_per_node, spec.layout.tasks_per_node) == (0, 1)
    assert not [name for name, _ in spec.directives if "gpu" in name or name == "gres"]


def test_of_several_kinds_those_that_are_as_the_file_says_are_taken() -> None:
    spec = planned_with(replace(EIGHT, number=9), AS_FILE)
    assert spec.layout.node_gpus == NODE.gpus_per_node
    assert remark(spec).startswith("3 of its 12 nodes have ")
    assert dict(spec.directives)["constraint"] == "gpu"


def test_more_nodes_than_the_partition_has_are_refused() -> None:
    with pytest.raises(Refused, match=r"3 nodes requested.*allowed: at most 2 nodes") as refusal:
        planned_with(EIGHT, nodes=3)
    assert refusal.value.faults[0].next == "--nodes 2, or another --partition"


def test_without_an_answer_the_nodes_are_those_of_the_file() -> None:
    spec = planned_with()
    assert spec.layout.node_gpus == NODE.gpus_per_node
    assert remark(spec) == "its nodes are taken for gpu nodes (--node-type)"
