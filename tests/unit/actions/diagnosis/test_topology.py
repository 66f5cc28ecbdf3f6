"""The nodes of a probe job: alike ones are shown once, and a rank whose CPUs are far from its GPU is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.actions.clusters.diagnosis import diagnose
from hpclaunch.actions.clusters.diagnosis.topology import cpu_list, cpus_in, topologies
from hpclaunch.cli.show.node_lines import node_lines
from hpclaunch.training.doctor.rank_probe import node_facts
from tests.unit.actions.diagnosis.probes import a_rank, evidence
from tests.unit.training.doctor.trees import amd_node, numa, nvidia_node

NEAR = {"0": (0, 16), "1": (32, 48)}
LISTING = "".join(f"00000000:{bus}:00.0, GPU-{bus}\n" for bus in ("03", "41", "82", "C1"))


def on(root: Path, number: int, cpus: tuple[int, int], environ: dict[str, str] | None = None) -> dict[str, Any]:
    """Rank ``number`` of four on two nodes of this kind, with these CPUs."""
    facts = node_facts(str(root), environ or {}, number % 2, lambda *words: "" if words[0] == "topo" else LISTING)
    return a_rank(number, cpus=list(range(*cpus)), topology=facts)


def test_nodes_that_are_alike_are_shown_once(tmp_path: Path) -> None:
    root = nvidia_node(tmp_path)
    ranks = [on(root, number, NEAR["0"], {"CUDA_VISIBLE_DEVICES": "0,1"}) for number in range(4)]
    (node,) = topologies(ranks)
    assert (node.host, node.alike) == ("n0", ("n1",))
    assert node_lines(node) == [
        "node n0 (and 1 other node like it)",
        "  NUMA 0  CPUs 0-31,64-95, 275 GB",
        "  NUMA 1  CPUs 32-63,96-127, 275 GB",
        "  GPU 0   0000:03:00.0  NVIDIA A100-SXM4-40GB, NUMA 0",
        "  GPU 1   0000:41:00.0  NVIDIA A100-SXM4-40GB, NUMA 0",
        "  GPU 2   0000:82:00.0  NVIDIA A100-SXM4-40GB, NUMA 1",
        "  GPU 3   0000:c1:00.0  NVIDIA A100-SXM4-40GB, NUMA 1",
        "  NIC     0000:21:00.0  ib0, mlx5_0, 200 Gbit/s, NUMA 0",
        "  NIC     0000:a1:00.0  eth0, down, NUMA 1",
        "  rank 0  CPUs 0-15 (NUMA 0), GPU 0 (NUMA 0)",
        "  rank 1  CPUs 0-15 (NUMA 0), GPU 1 (NUMA 0)",
    ]


def test_of_many_ranks_the_first_are_shown(tmp_path: Path) -> None:
    numa(tmp_path, ("0-31", 64))
    ranks = [{**on(tmp_path, number, (number, number + 1)), "host": "n0"} for number in range(20)]
    (node,) = topologies(ranks)
    lines = node_lines(node)
    assert lines[-2:] == ["  rank 15  CPUs 15 (NUMA 0)", "  and 4 other ranks (--json has all)"]


def test_links_are_grouped_by_their_type(tmp_path: Path) -> None:
    root = amd_node(tmp_path)
    (node,) = topologies([on(root, 0, NEAR["0"])])
    lines = node_lines(node)
    assert "  links   XGMI between GPUs 0-1, 2-3" in lines
    assert "  links   PCIe between GPUs 0-2, 0-3, 1-2, 1-3" in lines


def test_nodes_of_two_kinds_are_shown_both(tmp_path: Path) -> None:
    kinds = [tmp_path / name for name in ("one", "two")]
    numa(kinds[0], ("0-31", 64))
    numa(kinds[1], ("0-15", 32), ("16-31", 32))
    ranks = [on(kinds[number // 2], number, NEAR["0"]) for number in range(4)]
    assert [len(node.numa) for node in topologies(ranks)] == [1, 2]


def affinity(ranks: list[dict[str, Any]]) -> Any:
    return next((check for check in diagnose(evidence(ranks=ranks)) if check.name == "GPU affinity"), None)


def test_cpus_near_the_gpu_pass(tmp_path: Path) -> None:
    root = nvidia_node(tmp_path)
    visible = {"CUDA_VISIBLE_DEVICES": "0,2"}
    check = affinity([on(root, number, NEAR[str(number % 2)], visible) for number in range(4)])
    assert check.verdict == "PASS"


def test_cpus_far_from_the_gpu_are_named_with_what_to_set(tmp_path: Path) -> None:
    root = nvidia_node(tmp_path)
    visible = {"CUDA_VISIBLE_DEVICES": "2,0"}
    check = affinity([on(root, number, NEAR[str(number % 2)], visible) for number in range(4)])
    assert check.verdict == "WARN"
    assert check.what == (
        "rank 0 on n0 runs on CPUs 0-15 of NUMA node 0, but its GPU 0000:82:00.0 is in NUMA node 1: "
        "what it copies to the GPU takes the longer way"
    )
    assert check.next == "set cpu_bind: map_ldom:1,0 under launchers.options.srun in the site file"


@pytest.mark.parametrize("facts", [{}, {"problem": "OSError: x"}, None])
def test_without_a_known_gpu_nothing_is_said(facts: dict[str, Any] | None) -> None:
    ranks = [a_rank(number) if facts is None else a_rank(number, topology=facts) for number in range(4)]
    assert affinity(ranks) is None
    assert topologies(ranks) == ()


@given(st.sets(st.integers(0, 300)))
def test_a_list_of_cpus_is_read_back(cpus: set[int]) -> None:
    assert cpus_in(cpu_list(cpus)) == cpus
