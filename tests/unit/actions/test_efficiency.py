"""What runs used, from samples or from accounting, against what their records say that they asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.actions.following.efficiency import Efficiency, efficiencies
from hpclaunch.runs import save
from hpclaunch.runs.record import Run
from tests.unit.runs.test_samples import HEADER, write

LAYOUT = {"nodes": 2, "tasks_per_node": 2, "cpus_per_task": 4, "cpus_per_core": 1, "gpus_per_node": 0}


def a_run(
    path: Path, seconds: float = 1000.0, layout: Mapping[str, Any] = LAYOUT, starts: int = 1, **changes: Any
) -> Run:
    """A completed run of the local site, whose starts took so many seconds each."""
    path.mkdir()
    spec = {"layout": dict(layout), "walltime": 4000, "directives": [["mem", "10G"]], **changes}
    (path / "spec.json").write_text(json.dumps(spec))
    for number in range(starts):
        folder = path / f"attempts/7.{number}"
        folder.mkdir(parents=True)
        began = 1_700_000_000 + 10_000 * number
        (folder / "started").write_text(datetime.fromtimestamp(began, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ\n"))
        (folder / "exit-code").write_text("0\n")
        os.utime(folder / "exit-code", (began + seconds, began + seconds))
    return save(
        Run(path=path, name="x", site="local", scheduler="local", created="2026", state="COMPLETED", job_id="7")
    )


def sampled(run: Run, node: str, cpu: float, attempt: str = "7.0", **more: Any) -> None:
    """One sample of 1000 s on a node, whose two ranks used a third and two thirds of it."""
    first = 0 if node == "a" else 2
    ranks = {str(first): {"cpu": cpu / 3}, str(first + 1): {"cpu": cpu * 2 / 3}}
    header = {**HEADER, "node": node, "attempt": attempt, "gpus": more.pop("gpus", [])}
    write(run.path, f"{node}-{attempt}", header, {"t": 2000.0, "cpu": cpu, "ranks": ranks, **more})


def judged(run: Run) -> Efficiency:
    [one] = efficiencies([run])
    return one


def shares(run: Run) -> dict[str, float | None]:
    return {one.name: one.share for one in judged(run).quantities}


def test_samples_of_two_nodes(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    sampled(run, "a", 1500.0, memory=2**30)
    sampled(run, "b", 3000.0, memory=5 * 2**30)
    one = judged(run)
    assert shares(run) == {"CPU": pytest.approx(4.5 / 16), "memory": 0.5, "time": 0.25}
    assert (one.ranks, one.sources["CPU"], one.energy) == ({0: 0.5, 1: 1.0, 2: 1.0, 3: 2.0}, "cgroup", None)
    options = {suggestion.about: " ".join(suggestion.options) for suggestion in one.suggestions}
    assert options == {"CPU": "--cpus-per-task 3", "memory": "--memory 6G", "time": "--walltime 00:20:00"}
    assert (one.unknown, one.is_known) == ((), True)


def test_a_run_that_idles_is_below_a_fifth_and_gets_the_advice(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    for node in ("a", "b"):
        sampled(run, node, 8.0)
    assert (shares(run)["CPU"] or 1) < 0.2
    advice = judged(run).suggestions[0]
    assert (advice.options, "Its ranks waited most of the time" in advice.words) == (("--cpus-per-task", "1"), True)


def test_the_starts_of_a_run_count_together_and_its_time_is_no_waste(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", starts=2)
    for attempt, cpu in (("7.0", 0.0), ("7.1", 8000.0)):
        for node in ("a", "b"):
            sampled(run, node, cpu, attempt)
    assert shares(run)["CPU"] == pytest.approx(0.5)
    assert "time" not in [one.about for one in judged(run).suggestions]


def test_gpus_are_weighted_by_time_and_one_node_that_is_missing_is_said(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", layout={**LAYOUT, "gpus_per_node": 2})
    devices = [{"index": 0, "name": "x", "memory": 100}, {"index": 1, "name": "x", "memory": 100}]
    first, rest = {"samples": 500, "seconds": 100.0}, {"samples": 4500, "seconds": 900.0}
    lines = [
        {"t": 1100.0, "gpu": [{"use": 1.0, "memory": 10, **first}, {"use": 0.0, "memory": 20, **first}]},
        {"t": 2000.0, "gpu": [{"use": 0.0, "memory": 5, **rest}, {"use": 0.0, "memory": 90, "own": 80, **rest}]},
    ]
    write(run.path, "a-7.0", {**HEADER, "node": "a", "gpus": devices}, *lines)
    found = shares(run)
    assert (found["GPU"], found["GPU memory"], found["CPU"]) == (pytest.approx(0.05), 0.8, None)
    assert judged(run).unknown == ("only 1 of its 2 nodes were measured",)
    assert judged(run).suggestions[0].words.startswith("used 5 % of 2 GPUs, 1 of them not at all")


def test_gpus_that_no_library_measured_are_said_to_be_unknown(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", layout={**LAYOUT, "gpus_per_node": 2})
    for node in ("a", "b"):
        sampled(run, node, 100.0)
    assert judged(run).unknown == (
        "its GPUs are not known: neither NVML nor ROCm SMI answered on its nodes, or none was visible",
    )
    stand_ins = a_run(tmp_path / "other", layout={**LAYOUT, "gpus_per_node": 2, "stand_in_gpus": True})
    assert "GPU" not in shares(stand_ins)


def test_without_samples_and_accounting_that_is_said(tmp_path: Path) -> None:
    one = judged(a_run(tmp_path / "run"))
    assert (one.is_known, one.sources) == (False, {})
    assert one.unknown == ("nothing is known but its time: it has no samples, and the scheduler no account of it",)


def test_energy_by_the_sampler(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    header = {**HEADER, "node": "a", "sources": {"energy": "rapl+gpu"}}
    write(run.path, "a-7.0", header, {"t": 1500.0, "joules": 10.0}, {"t": 2000.0, "joules": 2.5})
    energy = judged(run).energy
    assert energy and (energy.joules, energy.source) == (12.5, "rapl+gpu")


def test_a_run_that_has_not_begun_is_left_out(tmp_path: Path) -> None:
    assert efficiencies([a_run(tmp_path / "run", starts=0)]) == []


@pytest.mark.parametrize("junk", [None, 7, "x", {"nodes": -1}, {"nodes": "2"}])
def test_a_damaged_record_raises_nothing(tmp_path: Path, junk: Any) -> None:
    run = a_run(tmp_path / "run", layout={})
    (run.path / "spec.json").write_text(json.dumps({"layout": junk, "directives": junk, "walltime": junk}))
    sampled(run, "a", 10.0)
    assert json.dumps(judged(run).to_json())


PREDICTED = {"samples_per_s": 400.0, "low": 300.0, "high": 500.0, "measured": False, "mfu": 0.4, "peak": "989 TFLOP/s"}


def wrote_epochs(run: Run, *rates: float) -> Run:
    """The run with epochs of these rates."""
    lines = [{"event": "epoch", "epoch": place, "samples_per_s": rate} for place, rate in enumerate(rates)]
    (run.path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


def test_the_utilization_that_a_run_reached(tmp_path: Path) -> None:
    run = wrote_epochs(a_run(tmp_path / "run", predicted=PREDICTED), 50, 280, 300, 320)  # the first one does not count
    found = judged(run)
    assert found.mfu is not None
    assert (found.mfu.reached, found.mfu.expected, found.mfu.peak) == (pytest.approx(0.3), 0.4, "989 TFLOP/s")
    assert found.to_json()["mfu"] == {"reached": 0.3, "expected": 0.4, "peak": "989 TFLOP/s"}


def test_no_utilization_without_a_prediction_or_a_second_epoch(tmp_path: Path) -> None:
    unknown = {key: value for key, value in PREDICTED.items() if key not in ("mfu", "peak")}
    for place, (predicted, rates) in enumerate([(unknown, (300, 300)), (PREDICTED, (300,)), (None, (300, 300))]):
        run = wrote_epochs(a_run(tmp_path / str(place), predicted=predicted), *rates)
        assert judged(run).mfu is None
        assert judged(run).to_json()["mfu"] is None
