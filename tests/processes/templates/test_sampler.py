"""The sampler as a process beside ranks: its lines, vendors' libraries, what it survives, and when it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.runs.samples import NodeSamples, samples_of
from tests.unit.test_sampler import FILE

PATIENCE = 120
# The sampler with shorter intervals: everything else is its own.
QUICK = """import importlib.util, sys
spec = importlib.util.spec_from_file_location("sampler", sys.argv[1])
sampler = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sampler)
sampler.INTERVAL, sampler.FIRST = 0.2, 0.1
sampler.BUFFER, sampler.MOMENT, sampler.MARGIN = 0.2, 0.1, 0.1
sampler.main(sys.argv[2:])
"""
NVML = """
#include <string.h>
typedef struct { unsigned gpu, memory; } use_t;
typedef struct { unsigned long long total, free, used; } memory_t;
static unsigned long long energy;
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) { *h = (void *)(unsigned long)(i + 1); return 0; }
int nvmlDeviceGetName(void *h, char *s, unsigned n) { strncpy(s, "Fake H100", n); return 0; }
int nvmlDeviceGetUUID(void *h, char *s, unsigned n) { strncpy(s, h == (void *)1 ? "GPU-a" : "GPU-b", n); return 0; }
int nvmlDeviceGetMemoryInfo(void *h, memory_t *m) { m->total = 1000; m->used = 100 * (unsigned long)h; return 0; }
int nvmlDeviceGetUtilizationRates(void *h, use_t *u) { u->gpu = h == (void *)1 ? 25 : 50; return 0; }
int nvmlDeviceGetPowerUsage(void *h, unsigned *p) { *p = 300500; return 0; }
int nvmlDeviceGetTotalEnergyConsumption(void *h, unsigned long long *e) { *e = energy += 5000; return 0; }
"""
SAMPLES = """
#include <sys/time.h>
typedef struct { unsigned long long time; union { double d; unsigned u; unsigned long l; long long s; } value; } one_t;
int nvmlDeviceGetSamples(void *h, unsigned type, unsigned long long after, unsigned *kind, unsigned *n, one_t *s) {
  struct timeval now;
  unsigned long long step = 20000, first, last;
  unsigned place = 0;
  if (type != 1) return 2;
  *kind = 0;
  if (!s) { *n = 70; return 0; }
  gettimeofday(&now, 0);
  last = (now.tv_sec * 1000000ull + now.tv_usec) / step;
  first = after / step + 1 > last - 69 ? after / step + 1 : last - 69;
  if (first > last) return 6;
  if (*n < last - first + 1) return 7;
  for (; first <= last; first++, place++) { s[place].time = first * step; s[place].value.d = h == (void *)1 ? 10 : 90; }
  *n = place;
  return 0;
}
"""
# The structures of nvml.h; a buffer holds how often its GPU was sampled. Half of the second GPU is busy.
COUNTERS = """
#include <stdlib.h>
typedef struct { unsigned version, isSupportedDevice; } support_t;
typedef struct {
  unsigned metricId; int nvmlReturn; double value; struct { char *shortName, *longName, *unit; } metricInfo;
} metric_t;
typedef struct { unsigned version, numMetrics; long *sample1, *sample2; metric_t metrics[333]; } metrics_t;
static long samples[3];
int nvmlGpmQueryDeviceSupport(void *h, support_t *s) {
  if (s->version != 1) return 25;
  s->isSupportedDevice = h == (void *)2;
  return 0;
}
int nvmlGpmSampleAlloc(long **s) { *s = calloc(2, sizeof(long)); return 0; }
int nvmlGpmSampleGet(void *h, long *s) { s[0] = (long)h; s[1] = ++samples[(long)h]; return 0; }
int nvmlGpmMetricsGet(metrics_t *m) {
  if (m->version != 1 || m->numMetrics != 1 || m->metrics[0].metricId != 2) return 2;
  if (m->sample1[0] != 2 || m->sample2[0] != 2 || m->sample2[1] != m->sample1[1] + 1) return 2;
  m->metrics[0].nvmlReturn = 0;
  m->metrics[0].value = 50;
  m->metrics[0].metricInfo.shortName = "SM Util";
  return 0;
}
"""
ROCM = """
#include <string.h>
#include <stdint.h>
int rsmi_init(uint64_t flags) { return 0; }
int rsmi_num_monitor_devices(uint32_t *n) { *n = 1; return 0; }
int rsmi_dev_name_get(uint32_t i, char *s, size_t n) { strncpy(s, "Fake MI300", n); return 0; }
int rsmi_dev_memory_total_get(uint32_t i, int kind, uint64_t *n) { *n = 2000; return 0; }
int rsmi_dev_memory_usage_get(uint32_t i, int kind, uint64_t *n) { *n = 400; return 0; }
int rsmi_dev_busy_percent_get(uint32_t i, uint32_t *n) { *n = 75; return 0; }
int rsmi_dev_power_ave_get(uint32_t i, uint32_t sensor, uint64_t *n) { return 2; }
int rsmi_dev_power_get(uint32_t i, uint64_t *n, uint32_t *kind) { *n = 550000000; *kind = 1; return 0; }
"""


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, f"after {PATIENCE} s still not: {what}"
        time.sleep(0.05)
    return found


class Node:
    """One node: a rank that sleeps, and the sampler beside it."""

    def __init__(self, folder: Path, command: list[str], **variables: str) -> None:
        (folder / "samples").mkdir()
        self.folder = folder
        self.rank = subprocess.Popen(command)
        stat = Path(f"/proc/{self.rank.pid}/stat").read_text()
        began = stat.rpartition(") ")[2].split()[19]
        (folder / "samples/node-7.0.ranks").write_text(f"begin 3 {self.rank.pid} {began}\n")
        words = [sys.executable, "-B", "-I", "-S", "-c", QUICK, str(FILE), "node", "7.0", str(folder / "samples")]
        environment = {"PATH": os.environ["PATH"], **variables}
        self.sampler = subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL)

    def lines(self, count: int) -> NodeSamples:
        """What was measured, as soon as it has this many lines."""

        def enough() -> NodeSamples | None:
            found = samples_of(self.folder)
            return found[0] if found and len(found[0].samples) >= count else None

        found: NodeSamples = wait_for(enough, f"{count} lines")
        return found

    def end(self) -> None:
        for process in (self.rank, self.sampler):
            process.kill()
            process.wait()


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    """The nodes of a test, which are ended after it."""
    started: list[Node] = []
    yield started
    for node in started:
        node.end()


def compiled(folder: Path, name: str, text: str) -> str:
    """The folder with a vendor's library that answers always the same."""
    if shutil.which("gcc") is None:
        pytest.skip("group gcc: install gcc, which makes a stand-in for a vendor's library")
    (folder / "vendor").mkdir()
    (folder / "fake.c").write_text(text)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "vendor" / name, folder / "fake.c"], check=True)
    return str(folder / "vendor")


