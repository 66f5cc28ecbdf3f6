"""All-reduce against cases worked by hand, and what holds for any size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.guidelines.communication import (
    Group,
    Links,
    all_reduce,
    hierarchical,
    latency_s,
    ring,
    ring_bytes,
    tree,
)

LINKS = Links(gpu_gbytes_per_s=300, node_gbytes_per_s=100)
"""240 GB/s achieved inside a node, 10 GB/s between nodes."""
ONE, TWO = Group(nodes=1, per_node=4), Group(nodes=2, per_node=4)


@pytest.mark.parametrize(
    ("algorithm", "group", "latency_us", "transfer_ms"),
    [
        (ring, ONE, 8.4 + 6 * 3.4, 6.25),  # 2 x 3/4 x 1 GB at 240 GB/s
        (ring, TWO, 8.4 + 12 * 3.4 + 2 * 14, 175),  # 2 x 7/8 x 1 GB at 10 GB/s
        (tree, TWO, 8.4 + 2 * (3 * 4 + 14), 2 / 0.92 * 100),
        (hierarchical, ONE, 8.4 + 6 * 3.4, 6.25),
        (hierarchical, TWO, 8.4 + 6 * 3.4 + 8.4 + 2 * 14, 6.25 + 100),
    ],
)
def test_a_gigabyte_by_hand(algorithm: object, group: Group, latency_us: float, transfer_ms: float) -> None:
    found = algorithm(1e9, group, LINKS)  # type: ignore[operator]
    assert found.latency_s == pytest.approx(latency_us * 1e-6)
    assert found.transfer_s == pytest.approx(transfer_ms * 1e-3)


@pytest.mark.parametrize(
    ("node", "achieved"), [(400, 40), (200, 20), (100, 10), (50, 10), (12.5, 10), (3.125, 2.65625)]
)
def test_what_a_horovod_all_reduce_achieves_of_the_network(node: float, achieved: float) -> None:
    assert Links(gpu_gbytes_per_s=300, node_gbytes_per_s=node).between_bytes_per_s == pytest.approx(achieved * 1e9)


def test_unknown_links_are_counted_as_pcie() -> None:
    assert Links(gpu_gbytes_per_s=None, node_gbytes_per_s=25).inside_bytes_per_s == pytest.approx(12.6e9)


def test_the_bytes_of_a_ring() -> None:
    assert [ring_bytes(8, ranks) for ranks in (1, 2, 4, 8)] == [0, 8, 12, 14]


def test_every_fusion_buffer_has_its_own_latency() -> None:
    assert latency_s(TWO, 128 * 2**20) == pytest.approx(60.4e-6)  # the tree's
    assert latency_s(TWO, 128 * 2**20 + 1) == pytest.approx(2 * 60.4e-6)
    assert latency_s(Group(nodes=1, per_node=1), 1e9) == 0


def test_the_fastest_comes_first_with_its_reasoning() -> None:
    found = all_reduce(1e9, TWO, LINKS)
    assert found.best.algorithm == "hierarchical"
    assert [one.algorithm for one in found.others] == ["ring", "tree"]
    assert found.reason.verdict.startswith("hierarchical: 106 ms")


def test_one_rank_says_nothing_to_nobody() -> None:
    found = all_reduce(1e9, Group(nodes=1, per_node=1), LINKS)
    assert (found.best.algorithm, found.best.total_s) == ("none", 0)


GROUPS = st.builds(Group, nodes=st.integers(1, 1024), per_node=st.integers(1, 16))


@given(GROUPS, st.floats(1, 1e11), st.floats(1, 1e11))
def test_more_bytes_never_take_less_time(group: Group, one: float, other: float) -> None:
    small, large = sorted((one, other))
    assert all_reduce(small, group, LINKS).best.total_s <= all_reduce(large, group, LINKS).best.total_s


@given(st.integers(2, 512), st.integers(1, 16), st.floats(1, 1e11))
def test_a_ring_on_more_nodes_never_takes_less_time(nodes: int, per_node: int, size: float) -> None:
    few, many = (ring(size, Group(nodes=count, per_node=per_node), LINKS) for count in (nodes, nodes + 1))
    assert few.total_s < many.total_s


@given(GROUPS, st.floats(1, 1e11))
def test_no_rank_sends_more_than_twice_the_gradient(group: Group, size: float) -> None:
    assert 0 <= ring_bytes(size, group.ranks) < 2 * size


@given(GROUPS, st.floats(1, 1e11), st.floats(1, 400), st.floats(1, 400))
def test_a_faster_network_never_takes_longer(group: Group, size: float, one: float, other: float) -> None:
    slow, fast = (Links(gpu_gbytes_per_s=300, node_gbytes_per_s=rate) for rate in sorted((one, other)))
    assert all_reduce(size, group, fast).best.total_s <= all_reduce(size, group, slow).best.total_s


@pytest.mark.parametrize("wrong", [{"nodes": 0, "per_node": 1}, {"nodes": 1, "per_node": 0}])
def test_a_group_has_ranks(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be above zero"):
        Group(**wrong)
