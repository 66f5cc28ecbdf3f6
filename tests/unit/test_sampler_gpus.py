# ruff: noqa: N802 # the names of NVML's functions
"""How long GPUs computed, by the sampler on a simulated clock, beside a stand-in for NVML with loads that are known."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hpclaunch.actions.following.efficiency import efficiencies
from hpclaunch.cli.show.efficiency import show_efficiencies
from hpclaunch.runs.samples import GpuTime, gpu_time, samples_of
from tests.unit.actions.test_efficiency import LAYOUT, a_run
from tests.unit.test_sampler import load

BEGAN = 1_700_000_000.0
SUCCESS, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT_SIZE = 0, 2, 3, 6, 7
STEP, KEPT = 0.2, 70
"""Seconds of a sample of the driver, and how many it keeps (14 s), as on an H200 with driver 580."""
Load = Callable[[float], float]
"""Seconds since the beginning -> the seconds that the GPU has computed until then."""


def cycle(on: float, off: float) -> Load:
    """A load that computes for some seconds, and waits for some."""
    return lambda t: on * (t // (on + off)) + min(t % (on + off), on)


def once(begin: float, end: float) -> Load:
    return lambda t: min(max(t - begin, 0.0), end - begin)


class Clock:
    def __init__(self) -> None:
        self.now, self.cpu, self.cost = BEGAN, 0.0, 0.0

    def time(self) -> float:
        return self.now

    def process_time(self) -> float:
        """The processor time, of which every measurement takes the same amount."""
        self.cpu += self.cost
        return self.cpu


class Nvml:
    """One GPU in a driver that refuses as NVML does: wrong sizes, kinds and handles."""

    def __init__(self, clock: Clock, work: Load, keeps: bool = True, before: float = 0.5) -> None:
        self.clock, self.work, self.keeps, self.before = clock, work, keeps, before
        self.reads = {"samples": 0, "rates": 0}
        self.sampled: dict[int, float] = {}  # buffer of the counters -> when it was filled

    def _share(self, begin: float, end: float) -> float:
        if end <= BEGAN:
            return self.before  # the work of another program, before the run
        return (self.work(end - BEGAN) - self.work(max(begin, BEGAN) - BEGAN)) / (end - begin)

    def nvmlInit_v2(self) -> int:
        return SUCCESS

    def nvmlDeviceGetCount_v2(self, number: Any) -> int:
        number._obj.value = 1
        return SUCCESS

    def nvmlDeviceGetHandleByIndex_v2(self, index: int, handle: Any) -> int:
        handle._obj.value = 4711
        return SUCCESS if index == 0 else INVALID_ARGUMENT

    def nvmlDeviceGetName(self, handle: Any, buffer: Any, size: int) -> int:
        buffer.value = b"NVIDIA H200"
        return SUCCESS if size >= 64 else INSUFFICIENT_SIZE

    def nvmlDeviceGetUUID(self, handle: Any, buffer: Any, size: int) -> int:
        buffer.value = b"GPU-00000000"
        return SUCCESS if size >= 80 else INSUFFICIENT_SIZE

    def nvmlDeviceGetMemoryInfo(self, handle: Any, memory: Any) -> int:
        memory._obj.total, memory._obj.used = 150 * 10**9, 90 * 10**9
        return SUCCESS if handle.value == 4711 else INVALID_ARGUMENT

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Any, energy: Any) -> int:
        energy._obj.value = int(1000 * (100 * (self.clock.now - BEGAN) + 5e6))
        return SUCCESS

    def nvmlDeviceGetUtilizationRates(self, handle: Any, rates: Any) -> int:
        self.reads["rates"] += 1
        rates._obj.gpu = round(100 * self._share(self.clock.now - 0.5, self.clock.now))
        return SUCCESS

    def nvmlDeviceGetSamples(self, handle: Any, kind: Any, after: Any, value: Any, number: Any, samples: Any) -> int:
        assert (ctypes.sizeof(after), ctypes.sizeof(value._obj), ctypes.sizeof(number._obj)) == (8, 4, 4)
        if handle.value != 4711 or kind.value != 1:
            return INVALID_ARGUMENT
        if not self.keeps:
            return NOT_SUPPORTED
        value._obj.value = 1  # NVML_VALUE_TYPE_UNSIGNED_INT
        if samples is None:
            number._obj.value = KEPT
            return SUCCESS
        self.reads["samples"] += 1
        last = int(self.clock.now / STEP)
        ends = [place * STEP for place in range(last - KEPT + 1, last + 1)]
        new = [end for end in ends if int(end * 1e6) > after.value]
        if not new:
            return NOT_FOUND
        if number._obj.value < len(new) or len(samples) < len(new):
            return INSUFFICIENT_SIZE
        assert ctypes.sizeof(samples) == 16 * len(samples)
        for place, end in enumerate(new):
            samples[place].time = int(end * 1e6)
            samples[place].value.ulonglong = 2**40 + 2**33  # the rest of the union has no meaning
            samples[place].value.uint = round(100 * self._share(end - STEP, end))
        number._obj.value = len(new)
        return SUCCESS


class Hopper(Nvml):
    """The same GPU with counters: while it computes, ``width`` of its multiprocessors are busy."""

    def __init__(self, clock: Clock, work: Load, width: float, support: int = 1) -> None:
        super().__init__(clock, work)
        self.width, self.support = width, support

    def nvmlGpmQueryDeviceSupport(self, handle: Any, support: Any) -> int:
        if (handle.value, support._obj.version) != (4711, 1):
            return INVALID_ARGUMENT
        support._obj.is_supported = self.support
        return SUCCESS

    def nvmlGpmSampleAlloc(self, buffer: Any) -> int:
        buffer._obj.value = 9000 + len(self.sampled)
        self.sampled[buffer._obj.value] = -1.0
        return SUCCESS

    def nvmlGpmSampleGet(self, handle: Any, buffer: Any) -> int:
        self.sampled[buffer.value] = self.clock.now
        return SUCCESS if handle.value == 4711 else INVALID_ARGUMENT

    def nvmlGpmMetricsGet(self, wanted: Any) -> int:
        asked = wanted._obj
        first, second = self.sampled[asked.first], self.sampled[asked.second]
        if (asked.version, asked.number, asked.metrics[0].metric) != (1, 1, 2) or not 0 <= first < second:
            return INVALID_ARGUMENT
        asked.metrics[0].value = 100 * self.width * self._share(first, second)
        return SUCCESS


class Node:
    """The sampler of one node, called as its loop does, on a simulated clock."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.module: Any = load()
        self.clock = Clock()
        self.folder = folder
        (folder / "proc").mkdir(parents=True)
        (folder / "samples").mkdir()
        self.module.time = self.clock
        for name in ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES", "HPCLAUNCH_EXPECT_GPU"):
            monkeypatch.delenv(name, raising=False)

    def run(self, library: Any, seconds: float, cost: float = 0.0, tick: float = 1.0) -> GpuTime | None:
        """Sample for so many seconds; ``cost``: the processor time of a measurement."""
        names = {"libnvidia-ml.so.1": library}
        self.clock.cost = cost

        def open_library(name: str) -> Any:
            if names.get(name) is None:
                raise OSError(name)
            return names[name]

        self.module.ctypes = SimpleNamespace(**{**vars(ctypes), "CDLL": open_library})
        ranks = self.module.Ranks(str(self.folder / "samples/node-7.0.ranks"), str(self.folder))
        sampler = self.module.Sampler(ranks, self.module.Cgroup(False, str(self.folder)))
        lines = [sampler.header("node", "7.0")]
        pace = self.module.Pace(sampler)
        while self.clock.now < BEGAN + seconds:
            lines += pace.look()
            self.clock.now = min(BEGAN + seconds, self.clock.now + tick)
        lines += pace.end()
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (self.folder / "samples/node-7.0.jsonl").write_text(text)
        self.lines = lines
        return gpu_time(samples_of(self.folder))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path / "node", monkeypatch)


