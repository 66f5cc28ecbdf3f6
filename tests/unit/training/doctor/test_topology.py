"""What is read of a node's /sys: NUMA nodes, GPUs, network cards and links, in several shapes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpclaunch.training.doctor import topology
from hpclaunch.training.doctor.rank_probe import node_facts
from tests.unit.training.doctor.trees import amd_node, card, device, numa, nvidia_node, write


def no_answer(*_: str) -> str:
    """What is known of nvidia-smi where it is not installed."""
    return ""


def test_a_node_without_gpus_has_its_numa_nodes_and_cards(tmp_path: Path) -> None:
    numa(tmp_path, ("0-7", 32))
    device(tmp_path, "0000:00:02.0", "8086:3e92", "030000", 0)  # a display in the processor is no GPU for ranks
    device(tmp_path, "0000:05:00.0", "8086:1521", "020000", 0)
    card(tmp_path, "0000:05:00.0", interface="eth0", speed="1000", operstate="up")
    assert topology.numa_nodes(str(tmp_path)) == [{"number": 0, "cpus": "0-7", "bytes": 32 * 2**30}]
    assert topology.gpus(str(tmp_path)) == []
    expected = {"address": "0000:05:00.0", "names": ["eth0"], "numa": 0, "gbits": 1.0, "up": True}
    assert topology.network_cards(str(tmp_path)) == [expected]


def test_two_sockets_with_four_gpus(tmp_path: Path) -> None:
    root = str(nvidia_node(tmp_path))
    assert [one["cpus"] for one in topology.numa_nodes(root)] == ["0-31,64-95", "32-63,96-127"]
    gpus = topology.gpus(root)
    assert [(gpu["address"], gpu["numa"]) for gpu in gpus] == [
        ("0000:03:00.0", 0),
        ("0000:41:00.0", 0),
        ("0000:82:00.0", 1),
        ("0000:c1:00.0", 1),
    ]
    assert {gpu["model"] for gpu in gpus} == {"NVIDIA A100-SXM4-40GB"}
    fast, down = topology.network_cards(root)
    assert fast == {"address": "0000:21:00.0", "names": ["ib0", "mlx5_0"], "numa": 0, "gbits": 200.0, "up": True}
    assert down == {"address": "0000:a1:00.0", "names": ["eth0"], "numa": 1, "gbits": None, "up": False}


def test_gpus_of_amd_and_their_links(tmp_path: Path) -> None:
    root = str(amd_node(tmp_path))
    addresses = ["0000:c1:00.0", "0000:c6:00.0", "0000:d1:00.0", "0000:d6:00.0"]
    assert [(gpu["address"], gpu["vendor"], gpu["numa"]) for gpu in topology.gpus(root)] == [
        (address, "AMD", number) for address, number in zip(addresses, (3, 3, 1, 1), strict=True)
    ]
    assert list(topology.amd_gpus(root).values()) == addresses
    links = {(one, other): kind for one, other, kind in topology.amd_links(root)}
    assert len(links) == 6
    assert [pair for pair, kind in links.items() if kind == "XGMI"] == [tuple(addresses[:2]), tuple(addresses[2:])]


def test_a_rank_takes_the_gpu_of_amd_that_its_variable_names(tmp_path: Path) -> None:
    facts = node_facts(str(amd_node(tmp_path)), {"ROCR_VISIBLE_DEVICES": "2"}, 0, no_answer)
    assert facts["gpu"] == "0000:d1:00.0"
    assert facts["cards"] == []


def test_an_empty_root_has_nothing(tmp_path: Path) -> None:
    facts = node_facts(str(tmp_path), {}, None, no_answer)
    assert facts == {"numa": [], "gpus": [], "links": [], "cards": [], "gpu": None}


def test_a_gpu_that_the_driver_does_not_show_is_left_out(tmp_path: Path) -> None:
    root = amd_node(tmp_path)
    hidden = root / "sys/class/kfd/kfd/topology/nodes/4/properties"
    hidden.unlink()
    hidden.mkdir()  # as a cgroup does it, reading it fails
    assert "0000:c1:00.0" not in topology.amd_gpus(str(root)).values()


def test_a_strange_file_costs_the_topology_alone(tmp_path: Path) -> None:
    write(tmp_path, {"sys/devices/system/node/node0/cpulist": "0", "sys/bus/pci/devices": "no folder"})
    assert node_facts(str(tmp_path), {}, 0, no_answer)["numa"] == [{"number": 0, "cpus": "0", "bytes": 0}]


MATRIX = (
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV12\tSYS\tPXB\t0-31,64-95\t0\t\tN/A\n"
    "GPU1\tNV12\t X \tPIX\tSYS\t0-31,64-95\t0\t\tN/A\n"
    "GPU2\tSYS\tPIX\t X \tSYS\t32-63,96-127\t1\t\tN/A\n"
    "NIC0\tPXB\tSYS\tSYS\t X \t\t\t\t\n\nLegend:\n\n  X    = Self\n"
)


def test_the_links_of_nvidia_are_those_of_nvidia_smi() -> None:
    found = topology.nvidia_links(MATRIX, ["a", "b", "c"])
    assert found == [["a", "b", "NV12"], ["a", "c", "SYS"], ["b", "c", "PIX"]]
    assert topology.nvidia_links(MATRIX, ["a", "b"]) == [["a", "b", "NV12"]]
    assert topology.nvidia_links("", ["a", "b"]) == []


def test_nvidia_smi_spells_addresses_in_its_own_way() -> None:
    listing = "00000000:03:00.0, GPU-9221d5d1\n00000001:C1:00.0, GPU-0a18\nNo devices were found\n"
    assert topology.nvidia_gpus(listing) == [("0000:03:00.0", "GPU-9221d5d1"), ("0001:c1:00.0", "GPU-0a18")]


def test_without_nvidia_smi_the_gpu_of_a_rank_is_not_guessed(tmp_path: Path) -> None:
    """Where a job sees its own GPUs alone, every rank with one has number 0."""
    facts = node_facts(str(nvidia_node(tmp_path)), {"CUDA_VISIBLE_DEVICES": "0"}, 1, no_answer)
    assert (len(facts["gpus"]), facts["gpu"]) == (4, None)


def test_a_rank_may_use_the_gpus_that_nvidia_smi_shows(tmp_path: Path) -> None:
    listing = "00000000:41:00.0, GPU-bb\n00000000:82:00.0, GPU-cc\n00000000:C1:00.0, GPU-dd\n"
    asked: list[tuple[str, ...]] = []

    def ask(*arguments: str) -> str:
        asked.append(arguments)
        return MATRIX if arguments[0] == "topo" else listing

    root = str(nvidia_node(tmp_path))
    facts = node_facts(root, {"CUDA_VISIBLE_DEVICES": "1,2"}, 0, ask)
    assert facts["gpu"] == "0000:82:00.0"
    assert facts["links"][0] == ["0000:41:00.0", "0000:82:00.0", "NV12"]
    assert node_facts(root, {}, 2, ask)["links"] == []  # the first rank of a node asks for them
    assert [arguments[0] for arguments in asked].count("topo") == 1


FOUR = [("0000:03:00.0", "GPU-aa"), ("0000:41:00.0", "GPU-bb"), ("0000:82:00.0", "GPU-cc"), ("0000:c1:00.0", "GPU-dd")]


@pytest.mark.parametrize(
    ("usable", "visible", "local_rank", "gpu"),
    [
        (FOUR, None, 2, "0000:82:00.0"),  # all are visible: the local rank chooses
        (FOUR, "0,1,2,3", 1, "0000:41:00.0"),
        (FOUR, "3", 0, "0000:c1:00.0"),  # a wrapper has bound the rank
        (FOUR, "GPU-cc", 0, "0000:82:00.0"),
        (FOUR[2:3], "0", 2, "0000:82:00.0"),  # a cgroup shows one GPU, as number 0
        (FOUR, "7", 0, None),
        (FOUR, "MIG-1", 0, None),
        (FOUR, None, None, None),
        (FOUR[:1], None, None, "0000:03:00.0"),
        ([], "0", 0, None),
    ],
)
def test_the_gpu_of_a_rank(
    usable: list[tuple[str, str]], visible: str | None, local_rank: int | None, gpu: str | None
) -> None:
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert topology.gpu_of_rank(usable, "NVIDIA", environ, local_rank) == gpu
