"""A site file beside Slurm's own texts: which of its values Slurm contradicts."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.config.limits import Limits
from hpclaunch.config.site import Site
from hpclaunch.sites.describe.comparison import Difference, compare
from hpclaunch.sites.describe.draft import Answers
from tests.builders import bundled_site
from tests.unit.sites.describe.test_site_file import ROOT, described, site_of
from tests.unit.sites.describe.texts import answers

TESTCLUSTER = bundled_site("testcluster")


def differences(site: Site, version: str = "22.05") -> list[Difference]:
    found = compare(site, answers(version))
    assert found is not None
    return list(found.differences)


def with_node(site: Site, name: str = "gpu", **changes: Any) -> Site:
    return replace(site, node_types={**site.node_types, name: replace(site.node_types[name], **changes)})


def test_the_bundled_file_of_the_test_cluster_is_right() -> None:
    found = compare(TESTCLUSTER, answers("22.05"))
    assert found is not None
    assert (found.differences, found.nodes, found.partitions) == ((), 4, 3)


@pytest.mark.parametrize("version", ["22.05", "23.11", "24.05"])
def test_a_detected_file_has_no_differences(version: str, tmp_path: Path) -> None:
    assert differences(site_of(described(version, ROOT), tmp_path), version) == []


PARTS = {
    "shards": "gpu:a100:4,shard:a100:16",
    "slices": "gpu:1g.10gb:28",
}


@pytest.mark.parametrize("gres", PARTS.values(), ids=PARTS)
def test_a_detected_file_with_parts_of_gpus_has_no_differences(gres: str, tmp_path: Path) -> None:
    now = replace(answers("22.05"), nodes=re.sub(r"Gres=\S+", f"Gres={gres}", answers("22.05").nodes))
    found = compare(site_of(described("22.05", ROOT, nodes=now.nodes), tmp_path), now)
    assert found is not None and found.differences == ()


def test_another_number_of_shards_is_a_difference(tmp_path: Path) -> None:
    of_16, of_8 = (
        replace(answers("22.05"), nodes=re.sub(r"Gres=\S+", f"Gres=gpu:a100:4,shard:a100:{n}", answers("22.05").nodes))
        for n in (16, 8)
    )
    found = compare(site_of(described("22.05", ROOT, nodes=of_16.nodes), tmp_path), of_8)
    assert found is not None
    (one,) = found.differences
    assert (one.key, one.now) == ("node_types.shard.gpu_shards", 2)


@pytest.mark.parametrize(
    ("changes", "key", "what", "wrong"),
    [
        ({"gpus_per_node": 8}, "gpus_per_node", "Slurm has 4 GPUs in such a node, the file says 8", True),
        ({"gpus_per_node": 2}, "gpus_per_node", "Slurm has 4 GPUs in such a node, the file says 2", False),
        ({"gpus_per_node": 0}, "gpus_per_node", "Slurm has 4 GPUs in such a node, the file says 0", False),
        ({"gpu_type": "h100"}, "gpu_type", "Slurm has a100, the file says h100", True),
        ({"memory_gb": 512}, "memory_gb", "Slurm has 7 GB in such a node, the file says 512", True),
        ({"memory_gb": 4}, "memory_gb", "Slurm has 7 GB in such a node, the file says 4", False),
        ({"cores_per_node": 64}, "cores_per_node", "Slurm has 8 cores in such a node, the file says 64", True),
        ({"nodes": 100}, "nodes", "Slurm has 4 such nodes, the file says 100", False),
        ({"constraint": "big"}, "", "Slurm shows no such node in its partitions with the feature big", True),
    ],
)
def test_a_wrong_value_of_a_node_type_is_named_with_both(
    changes: dict[str, Any], key: str, what: str, wrong: bool
) -> None:
    (found,) = differences(with_node(TESTCLUSTER, **changes))
    place = "node_types.gpu" + (f".{key}" if key else "")
    assert (found.key, found.what, found.wrong) == (place, what, wrong)


def test_a_partition_that_slurm_does_not_have_is_named_once_with_the_nearest() -> None:
    site = replace(
        TESTCLUSTER,
        partitions={"bach": Limits(), "debug": Limits()},
        defaults=replace(TESTCLUSTER.defaults, partition="bach"),
    )
    (found,) = differences(site)
    assert found.key == "partitions.bach, defaults.partition"
    assert found.what == "Slurm has no partition bach; did you mean 'batch'?; it has batch, debug, preempt"


def test_a_node_type_is_not_compared_with_the_nodes_of_others() -> None:
    site = replace(TESTCLUSTER, partitions={**TESTCLUSTER.partitions, "gone": Limits()})
    site = with_node(site, partition="gone", memory_gb=1000)
    assert [one.key for one in differences(site)] == ["partitions.gone, node_types.gpu.partition"]


def test_node_types_of_one_partition_are_told_apart_by_their_gpus(tmp_path: Path) -> None:
    site = site_of(described("23.11"), tmp_path)
    assert differences(with_node(site, "cpu", memory_gb=64), "23.11")[0].key == "node_types.cpu.memory_gb"
    assert differences(with_node(site, "h100", gpus_per_node=8), "23.11")[0].key == "node_types.h100.gpus_per_node"


def test_without_an_answer_nothing_is_compared() -> None:
    assert compare(TESTCLUSTER, Answers()) is None
    assert compare(TESTCLUSTER, replace(answers("22.05"), nodes="", sinfo="")) is None
