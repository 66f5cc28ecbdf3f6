"""A run on this machine: one rank per GPU that was found, and none hidden that the shell shows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.config.job import Resources
from hpclaunch.config.site import NodeType
from hpclaunch.core.hardware import FoundGpu, Hardware, visible_gpus
from hpclaunch.core.spec import JobSpec
from hpclaunch.sites.found import with_hardware
from tests.builders import a_context, a_desk, a_job, bundled_site, planned, refused

VARIABLES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")


def gpus(number: int, vendor: str = "NVIDIA") -> tuple[FoundGpu, ...]:
    return tuple(
        FoundGpu(vendor=vendor, name=str(place), uuid=f"GPU-{place:04x}", model=f"{vendor} X", memory=80 * 10**9)
        for place in range(number)
    )


def hardware_of(found: tuple[FoundGpu, ...], shell: dict[str, str]) -> Hardware:
    """What is known of a machine with these GPUs, in a shell with these variables."""
    shown = visible_gpus(found, shell)
    limit = next((f"{name}={shell[name]}" for name in VARIABLES if name in shell), "")
    mixed = len({gpu.model for gpu in found}) > 1
    hidden = len(found) - len(shown)
    return Hardware(cpus=16, cores=16, gpus=shown, hidden=hidden, limit=limit, is_mixed=mixed)


def on_this_machine(found: tuple[FoundGpu, ...], shell: dict[str, str] | None = None, **typed: Any) -> JobSpec:
    """The run as it is planned where these GPUs are, and the shell has these variables."""
    shell = shell or {}
    hardware = hardware_of(found, shell)
    site = with_hardware(bundled_site("local"), hardware)
    job, hosts = typed.pop("job", a_job()), typed.pop("hosts", ())
    context = a_context(cpus=16, hardware=hardware, environment=shell, hosts=hosts)
    return planned(site, job, context=context, **typed)


def set_by(spec: JobSpec) -> dict[str, str]:
    return {name: value for name, value in spec.environment if name in VARIABLES}


@pytest.mark.parametrize("number", [1, 4, 8])
@pytest.mark.parametrize("vendor", ["NVIDIA", "AMD", "Intel"])
def test_one_rank_per_gpu_and_every_gpu_stays_visible(number: int, vendor: str) -> None:
    spec = on_this_machine(gpus(number, vendor))
    assert (spec.layout.tasks_per_node, spec.layout.gpus_per_node, spec.layout.cpus_per_task) == (
        *(number, number),
        16 // number,
    )
    assert set_by(spec) == {} and not set(VARIABLES) & set(spec.unset)
    assert dict(spec.environment)["HPCLAUNCH_EXPECT_GPU"] == "found"


@pytest.mark.parametrize(("limit", "ranks"), [("3,1", 2), ("2", 1), ("GPU-0001,GPU-0000", 2)])
def test_the_shells_limit_is_the_number_of_ranks_and_reaches_them_unchanged(limit: str, ranks: int) -> None:
    spec = on_this_machine(gpus(4), {"CUDA_VISIBLE_DEVICES": limit})
    assert (spec.layout.tasks_per_node, set_by(spec)) == (ranks, {})


@pytest.mark.parametrize("tasks", [1, 2, 4])
def test_fewer_ranks_hide_no_gpu(tasks: int) -> None:
    spec = on_this_machine(gpus(4), tasks_per_node=tasks)
    assert (spec.layout.gpus_per_node, set_by(spec)) == (tasks, {})


@pytest.mark.parametrize(
    ("vendor", "shell", "typed", "shown"),
    [
        ("NVIDIA", {}, 2, {"CUDA_VISIBLE_DEVICES": "0,1"}),
        ("NVIDIA", {"CUDA_VISIBLE_DEVICES": "3,2,0"}, 2, {"CUDA_VISIBLE_DEVICES": "3,2"}),
        ("NVIDIA", {}, 4, {}),
        ("NVIDIA", {}, 0, {"CUDA_VISIBLE_DEVICES": "-1"}),
        ("AMD", {}, 1, {"ROCR_VISIBLE_DEVICES": "0"}),
        ("AMD", {"HIP_VISIBLE_DEVICES": "2,3"}, 1, {"HIP_VISIBLE_DEVICES": "2"}),
        ("AMD", {"ROCR_VISIBLE_DEVICES": "3,2,1", "HIP_VISIBLE_DEVICES": "0,2"}, 1, {"HIP_VISIBLE_DEVICES": "0"}),
        ("Intel", {}, 1, {"ZE_AFFINITY_MASK": "0"}),
    ],
)
def test_only_a_number_of_gpus_that_is_asked_for_hides_the_others(
    vendor: str, shell: dict[str, str], typed: int, shown: dict[str, str]
) -> None:
    spec = on_this_machine(gpus(4, vendor), shell, gpus_per_node=typed, tasks_per_node=max(1, typed))
    assert set_by(spec) == shown
    assert dict(spec.environment)["HPCLAUNCH_EXPECT_GPU"] == str(int(typed > 0))
    job = a_job(resources=Resources(gpus_per_node=typed, tasks_per_node=max(1, typed)))
    assert set_by(on_this_machine(gpus(4, vendor), shell, job=job)) == shown


def test_a_machine_without_a_gpu_has_one_rank() -> None:
    spec = on_this_machine(())
    assert (spec.layout.tasks_per_node, spec.layout.gpus_per_node, set_by(spec)) == (1, 0, {})
    assert dict(spec.environment)["HPCLAUNCH_EXPECT_GPU"] == "0"


def test_every_rank_gets_a_mig_device_of_its_own() -> None:
    parts = tuple(FoundGpu(vendor="NVIDIA", name=f"MIG-{n}", uuid=f"MIG-{n}", parent="GPU-0") for n in range(3))
    spec = on_this_machine(parts)
    assert spec.layout.tasks_per_node == 3
    own = ("local gpus=(MIG-0 MIG-1 MIG-2)", 'export CUDA_VISIBLE_DEVICES="${gpus[$LOCAL_RANK]}"')
    assert (spec.rank_setup[:2], set_by(spec)) == (own, {})
    two = on_this_machine(parts, gpus_per_node=2, tasks_per_node=2)
    assert (two.rank_setup[0], set_by(two)) == ("local gpus=(MIG-0 MIG-1)", {})
    chosen = on_this_machine(parts, variables=(("CUDA_VISIBLE_DEVICES", "MIG-2"),))
    assert not any("gpus=" in line for line in chosen.rank_setup)


def test_hosts_of_a_file_are_taken_to_be_alike_and_that_is_said() -> None:
    spec = on_this_machine(gpus(4), hosts=("a", "b"), hosts_file="hosts", nodes=2, launcher="mpirun")
    assert (spec.layout.tasks_per_node, spec.layout.cpus_per_task, set_by(spec)) == (4, 1, {})
    alike = "every host of hosts is taken to have 4 GPUs, as this machine has; --gpus-per-node N says otherwise"
    assert alike in spec.warnings


@pytest.mark.parametrize(
    ("shell", "shown"),
    [
        ({}, {"CUDA_VISIBLE_DEVICES": "0,1"}),
        ({"CUDA_VISIBLE_DEVICES": "3,2,1"}, {"CUDA_VISIBLE_DEVICES": "3,2"}),
        ({"CUDA_VISIBLE_DEVICES": ""}, {}),
    ],
)
def test_a_site_file_that_says_a_number_of_gpus_has_it(shell: dict[str, str], shown: dict[str, str]) -> None:
    """Such files were needed before this machine was looked at: nothing is looked at for them."""
    site = a_desk(node_types={"box": NodeType(title="x", cores_per_node=1, gpus_per_node=2)})
    spec = planned(site, context=a_context(environment=shell))
    assert (spec.layout.tasks_per_node, set_by(spec)) == (2, shown)
    assert dict(spec.environment)["HPCLAUNCH_EXPECT_GPU"] == "1"


def test_the_planner_knows_model_and_memory() -> None:
    from hpclaunch.planner.fitting.machine import node_of

    found = tuple(replace(gpu, model="NVIDIA H200", memory=143771 * 2**20) for gpu in gpus(1))
    hardware = Hardware(cpus=16, cores=16, memory=128 * 10**9, gpus=found)
    site = with_hardware(bundled_site("local"), hardware)
    known = node_of(site.node_types["workstation"], planned(site, context=a_context(hardware=hardware)).layout)
    assert (known.device, known.on_gpus) == ("NVIDIA H200", True)
    assert known.room is not None and known.room.gpu_bytes == 140 * 2**30
    assert known.speed is not None and not any("memory" in line for line in known.assumed)


MIG = tuple(replace(one, name=f"MIG-{one.name}", parent="x") for one in gpus(2))


@pytest.mark.parametrize(
    ("found", "shell", "named"),
    [
        (gpus(2), {}, "CUDA_VISIBLE_DEVICES=0,1"),
        (gpus(3)[::2], {}, "CUDA_VISIBLE_DEVICES=0,2"),  # one is lost
        (gpus(4), {"CUDA_VISIBLE_DEVICES": "GPU-0003,1,1"}, "CUDA_VISIBLE_DEVICES=GPU-0003,1"),
        (
            tuple(replace(one, name=f"MIG-{one.name}", parent="x") for one in gpus(2)),
            {},
            "CUDA_VISIBLE_DEVICES=MIG-0,MIG-1",
        ),
        (gpus(4, "AMD"), {"ROCR_VISIBLE_DEVICES": "2,3"}, "ROCR_VISIBLE_DEVICES=2,3"),
        (gpus(4, "AMD"), {"ROCR_VISIBLE_DEVICES": "2,3", "HIP_VISIBLE_DEVICES": "1,0"}, "HIP_VISIBLE_DEVICES=1,0"),
        (gpus(2, "Intel"), {}, "ZE_AFFINITY_MASK=0,1"),
    ],
)
def test_the_trials_of_a_search_divide_the_gpus_by_their_names(
    found: tuple[FoundGpu, ...], shell: dict[str, str], named: str
) -> None:
    spec = on_this_machine(found, shell, search=("lr",), at_once=2)
    assert dict(spec.environment)["HPCLAUNCH_SEARCH_GPUS"] == named
    assert set_by(spec) == {} and spec.trials is not None and spec.trials.gpus == 1


def test_a_search_with_some_of_the_gpus_or_none_divides_those() -> None:
    spec = on_this_machine(gpus(4, "AMD"), search=("lr",), at_once=2, gpus_per_node=2)
    assert dict(spec.environment)["HPCLAUNCH_SEARCH_GPUS"] == "ROCR_VISIBLE_DEVICES=0,1"
    spec = on_this_machine(gpus(4), search=("lr",), at_once=2, gpus_per_node=0)
    assert "HPCLAUNCH_SEARCH_GPUS" not in dict(spec.environment)


@pytest.mark.parametrize(
    ("vendor", "slow", "shell", "typed", "order"),
    [
        ("NVIDIA", "T400", {}, {}, "PCI_BUS_ID"),
        ("NVIDIA", "T400", {"CUDA_VISIBLE_DEVICES": "1"}, {}, "PCI_BUS_ID"),
        ("NVIDIA", "T400", {}, {"tasks_per_node": 1, "gpus_per_node": 1}, "PCI_BUS_ID"),
        ("NVIDIA", "T400", {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, {}, None),
        ("NVIDIA", "T400", {}, {"gpus_per_node": 0}, None),
        ("NVIDIA", "NVIDIA X", {}, {}, None),
        ("AMD", "Radeon", {}, {}, None),
    ],
)
def test_gpus_that_are_not_alike_are_counted_by_cuda_as_by_nvml(
    vendor: str, slow: str, shell: dict[str, str], typed: dict[str, int], order: str | None
) -> None:
    first, second = gpus(2, vendor)
    spec = on_this_machine((replace(first, model=slow), second), shell, **typed)
    assert dict(spec.environment).get("CUDA_DEVICE_ORDER") == order


def test_the_refusal_of_a_gpu_that_the_shell_hides_names_its_variable() -> None:
    shell = {"CUDA_VISIBLE_DEVICES": "-1"}
    hardware = hardware_of(gpus(2), shell)
    site = with_hardware(bundled_site("local"), hardware)
    context = a_context(cpus=16, hardware=hardware, environment=shell)
    (fault,) = refused(site, context=context, gpus_per_node=1)
    assert fault.allowed == "at most 0"
    assert "CUDA_VISIBLE_DEVICES=-1 of this shell hides 2 GPUs" in fault.next