LOADS = {
    "4 s on, 4 s off": (cycle(4, 4), 0.50),
    "10 ms a second": (cycle(0.01, 0.99), 0.01),
    "all the time": (lambda t: t, 1.0),
    "never": (lambda t: 0.0, 0.0),
    "9 s on, 1 s off": (cycle(9, 1), 0.9),
    "1 s on, 9 s off": (cycle(1, 9), 0.1),
}


@pytest.mark.parametrize("keeps", [True, False], ids=["samples", "moments"])
@pytest.mark.parametrize("name", LOADS)
def test_the_use_is_that_of_the_whole_time(node: Node, name: str, keeps: bool) -> None:
    work, truth = LOADS[name]
    library = Nvml(node.clock, work, keeps)
    found = node.run(library, 600.0)
    assert found is not None and found.is_judged
    assert found.mean == pytest.approx(truth, abs=0.03)
    assert found.seconds == pytest.approx(600, abs=2)
    if keeps:
        assert library.reads["samples"] <= 64 and library.reads["rates"] == 0
        assert found.samples == pytest.approx(600 / STEP, rel=0.01)
    else:
        assert library.reads["rates"] == pytest.approx(600, abs=2)


def test_a_measurement_that_is_rare_as_it_is_dear_loses_no_sample(node: Node) -> None:
    found = node.run(Nvml(node.clock, cycle(4, 4)), 1200.0, cost=0.2)
    assert len(node.lines) < 20, "a measurement of 0.2 s is made every 100 s"
    assert found is not None and found.seconds == pytest.approx(1200, abs=2)
    assert found.mean == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(("work", "seconds"), [(once(7, 14), 21.0), (once(0, 7), 21.0), (once(0, 59), 59.0)])
