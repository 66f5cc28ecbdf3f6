"""What was measured on the nodes of a run is read as it was written; a damaged file says less, and raises nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.runs.samples import GpuDevice, GpuSample, RankEnd, RankSample, last_start, samples_of

HEADER = {
    "format": 1,
    "node": "node-1",
    "attempt": "4711.0",
    "interval": 10,
    "began": 1000.0,
    "cpus": 4,
    "memory_limit": 8 * 2**30,
    "gpus": [{"index": 2, "name": "NVIDIA H100", "memory": 80 * 2**30}],
    "sources": {"cpu": "cgroup", "memory": "cgroup", "gpu": "nvml", "energy": None},
}
LINES = [
    {
        "t": 1010.0,
        "cpu": 12.5,
        "ranks": {"0": {"cpu": 4.0, "pss": 100, "read": 7, "write": 8}, "1": {"cpu": 8.0, "pss": None}},
        "memory": 500,
        "gpu": [{"use": 0.5, "memory": 10, "power": 300.5}],
        "net": {"in": 3, "out": 4},
        "joules": 20.0,
    },
    {"t": 1020.5, "cpu": 2.5, "ranks": {"0": {"cpu": 1.0}}, "memory": 400, "joules": 1.5},
]


def write(run: Path, name: str, *lines: Any, ends: str = "") -> None:
    (run / "samples").mkdir(exist_ok=True)
    file = run / f"samples/{name}.jsonl"
    file.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    if ends:
        file.with_suffix(".ranks").write_text(ends)


def test_all_of_a_node(tmp_path: Path) -> None:
    write(tmp_path, "node-1-4711.0", HEADER, *LINES)
    [node] = samples_of(tmp_path)
    assert (node.node, node.attempt, node.interval, node.began) == ("node-1", "4711.0", 10.0, 1000.0)
    assert (node.cpus, node.memory_limit) == (4, 8 * 2**30)
    assert node.gpus == (GpuDevice(index=2, name="NVIDIA H100", memory=80 * 2**30),)
    assert node.sources == {"cpu": "cgroup", "memory": "cgroup", "gpu": "nvml"}
    first, second = node.samples
    assert (first.t, first.cpu, first.memory, first.received, first.sent, first.joules) == (1010, 12.5, 500, 3, 4, 20)
    assert first.ranks == {0: RankSample(cpu=4.0, pss=100, read=7, write=8), 1: RankSample(cpu=8.0)}
    assert first.gpus == (GpuSample(use=0.5, memory=10, power=300.5),)
    assert (second.gpus, second.received) == ((), None)
    assert (node.ended, node.seconds, node.ranks) == (1020.5, 20.5, (0, 1))
    assert (node.cpu, node.rank_cpu(0), node.rank_cpu(1), node.rank_cpu(2)) == (15.0, 5.0, 8.0, None)
    assert (node.most_memory, node.joules) == (500, 21.5)


def test_the_kernels_account_at_a_ranks_end_replaces_its_samples(tmp_path: Path) -> None:
    ends = "begin 0 77 123\nbegin 1 78 124\nend 0 1023 9250 70 80\nend x\nend 1 1022 8500 1 2 3\n"
    write(tmp_path, "node-1-4711.0", HEADER, *LINES, ends=ends)
    [node] = samples_of(tmp_path)
    assert node.ends == {0: RankEnd(t=1023, cpu=9.25, read=70, write=80)}
    assert (node.rank_cpu(0), node.cpu, node.ended) == (9.25, 17.25, 1023)


def test_the_nodes_and_starts_of_a_run_in_the_order_of_time(tmp_path: Path) -> None:
    write(tmp_path, "b-1.1", {**HEADER, "node": "b", "attempt": "1.1", "began": 2000})
    write(tmp_path, "a-1.1", {**HEADER, "node": "a", "attempt": "1.1", "began": 2000})
    write(tmp_path, "z-1.0", {**HEADER, "node": "z", "attempt": "1.0", "began": 1000})
    nodes = samples_of(tmp_path)
    assert [one.node for one in nodes] == ["z", "a", "b"]
    assert [one.node for one in last_start(nodes)] == ["a", "b"]
    assert nodes[0].cpu is nodes[0].most_memory is nodes[0].joules is None
    assert nodes[0].seconds == 0


def test_a_run_without_the_folder_has_no_samples(tmp_path: Path) -> None:
    assert samples_of(tmp_path) == last_start([]) == []
    (tmp_path / "samples").write_text("")
    assert samples_of(tmp_path) == []


@pytest.mark.parametrize("line", ["", "{", "[]", {**HEADER, "format": 2}, {**HEADER, "began": "x"}, {"node": "a"}])
def test_a_file_without_a_valid_header_is_none(tmp_path: Path, line: Any) -> None:
    write(tmp_path, "node-1-4711.0", line, *LINES)
    assert samples_of(tmp_path) == []


@pytest.mark.parametrize("junk", [None, -1, True, "x", ["x"], [None], {"x": 1}, pytest.param(10**400, id="huge")])
def test_a_damaged_field_counts_as_not_measured(tmp_path: Path, junk: Any) -> None:
    header = {**dict.fromkeys(HEADER, junk), **{name: HEADER[name] for name in ("format", "node", "attempt", "began")}}
    write(
        tmp_path, "node-1-4711.0", header, dict.fromkeys(LINES[0], junk), {**dict.fromkeys(LINES[0], junk), "t": 1010}
    )
    [node] = samples_of(tmp_path)
    assert (node.cpus, node.memory_limit, node.interval) == (None, None, 0)
    [sample] = node.samples
    assert (sample.cpu, sample.memory, sample.joules, sample.received, sample.ranks) == (None,) * 4 + ({},)


def test_a_line_that_is_cut_off_does_not_count(tmp_path: Path) -> None:
    write(tmp_path, "node-1-4711.0", HEADER, LINES[0], json.dumps(LINES[1])[:40])
    [node] = samples_of(tmp_path)
    assert len(node.samples) == 1
