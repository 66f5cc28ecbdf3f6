"""What the sampler reads of the kernel's files: cgroups, processes, network and energy, from small copies of /proc."""

from __future__ import annotations

import hashlib
import itertools
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hpclaunch.config.catalog import bundled
from hpclaunch.core.hardware import AMD, NVIDIA, VISIBILITY, FoundGpu, visible_gpus
from hpclaunch.core.spec import SAMPLER

FILE = bundled("templates") / SAMPLER
VERSION_2 = "0::/system.slice/slurmstepd.scope/job_77/step_0/user/task_0\n"
VERSION_1 = (
    "5:cpu,cpuacct:/slurm/uid_1000/job_77/step_0/task_0\n4:memory:/slurm/uid_1000/job_77/step_0\n"
    "3:cpuset:/slurm/uid_1000/job_77/step_0\n0::/init.scope\n"
)
MOUNTS = (
    "30 24 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "31 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "32 24 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
)


def load() -> ModuleType:
    """The sampler as a module, without a folder of compiled files beside the templates."""
    module = ModuleType("sampler")
    exec(compile(FILE.read_text(), str(FILE), "exec"), vars(module))
    return module


sampler: Any = load()


def write(root: Path, files: dict[str, object]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


def a_process(
    root: Path, number: int, parent: int, ticks: tuple[int, ...] = (), state: str = "S", **files: str
) -> None:
    """Write /proc/NUMBER: a process that began at 1000 + NUMBER, with utime, stime and those of ended children."""
    used = [*ticks, 0, 0, 0, 0][:4]
    stat = f"{number} (a) name) {state} {parent} {'0 ' * 9}{' '.join(map(str, used))} 20 0 1 0 {1000 + number} 0"
    write(root, {f"proc/{number}/{name}": text for name, text in {"stat": stat, **files}.items()})


def test_the_library_names_the_sampler_that_lies_beside_it() -> None:
    text = (bundled("templates") / "library/sampler.sh").read_text()
    digest = hashlib.sha256(FILE.read_bytes()).hexdigest()
    assert f"\nsampler_sha256={digest} " in text, f"write sampler_sha256={digest} into templates/library/sampler.sh"


@pytest.mark.parametrize(("text", "count"), [("0-3,8\n", 5), ("7", 1), ("", None), ("\n", None)])
def test_the_kernels_notation_of_cpus(text: str, count: int | None) -> None:
    assert sampler.count_cpus(text) == count


def test_the_jobs_cgroup_of_version_2(tmp_path: Path) -> None:
    job = "sys/fs/cgroup/system.slice/slurmstepd.scope/job_77"
    mounts = "29 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"
    write(tmp_path, {"proc/self/cgroup": VERSION_2, "proc/self/mountinfo": mounts})
    write(tmp_path, {f"{job}/cpu.stat": "usage_usec 2500000\nuser_usec 1", f"{job}/cpuset.cpus.effective": "0-3"})
    write(tmp_path, {f"{job}/memory.current": 1000, f"{job}/memory.stat": "anon 1\ninactive_file 300"})
    write(tmp_path, {f"{job}/memory.max": "max"})
    group = sampler.Cgroup(True, str(tmp_path))
    assert (group.cpu(), group.memory(), group.limit(), group.cpus()) == (2.5, 700, None, 4)
    write(tmp_path, {f"{job}/memory.max": 4096})
    assert group.limit() == 4096
    assert sampler.Cgroup(False, str(tmp_path)).cpu() is None, "an allocation may hold other runs"


def test_the_jobs_cgroup_of_version_1(tmp_path: Path) -> None:
    place = "slurm/uid_1000/job_77"
    write(tmp_path, {"proc/self/cgroup": VERSION_1, "proc/self/mountinfo": MOUNTS})
    write(tmp_path, {f"sys/fs/cgroup/cpu,cpuacct/{place}/cpuacct.usage": 1_500_000_000})
    memory, cpus = f"sys/fs/cgroup/memory/{place}", f"sys/fs/cgroup/cpuset/{place}"
    write(tmp_path, {f"{memory}/memory.usage_in_bytes": 900, f"{memory}/memory.limit_in_bytes": 2**63 - 4096})
    write(tmp_path, {f"{memory}/memory.stat": "cache 5\ntotal_inactive_file 100", f"{cpus}/cpuset.cpus": "2,3"})
    group = sampler.Cgroup(True, str(tmp_path))
    assert (group.cpu(), group.memory(), group.limit(), group.cpus()) == (1.5, 800, None, 2)


@pytest.mark.parametrize("text", ["", "0::/\n", "0::/user.slice/session-3.scope\n", "nonsense\n"])
def test_a_cgroup_that_is_not_of_a_job_is_not_read(tmp_path: Path, text: str) -> None:
    write(tmp_path, {"proc/self/cgroup": text, "proc/self/mountinfo": "29 24 0:26 / / rw - cgroup2 cgroup2 rw"})
    write(tmp_path, {"cpu.stat": "usage_usec 9", "memory.current": 9})
    group = sampler.Cgroup(True, str(tmp_path))
    assert (group.cpu(), group.memory(), group.limit(), group.cpus()) == (None,) * 4


def ranks_of(root: Path, *lines: str) -> Any:
    write(root, {"ranks": "\n".join(lines)})
    found = sampler.Ranks(str(root / "ranks"), str(root))
    found.reread()
    return found


def test_the_processes_of_a_rank_are_those_that_its_shell_has_started(tmp_path: Path) -> None:
    a_process(tmp_path, 10, 1, (100, 0, 300, 0), io="rchar: 5\nwchar: 6")
    a_process(tmp_path, 11, 10, (200, 50), io="rchar: 10\nwchar: 20")
    a_process(tmp_path, 20, 1, (1,))
    a_process(tmp_path, 30, 1, (999,))
    ranks = ranks_of(tmp_path, "begin 0 10 1010", "begin 1 20 1020", "end 9 1 2 3 4", "begin x")
    ticks = sampler.TICKS
    assert ranks.measure() == {
        0: {"cpu": pytest.approx(650 / ticks), "read": 15, "write": 26},
        1: {"cpu": pytest.approx(1 / ticks), "read": 0, "write": 0},
    }


def test_a_process_whose_parent_has_ended_still_counts_and_a_total_never_falls(tmp_path: Path) -> None:
    a_process(tmp_path, 10, 1)
    a_process(tmp_path, 11, 10, (0,))
    a_process(tmp_path, 12, 11, (700,))
    ranks = ranks_of(tmp_path, "begin 0 10 1010")
    ranks.measure()
    (tmp_path / "proc/11/stat").unlink()
    a_process(tmp_path, 12, 1, (800,))
    assert ranks.measure()[0]["cpu"] == pytest.approx(800 / sampler.TICKS)
    (tmp_path / "proc/12/stat").unlink()  # nobody waited for it: its time is in no other account
    assert ranks.measure()[0]["cpu"] == pytest.approx(800 / sampler.TICKS)


def test_the_sampler_itself_is_no_process_of_a_rank(tmp_path: Path) -> None:
    a_process(tmp_path, 10, 1)
    a_process(tmp_path, os.getpid(), 10, (500,))
    assert ranks_of(tmp_path, "begin 0 10 1010").measure()[0]["cpu"] == 0


@pytest.mark.parametrize(
    ("line", "state", "lives"),
    [("begin 0 10 1010", "S", True), ("begin 0 10 1010", "Z", False), ("begin 0 10 99", "S", False), ("", "S", False)],
)
def test_a_rank_lives_while_its_own_shell_does(tmp_path: Path, line: str, state: str, lives: bool) -> None:
    a_process(tmp_path, 10, 1, state=state)
    assert ranks_of(tmp_path, line).lives() is lives


def test_memory_is_the_pss_and_on_an_old_kernel_what_is_resident(tmp_path: Path) -> None:
    a_process(tmp_path, 10, 1, status="VmRSS:\t 50 kB", smaps_rollup="Rss: 9 kB\nPss: 30 kB")
    a_process(tmp_path, 11, 10, status="VmRSS:\t 7 kB", smaps_rollup="Rss: 9 kB\nPss: 3 kB")
    write(tmp_path, {"proc/self/smaps_rollup": ""})
    ranks = ranks_of(tmp_path, "begin 4 10 1010")
    ranks.measure()
    assert (ranks.memory(), ranks.memory_source) == ({4: 33 * 1024}, "pss")
    for path in tmp_path.glob("proc/*/smaps_rollup"):
        path.unlink()
    assert (ranks.memory(), ranks.memory_source) == ({4: 57 * 1024}, "rss")


def test_bytes_of_the_network_are_counted_once(tmp_path: Path) -> None:
    net = "sys/class/net"
    for name, kind, received, sent in [
        ("eth0", 1, 100, 200),
        ("bond0", 1, 100, 200),
        ("ib0", 32, 7, 7),
        ("lo", 772, 9, 9),
    ]:
        write(tmp_path, {f"{net}/{name}/type": kind, f"{net}/{name}/statistics/rx_bytes": received})
        write(tmp_path, {f"{net}/{name}/statistics/tx_bytes": sent})
    for name in ("eth0", "ib0"):
        write(tmp_path, {f"{net}/{name}/device/vendor": "x"})
    port = "sys/class/infiniband/mlx5_0/ports/1/counters"
    write(tmp_path, {f"{port}/port_rcv_data": 25, f"{port}/port_xmit_data": 50})
    assert sampler.network(str(tmp_path)) == (200, 400)
    assert sampler.network(str(tmp_path / "nothing")) == (0, 0)


def test_energy_of_the_processors_and_a_counter_that_begins_again(tmp_path: Path) -> None:
    place = "sys/class/powercap"
    for name, kind, energy in [
        ("intel-rapl:0", "package-0", 5_000_000),
        ("intel-rapl:0:0", "core", 1),
        ("intel-rapl:0:1", "dram", 9_000_000),
        ("intel-rapl:1", "psys", 1),
        ("dtpm", "x", 1),
    ]:
        write(tmp_path, {f"{place}/{name}/name": kind, f"{place}/{name}/energy_uj": energy})
        write(tmp_path, {f"{place}/{name}/max_energy_range_uj": 10_000_000})
    rapl = sampler.Rapl(str(tmp_path))
    write(tmp_path, {f"{place}/intel-rapl:0/energy_uj": 7_000_000, f"{place}/intel-rapl:0:1/energy_uj": 1_000_000})
    assert rapl.joules() == pytest.approx(2.0 + 2.0)
    assert rapl.joules() == 0
    assert sampler.Rapl(str(tmp_path / "nothing")).folders == []


FOUR = [{"index": index, "uuid": f"GPU-{index}"} for index in range(4)]


NVIDIAS, AMDS = sampler.Nvml.variables, sampler.RocmSmi.variables


@pytest.mark.parametrize(
    ("named", "chosen"),
    [("", 4), ("1,3", 2), ("GPU-2", 1), ("0,1,2,3,4", 4), ("7", 4)],
)
def test_the_gpus_of_a_slurm_job(named: str, chosen: int) -> None:
    """If Slurm names none that is seen, a cgroup has numbered them again."""
    assert len(sampler.of_the_job(FOUR, NVIDIAS, {"SLURM_JOB_GPUS": named})) == chosen


VISIBLE = ["", "-1", "0", "3,1", "0,9,1", "1,1", "GPU-00c", "gpu-00A,2", "x", " 2 , 0", "GPU-"]


@pytest.mark.parametrize("vendor", [NVIDIA, AMD])
def test_the_gpus_of_a_job_are_those_that_its_variables_leave_visible(vendor: str) -> None:
    """The sampler stands alone, and has the rule of core/hardware.py again: both must say the same."""
    of_sampler = {NVIDIA: NVIDIAS, AMD: AMDS}[vendor]
    assert of_sampler == VISIBILITY[vendor] == {NVIDIA: NVIDIAS, AMD: sampler.AmdFiles.variables}[vendor]
    uuids = [f"GPU-00{letter}" for letter in "abcd"]
    found = [FoundGpu(vendor=vendor, name=str(place), uuid=uuid) for place, uuid in enumerate(uuids)]
    seen = [{"index": place, "uuid": uuid} for place, uuid in enumerate(uuids)]
    for texts in itertools.product([None, *VISIBLE], repeat=len(of_sampler)):
        given = {name: text for name, text in zip(of_sampler, texts, strict=True) if text is not None}
        expected = [gpu.uuid for gpu in visible_gpus(found, given)]
        assert [gpu["uuid"] for gpu in sampler.of_the_job(seen, of_sampler, given)] == expected, given


@pytest.mark.parametrize("text", ["", "-1"])
def test_a_variable_that_hides_all_gpus_leaves_none_to_measure(text: str) -> None:
    assert sampler.of_the_job(FOUR, NVIDIAS, {"CUDA_VISIBLE_DEVICES": text}) == []


def test_a_run_that_asked_for_no_gpu_has_none() -> None:
    none = {"HPCLAUNCH_EXPECT_GPU": "0"}
    assert sampler.of_the_job(FOUR, NVIDIAS, none) == []
    assert sampler.of_the_job(FOUR, NVIDIAS, {**none, "SLURM_JOB_GPUS": "0,1"}) == []  # beside others in an allocation
    assert len(sampler.of_the_job(FOUR, NVIDIAS, {**none, "HPCLAUNCH_COMPONENT": "1"})) == 4  # each has its own
    assert len(sampler.of_the_job(FOUR, NVIDIAS, {"HPCLAUNCH_EXPECT_GPU": "found"})) == 4