def test_a_short_run_is_not_judged(
    node: Node, tmp_path: Path, capsys: pytest.CaptureFixture[str], work: Load, seconds: float
) -> None:
    found = node.run(Nvml(node.clock, work), seconds)
    assert found is not None and not found.is_judged
    assert found.mean == pytest.approx(work(seconds) / seconds, abs=0.03), "all of it was measured, to the end"
    shown = printed(node, tmp_path, capsys)
    assert "its GPUs: too short to judge (" in shown and f" in {found.seconds:.0f} s; each must be" in shown
    assert "computed nothing" not in shown and "GPUs: " not in shown.replace("its GPUs: ", "")


@pytest.mark.parametrize(("name", "share"), [("4 s on, 4 s off", "50 %"), ("all the time", "100 %"), ("never", "0 %")])
def test_a_share_is_printed_with_its_samples_and_seconds(
    node: Node, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, share: str
) -> None:
    node.run(Nvml(node.clock, LOADS[name][0]), 400.0)
    shown = printed(node, tmp_path, capsys)
    (row,) = [line for line in shown.splitlines() if line.startswith("GPU\t")]
    assert f"\t{share}\t" in row and "NVML, " in row and "samples in 400 s" in row
    assert ("its GPUs computed nothing" in shown) == (share == "0 %")