def test_a_rank_is_measured_until_it_ends_and_then_the_sampler_ends(tmp_path: Path, nodes: list[Node]) -> None:
    held = "import time, os\nx = bytearray(2**26); x[::4096] = b'x' * 2**14\n"
    busy = held + "while sum(os.times()[:2]) < 0.5: pass\ntime.sleep(1000)"
    node = Node(tmp_path, [sys.executable, "-S", "-c", busy])
    nodes.append(node)

    def measured() -> NodeSamples | None:
        found = samples_of(tmp_path)
        return found[0] if found and (found[0].rank_cpu(3) or 0) >= 0.5 else None

    found: NodeSamples = wait_for(measured, "half a second of work")
    account = Path(f"/proc/{node.rank.pid}/stat").read_text().rpartition(") ")[2].split()
    assert found.rank_cpu(3) == pytest.approx(sum(map(int, account[11:15])) / os.sysconf("SC_CLK_TCK"), abs=0.021)
    pss = Path(f"/proc/{node.rank.pid}/smaps_rollup").read_text().split("Pss:")[1].split()[0]
    assert found.most_memory == pytest.approx(int(pss) * 1024, rel=0.05)
    assert (found.node, found.attempt, found.sources) == ("node", "7.0", {"cpu": "proc", "memory": "pss"})
    node.rank.kill()
    node.rank.wait()
    assert node.sampler.wait(PATIENCE) == 0


def test_nvidias_gpus_by_nvml(tmp_path: Path, nodes: list[Node]) -> None:
    folder = compiled(tmp_path, "libnvidia-ml.so.1", NVML)
    nodes.append(Node(tmp_path, ["sleep", "1000"], LD_LIBRARY_PATH=folder))
    found = nodes[0].lines(2)
    assert [(gpu.index, gpu.name, gpu.memory) for gpu in found.gpus] == [(0, "Fake H100", 1000), (1, "Fake H100", 1000)]
    assert found.sources["gpu"] == "nvml"
    (first, second) = found.samples[1].gpus
    assert (first.use, first.memory, first.power, second.use) == (0.25, 100, 300.5, 0.5)
    if found.sources["energy"] == "gpu":
        assert found.samples[1].joules == 20.0, "two GPUs whose counters go on by 10 J each between measurements"


