"""What is found on a machine: CPUs, memory, and the GPUs that a program can use, by stand-ins for files and NVML."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.core.hardware import FoundGpu, Hardware
from hpclaunch.sites.found import find_hardware, with_hardware
from tests.builders import a_desk, bundled_site
from tests.unit.sites.machines import (
    Card,
    Nvml,
    amd_machine,
    intel_machine,
    loads,
    nvidia_machine,
    plain_machine,
    write,
)


def found(root: Path, library: Any = None, **environment: str) -> Hardware:
    return find_hardware(environment, str(root), loads(library))


def names(hardware: Hardware) -> list[str]:
    return [gpu.name for gpu in hardware.gpus]


@pytest.mark.parametrize("number", [1, 4, 8])
def test_nvidias_gpus_are_those_of_nvml_in_its_order(tmp_path: Path, number: int) -> None:
    library = Nvml((Card(),) * number)
    hardware = found(nvidia_machine(tmp_path, number), library)
    assert names(hardware) == [str(place) for place in range(number)]
    assert {(gpu.model, gpu.memory) for gpu in hardware.gpus} == {("NVIDIA H200", 143771 * 2**20)}
    assert hardware.remarks == () and library.opened == 0
    assert ("GPUs", f"{number} x NVIDIA H200, 140 GB each, by NVML") in hardware.how


def test_a_machine_without_a_gpu_loads_no_library(tmp_path: Path) -> None:
    hardware = find_hardware({}, str(plain_machine(tmp_path)), lambda name: pytest.fail(f"{name} was loaded"))
    assert (hardware.gpus, hardware.remarks) == ((), ())
    assert (hardware.cpu, hardware.sockets) == ("AMD EPYC 7763 64-Core Processor", 2)
    assert hardware.memory == 65536000 * 1024


@pytest.mark.parametrize(
    ("library", "why"),
    [
        (Nvml((), code=999), "NVML does not start (error 999)"),
        (None, "cannot be loaded"),
        (Nvml(()), "NVML shows none of them"),
    ],
)
def test_a_driver_without_a_device_is_said_once(tmp_path: Path, library: Any, why: str) -> None:
    hardware = found(nvidia_machine(tmp_path, 2, openable=False), library)
    assert hardware.gpus == ()
    (remark,) = hardware.remarks
    assert "NVIDIA's driver lists 2 GPUs, but a program can use none" in remark and why in remark


def test_without_nvml_the_driver_lists_the_gpus_that_may_be_opened(tmp_path: Path) -> None:
    root = nvidia_machine(tmp_path, 4)
    (root / "dev/nvidia1").unlink()
    hardware = found(root)
    assert [gpu.uuid for gpu in hardware.gpus] == ["GPU-0", "GPU-2", "GPU-3"]
    assert hardware.remarks == () and "libnvidia-ml.so.1 cannot be loaded" in dict(hardware.how)["GPUs"]


def test_a_gpu_in_use_by_others_is_named_once_and_still_counted(tmp_path: Path) -> None:
    cards = (Card(), Card(taken=60 * 10**9), Card(), Card())
    hardware = found(nvidia_machine(tmp_path, 4), Nvml(cards))
    assert len(hardware.gpus) == 4
    busy = "1 GPU is in use by other programs (GPU 1: 56 of 140 GB); CUDA_VISIBLE_DEVICES leaves it out"
    assert hardware.remarks == (busy,)


def test_a_gpu_that_is_lost_is_named_and_the_others_keep_their_numbers(tmp_path: Path) -> None:
    hardware = found(nvidia_machine(tmp_path, 3), Nvml((Card(), Card(lost=True), Card())))
    assert names(hardware) == ["0", "2"]
    assert hardware.remarks == ("NVIDIA's GPU 1 does not answer, and is not used (nvidia-smi says more)",)


def test_a_divided_gpu_is_its_mig_devices(tmp_path: Path) -> None:
    cards = (Card(), Card(parts=("MIG-one", None, "MIG-two")), Card(parts=()))
    hardware = found(nvidia_machine(tmp_path, 3), Nvml(cards))
    assert names(hardware) == ["0", "MIG-one", "MIG-two"]
    assert [bool(gpu.parent) for gpu in hardware.gpus] == [False, True, True]
    assert hardware.gpus[1].model.endswith("MIG 1g.18gb") and hardware.gpus[1].memory == 143771 * 2**20 // 7
    assert hardware.remarks == ("GPU 2 (NVIDIA H200) is in MIG mode without a MIG device: no program can use it",)


@pytest.mark.parametrize(
    ("limit", "left"),
    [
        ("2,0", ["2", "0"]),
        ("1,9,3", ["1"]),  # a number without a GPU ends the list
        ("GPU-00000003", ["3"]),
        ("GPU-00000001-aaaa-bbbb-cccc-dddddddddddd,0", ["1", "0"]),
        ("1,1", ["1"]),
        (" 3 , 2 ", ["3", "2"]),
    ],
)
def test_the_shells_variable_is_a_limit_and_an_order(tmp_path: Path, limit: str, left: list[str]) -> None:
    hardware = found(nvidia_machine(tmp_path, 4), Nvml((Card(),) * 4), CUDA_VISIBLE_DEVICES=limit)
    assert names(hardware) == left
    assert (hardware.hidden, hardware.remarks) == (4 - len(left), ())
    assert dict(hardware.how)["shell"] == f"CUDA_VISIBLE_DEVICES={limit} leaves {len(left)} of 4 GPUs"


@pytest.mark.parametrize("limit", ["", "-1", "NoDevFiles"])
def test_a_shell_that_hides_all_gpus_is_said_once(tmp_path: Path, limit: str) -> None:
    hardware = found(nvidia_machine(tmp_path, 2), Nvml((Card(),) * 2), CUDA_VISIBLE_DEVICES=limit)
    assert hardware.gpus == ()
    expected = f"CUDA_VISIBLE_DEVICES={limit!r} of this shell hides all 2 GPUs: ranks compute on CPUs"
    assert hardware.remarks == (expected,)


@pytest.mark.parametrize("limit", ["0", "1,0"])
def test_a_number_on_a_divided_gpu_is_not_said_to_hide_it(tmp_path: Path, limit: str) -> None:
    """What CUDA makes of it depends on the driver; hpclaunch counts MIG devices by their UUIDs."""
    library = Nvml((Card(parts=("MIG-one", "MIG-two")),))
    (remark,) = found(nvidia_machine(tmp_path, 1), library, CUDA_VISIBLE_DEVICES=limit).remarks
    assert f"CUDA_VISIBLE_DEVICES='{limit}' of this shell may hide all 2 GPUs" in remark and "UUID" in remark
    (remark,) = found(tmp_path, library, CUDA_VISIBLE_DEVICES="-1").remarks
    assert "hides all 2 GPUs: ranks compute on CPUs" in remark


def test_gpus_that_are_not_alike_are_said_to_be_mixed_also_where_the_shell_hides_one(tmp_path: Path) -> None:
    root = nvidia_machine(tmp_path, 2)
    assert found(root, Nvml((Card(model="T400"), Card())), CUDA_VISIBLE_DEVICES="1").is_mixed
    assert not found(root, Nvml((Card(), Card()))).is_mixed


@pytest.mark.parametrize("number", [1, 8])
def test_amds_gpus_are_those_of_its_driver(tmp_path: Path, number: int) -> None:
    hardware = found(amd_machine(tmp_path, number))
    assert names(hardware) == [str(place) for place in range(number)]
    assert {(gpu.model, gpu.memory, gpu.taken) for gpu in hardware.gpus} == {("AMD Instinct MI250X", 64 * 2**30, 2**24)}
    assert hardware.gpus[0].uuid == "GPU-0000000000001000" and hardware.remarks == ()


def test_the_variables_of_amd_count_one_after_the_other(tmp_path: Path) -> None:
    root = amd_machine(tmp_path, 4)
    both = found(root, ROCR_VISIBLE_DEVICES="3,1", HIP_VISIBLE_DEVICES="1")
    assert [gpu.uuid[-1] for gpu in both.gpus] == ["1"] and both.hidden == 3
    assert [gpu.uuid[-1] for gpu in found(root, CUDA_VISIBLE_DEVICES="2").gpus] == ["2"]


def test_a_processors_own_display_is_no_gpu(tmp_path: Path) -> None:
    assert found(amd_machine(tmp_path / "amd", 1, integrated=True)).gpus == ()
    assert names(found(intel_machine(tmp_path / "intel", 2))) == ["0", "1"]
    assert names(found(intel_machine(tmp_path / "one", 0), ZE_AFFINITY_MASK="0.1")) == ["0"]


def test_a_gpu_of_amd_that_may_not_be_opened_is_said_once(tmp_path: Path) -> None:
    hardware = found(amd_machine(tmp_path, 2, openable=False))
    (remark,) = hardware.remarks
    assert hardware.gpus == () and "AMD's driver lists 2 GPUs, but you may not open /dev/kfd" in remark


CPUS = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({"sys/fs/cgroup/cpu.max": "50000 100000"}, 1),
        ({"sys/fs/cgroup/cpu.max": "max 100000"}, CPUS),
        ({"sys/fs/cgroup/a/cpu.max": "100000 100000", "sys/fs/cgroup/a/b/cpu.max": "max 100000"}, 1),
        ({"sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "100000", "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000"}, 1),
        ({"sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000"}, CPUS),
        ({"sys/fs/cgroup/a/b/cpu.max": "6400000 100000"}, min(CPUS, 64)),
    ],
)
def test_the_cpus_are_those_of_affinity_and_cgroup(tmp_path: Path, files: dict[str, str], cpus: int) -> None:
    write(tmp_path, "proc/self/cgroup", "4:cpu,cpuacct:/x\n0::/a/b\n")
    for path, text in files.items():
        write(tmp_path, path, text + "\n")
    assert found(tmp_path).cpus == cpus


def test_threads_of_a_core_count_once_as_a_core(tmp_path: Path) -> None:
    write(tmp_path, "sys/devices/system/cpu/smt/active", "1\n")
    cpu = min(os.sched_getaffinity(0))
    write(tmp_path, f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", f"{cpu},{cpu + 64}\n")
    assert (found(tmp_path).cpus, found(tmp_path).cores) == (CPUS, max(1, CPUS // 2))


def test_the_memory_of_a_cgroup_is_a_limit(tmp_path: Path) -> None:
    write(plain_machine(tmp_path), "proc/self/cgroup", "0::/a\n")
    write(tmp_path, "sys/fs/cgroup/a/memory.max", f"{8 * 2**30}\n")
    assert found(tmp_path).memory == 8 * 2**30
    write(tmp_path, "sys/fs/cgroup/a/memory.max", "max\n")
    assert found(tmp_path).memory == 65536000 * 1024


def test_what_is_found_fills_what_the_file_leaves_out() -> None:
    gpus = (FoundGpu(vendor="NVIDIA", name="0", model="NVIDIA H200", memory=143771 * 2**20),)
    hardware = Hardware(cpus=16, cores=8, cpu="AMD EPYC 7763", memory=128 * 2**30, gpus=gpus)
    site = bundled_site("local")
    node = with_hardware(site, hardware).node_types["workstation"]
    assert (node.cores, node.cpu, node.memory_gb) == (8, "AMD EPYC 7763", 128)
    assert (node.gpus_per_node, node.gpu_model, node.gpu_memory_gb, node.tasks) == (1, "NVIDIA H200", 140, 1)
    own = replace(site.node_types["workstation"], gpus_per_node=2, memory_gb=64)
    kept = with_hardware(replace(site, node_types={"workstation": own}), hardware).node_types["workstation"]
    assert (kept.gpus_per_node, kept.memory_gb) == (2, 64)
    assert site.is_this_machine and not a_desk().is_this_machine
