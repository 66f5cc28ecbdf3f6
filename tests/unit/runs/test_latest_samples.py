"""What ranks use now, by the ends of the nodes' samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hpclaunch.runs.latest_samples import GpuUse, RankUse, UseReader


def write(run_dir: Path, node: str, *lines: dict[str, Any], attempt: str = "7.0", began: float = 100.0) -> Path:
    gpus = [{"index": 0, "name": "a GPU", "memory": 16_000_000_000}]
    header = {"format": 1, "node": node, "attempt": attempt, "interval": 10, "began": began, "cpus": 8, "gpus": gpus}
    path = run_dir / "samples" / f"{node}-{attempt}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in (header, *lines)))
    return path


def sample(t: float, cpus: dict[str, float], use: float = 0.5) -> dict[str, Any]:
    ranks = {rank: {"cpu": cpu} for rank, cpu in cpus.items()}
    return {"t": t, "cpu": sum(cpus.values()), "memory": 1000, "ranks": ranks, "gpu": [{"use": use, "memory": 4000}]}


def test_a_run_without_samples_has_no_use(tmp_path: Path) -> None:
    assert UseReader(tmp_path).read() is None
    write(tmp_path, "n1")
    assert UseReader(tmp_path).read() is None


def test_the_last_interval_of_every_node_counts(tmp_path: Path) -> None:
    write(tmp_path, "n1", sample(110, {"0": 40, "1": 40}), sample(120, {"0": 20, "1": 4}, 0.25))
    write(tmp_path, "n2", sample(130, {"2": 120, "3": 30}))
    use = UseReader(tmp_path).read()
    assert use is not None
    # Of 8 cores each of two ranks has 4; the only interval of n2 took 30 s.
    assert use.ranks == tuple(RankUse(rank=rank, cpu=cpu) for rank, cpu in enumerate([0.5, 0.1, 1.0, 0.25]))
    assert use.gpus[0] == GpuUse(node="n1", index=0, use=0.25, memory=4000, total=16_000_000_000)
    assert (use.t, use.memory, use.nodes) == (130, 2000, 2)


def test_lines_that_are_added_are_read_and_an_earlier_start_is_left(tmp_path: Path) -> None:
    path = write(tmp_path, "n1", sample(110, {"0": 80}))
    reader = UseReader(tmp_path)
    first = reader.read()
    assert first is not None and first.ranks == (RankUse(rank=0, cpu=1.0),)
    with path.open("a") as file:
        file.write(json.dumps(sample(120, {"0": 8})) + '\n{"t": 13')
    second = reader.read()
    assert second is not None and second.ranks == (RankUse(rank=0, cpu=0.1),)
    write(tmp_path, "n9", sample(1010, {"0": 40}), attempt="7.1", began=1000.0)
    third = reader.read()
    assert third is not None and (third.nodes, third.gpus[0].node) == (1, "n9")


def test_what_was_not_measured_or_is_damaged_is_none(tmp_path: Path) -> None:
    write(tmp_path, "n1", {"t": 110, "ranks": {"0": {}, "x": 1}, "gpu": []})
    (tmp_path / "samples/n2-7.0.jsonl").write_text("no header\n")
    (tmp_path / "samples/n3-7.0.jsonl").write_text("")
    use = UseReader(tmp_path).read()
    assert use is not None
    assert (use.ranks, use.gpus, use.memory, use.nodes) == ((RankUse(rank=0, cpu=None),), (), None, 1)


def test_of_long_samples_the_end_is_read_without_the_line_that_it_begins_in(tmp_path: Path) -> None:
    long = {**sample(120, {"0": 8}), "other": "x" * 70_000}
    path = write(tmp_path, "n1", sample(110, {"0": 40}), {**long, "t": 115}, long)
    assert path.stat().st_size > 2**17
    use = UseReader(tmp_path).read()
    assert use is not None and (use.t, use.ranks) == (120, (RankUse(rank=0, cpu=0.05),)), "since the beginning"


def test_one_sample_counts_since_the_beginning(tmp_path: Path) -> None:
    write(tmp_path, "n1", sample(110, {"0": 40}))
    found = UseReader(tmp_path).read()
    assert found is not None and found.ranks == (RankUse(rank=0, cpu=0.5),)


def test_without_the_number_of_cores_no_share_of_them_is_known(tmp_path: Path) -> None:
    path = write(tmp_path, "n1", sample(110, {"0": 40}))
    path.write_text(path.read_text().replace('"cpus": 8, ', ""))
    found = UseReader(tmp_path).read()
    assert found is not None and found.ranks == (RankUse(rank=0, cpu=None),)


def test_two_samples_of_the_same_second_have_no_share(tmp_path: Path) -> None:
    write(tmp_path, "n1", sample(110, {"0": 40}), sample(110, {"0": 40}))
    found = UseReader(tmp_path).read()
    assert found is not None and found.ranks == (RankUse(rank=0, cpu=None),)


def test_memory_that_one_node_did_not_measure_is_not_known_for_all(tmp_path: Path) -> None:
    write(tmp_path, "n1", sample(110, {"0": 40}))
    write(tmp_path, "n2", {**sample(110, {"1": 40}), "memory": None})
    found = UseReader(tmp_path).read()
    assert found is not None and (found.memory, found.nodes) == (None, 2)


def test_of_a_large_run_the_first_nodes_are_read(tmp_path: Path) -> None:
    for number in range(70):
        write(tmp_path, f"n{number:02}", sample(110, {str(number): 80}))
    found = UseReader(tmp_path).read()
    assert found is not None and (found.nodes, found.memory) == (64, 64_000)
    assert [use.rank for use in found.ranks] == list(range(64))