def test_nvidias_samples_are_read_as_its_library_lays_them_out(tmp_path: Path, nodes: list[Node]) -> None:
    folder = compiled(tmp_path, "libnvidia-ml.so.1", NVML + SAMPLES)
    nodes.append(Node(tmp_path, ["sleep", "1000"], LD_LIBRARY_PATH=folder))
    first, second = nodes[0].lines(3).samples[2].gpus
    assert (first.use, second.use) == (0.1, 0.9), "not the rates of the moment, 0.25 and 0.5"
    assert first.samples > 1 and 0 < first.seconds < PATIENCE


def test_a_gpu_that_is_not_the_jobs_is_not_measured(tmp_path: Path, nodes: list[Node]) -> None:
    folder = compiled(tmp_path, "libnvidia-ml.so.1", NVML)
    nodes.append(Node(tmp_path, ["sleep", "1000"], LD_LIBRARY_PATH=folder, CUDA_VISIBLE_DEVICES="GPU-b"))
    assert [gpu.index for gpu in nodes[0].lines(1).gpus] == [1]


def test_busy_multiprocessors_by_the_counters_of_a_gpu_that_has_them(tmp_path: Path, nodes: list[Node]) -> None:
    library = compiled(tmp_path, "libnvidia-ml.so.1", NVML + SAMPLES + COUNTERS)
    nodes.append(Node(tmp_path, ["sleep", "1000"], LD_LIBRARY_PATH=library))
    lines = nodes[0].lines(3).samples
    assert [[gpu.sms for gpu in one.gpus] for one in lines[1:3]] == [[None, 0.5]] * 2


def test_amds_gpus_by_rocm_smi(tmp_path: Path, nodes: list[Node]) -> None:
    nodes.append(Node(tmp_path, ["sleep", "1000"], LD_LIBRARY_PATH=compiled(tmp_path, "librocm_smi64.so", ROCM)))
    found = nodes[0].lines(1)
    assert (found.gpus[0].name, found.gpus[0].memory, found.sources["gpu"]) == ("Fake MI300", 2000, "rocm-smi")
    known = [one for one in found.samples[0].gpus if one.use is not None]
    assert [(one.use, one.memory, one.power) for one in known] == [(0.75, 400, 550.0)]


def test_a_library_that_lacks_functions_or_refuses_is_as_if_there_were_none(tmp_path: Path, nodes: list[Node]) -> None:
    folder = compiled(tmp_path, "libnvidia-ml.so.1", "int nvmlInit_v2(void) { return 9; }\n")
    nodes.append(Node(tmp_path, ["sleep", "1000"], LD_LIBRARY_PATH=folder))
    assert (nodes[0].lines(1).gpus, nodes[0].lines(1).sources.get("gpu")) == ((), None)


def test_the_signal_that_wakes_it_does_not_end_it(tmp_path: Path, nodes: list[Node]) -> None:
    nodes.append(Node(tmp_path, ["sleep", "1000"]))
    nodes[0].lines(1)
    nodes[0].sampler.send_signal(signal.SIGHUP)
    nodes[0].lines(3)
    assert nodes[0].sampler.poll() is None


def test_a_folder_that_is_removed_ends_it_without_a_word(tmp_path: Path, nodes: list[Node]) -> None:
    nodes.append(Node(tmp_path, ["sleep", "1000"]))
    nodes[0].lines(1)
    shutil.rmtree(tmp_path / "samples")
    assert nodes[0].sampler.wait(PATIENCE) == 0


def test_every_line_is_one_object_with_the_fields_of_the_format(tmp_path: Path, nodes: list[Node]) -> None:
    nodes.append(Node(tmp_path, ["sleep", "1000"]))
    nodes[0].lines(2)
    header, *lines = map(json.loads, (tmp_path / "samples/node-7.0.jsonl").read_text().splitlines())
    assert [*header] == [
        *("format", "node", "attempt", "interval", "began", "cpus", "memory_limit", "gpus", "sources"),
    ]
    assert all([*line] == ["t", "cpu", "ranks", "memory", "gpu", "net", "joules"] for line in lines)
    assert [*lines[0]["ranks"]] == ["3"]