def test_busy_multiprocessors_are_those_of_the_whole_time(
    node: Node, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = node.run(Hopper(node.clock, cycle(4, 4), width=0.3), 1200.0, cost=0.02)
    assert found is not None and found.mean == pytest.approx(0.5, abs=0.01)
    assert found.sms == (pytest.approx(0.15, abs=0.01),)
    rows = [line for line in printed(node, tmp_path, capsys).splitlines() if line.startswith("GPU SMs")]
    assert rows == ["GPU SMs\t0.15 GPUs\t1 GPU\t15 %\tNVML, sampled"]


@pytest.mark.parametrize("seconds", [50.0, 600.0])
@pytest.mark.parametrize("library", ["not supported", "before Hopper", "fails"])
def test_multiprocessors_that_are_not_counted_are_not_shown(node: Node, library: str, seconds: float) -> None:
    driver = {
        "not supported": Hopper(node.clock, cycle(4, 4), width=0.3, support=0),
        "before Hopper": Nvml(node.clock, cycle(4, 4)),
        "fails": Hopper(node.clock, cycle(4, 4), width=0.3),
    }[library]
    if library == "fails":
        driver.nvmlGpmMetricsGet = lambda wanted: NOT_SUPPORTED  # type: ignore[attr-defined]
    found = node.run(driver, seconds)
    assert found is not None and found.mean == pytest.approx(0.5, abs=0.06) and found.sms == ()


def printed(node: Node, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What ``efficiency`` prints of a run with these samples."""
    run = a_run(tmp_path / "run", layout={**LAYOUT, "nodes": 1, "gpus_per_node": 1})
    (node.folder / "samples").rename(run.path / "samples")
    capsys.readouterr()
    show_efficiencies(efficiencies([run], ask=False), as_json=False)
    captured = capsys.readouterr()
    return captured.err + captured.out


def test_a_driver_that_stops_keeping_samples_is_read_every_second(node: Node) -> None:
    library = Nvml(node.clock, cycle(4, 4))
    asked = library.nvmlDeviceGetSamples

    def until_a_minute(*arguments: Any) -> int:
        return asked(*arguments) if node.clock.now < BEGAN + 60 else NOT_FOUND

    library.nvmlDeviceGetSamples = until_a_minute  # type: ignore[method-assign]
    found = node.run(library, 300.0)
    assert found is not None and found.mean == pytest.approx(0.5, abs=0.03)
    assert found.seconds == pytest.approx(300 - 10, abs=12), "the ten seconds without a sample were not measured"
    assert library.reads["rates"] == pytest.approx(230, abs=12)


def test_a_gap_between_samples_is_not_measured(node: Node) -> None:
    found = node.run(Nvml(node.clock, lambda t: t), 100.0, tick=25.0)
    assert found is not None and found.seconds == pytest.approx(4 * 14, abs=15) and found.mean == 1.0


def test_the_energy_is_that_of_the_counter(node: Node) -> None:
    node.run(Nvml(node.clock, lambda t: t), 100.0)
    measured = node.lines[-1]["t"] - BEGAN
    assert sum(line["joules"] for line in node.lines[1:]) == pytest.approx(100 * measured, rel=0.15)


def test_a_run_without_gpus_measures_none_and_is_charged_none(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert node.run(Nvml(node.clock, cycle(4, 4)), 100) is None
    header, *lines = node.lines
    assert (header["gpus"], header["sources"]["gpu"]) == ([], None)
    assert header["sources"]["energy"] in (None, "rapl")  # that of this machine's processors, where it may be read
    assert lines and all(line["gpu"] == [] for line in lines)


def test_the_memory_of_the_runs_own_processes(node: Node) -> None:
    library = Nvml(node.clock, lambda t: t)

    def processes(handle: Any, number: Any, found: Any) -> int:
        assert number._obj.value == len(found) and ctypes.sizeof(found[0]) == 24
        for place, (pid, memory) in enumerate([(10, 5 * 10**9), (11, 2**64 - 1), (99, 80 * 10**9)]):
            found[place].pid, found[place].memory = pid, memory
        number._obj.value = 3
        return SUCCESS

    library.nvmlDeviceGetComputeRunningProcesses_v3 = processes  # type: ignore[attr-defined]
    vendor = node.module.Nvml(library)
    assert vendor.own_memory(vendor.gpus[0], {10, 11}) == 5 * 10**9
    assert vendor.own_memory(vendor.gpus[0], {12}) is None
    assert vendor.measure(vendor.gpus[0], {10})["memory"] == 90 * 10**9


def test_amds_gpus_by_the_files_of_their_driver(node: Node, tmp_path: Path) -> None:
    device = tmp_path / "sys/devices/pci0"
    device.mkdir(parents=True)
    for name, text in (("gpu_busy_percent", 40), ("mem_info_vram_total", 2000), ("mem_info_vram_used", 300)):
        (device / name).write_text(f"{text}\n")
    (device / "product_name").write_text("AMD Instinct MI210\n")
    (device / "hwmon/hwmon3").mkdir(parents=True)
    (device / "hwmon/hwmon3/power1_average").write_text("250000000\n")
    (tmp_path / "sys/class/drm/card0").mkdir(parents=True)
    (tmp_path / "sys/class/drm/card0-DP-1").mkdir()
    (tmp_path / "sys/class/drm/card0/device").symlink_to(device)
    vendor = node.module.AmdFiles(None, str(tmp_path))
    use, (gpu,) = node.module.Use(), vendor.gpus
    assert vendor.about(gpu) == {"index": 0, "name": "AMD Instinct MI210", "memory": 2000, "uuid": ""}
    assert vendor.interval(gpu) == 1.0
    for percent in (40, 100, 10):
        (device / "gpu_busy_percent").write_text(f"{percent}\n")
        vendor.add_use(gpu, use, 1.0)
    assert use.values() == {"use": 0.5, "samples": 3, "seconds": 3.0}
    assert vendor.measure(gpu, set()) == {"memory": 300, "own": None, "power": 250.0, "energy": None}


def test_lines_of_earlier_versions_which_read_moments_are_not_judged(tmp_path: Path) -> None:
    (tmp_path / "samples").mkdir()
    header = {"format": 1, "node": "a", "attempt": "7.0", "interval": 10, "began": BEGAN, "gpus": [{"index": 0}]}
    lines = [header, *({"t": BEGAN + 10 * n, "gpu": [{"use": 0.0, "memory": 1}]} for n in range(1, 90))]
    (tmp_path / "samples/a-7.0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert gpu_time(samples_of(tmp_path)) is None
