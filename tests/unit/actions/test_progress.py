"""How far runs are: nodes, times, epochs, from what their directories hold."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.actions.following.progress import ProgressOfRuns, RunProgress
from hpclaunch.runs import Run
from tests.builders import a_run

NOW = 1767323100.0
BEGAN = "2026-01-02T03:04:05Z"  # 55 s before
SPEC = {"layout": {"nodes": 2, "tasks_per_node": 4}, "walltime": 3600, "parameters": [["epochs", "8"]]}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = a_run(tmp_path, "7", "RUNNING")
    (run.path / "spec.json").write_text(json.dumps(SPEC))
    (run.path / "attempts/7.0").mkdir(parents=True)
    (run.path / "attempts/7.0/started").write_text(BEGAN)
    return run


def write(run: Run, *events: dict[str, Any]) -> None:
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write("".join(f"{json.dumps(event)}\n" for event in events))


def test_a_run_that_runs_has_times_and_epochs(run: Run) -> None:
    progress = ProgressOfRuns()
    first = progress.of(replace(run, nodes="n[1-3]"), NOW)
    assert (first.nodes, first.elapsed_s, first.walltime_left_s, first.left_s) == (3, 55.0, 3545.0, None)
    assert (first.epoch, first.epochs, first.loss) == (0, 8, None), "the parameters tell how many there will be"
    write(run, {"event": "start", "options": {"epochs": 4}})
    write(run, {"event": "epoch", "epoch": 1, "loss": 0.5, "seconds": 10.0, "time": NOW - 5})
    now = progress.of(run, NOW)
    assert (now.nodes, now.epoch, now.epochs, now.loss, now.left_s) == (2, 1, 4, 0.5, 25.0)
    assert now.to_json() == {
        "node_count": 2,
        "elapsed_s": 55,
        "left_s": 25,
        "walltime_left_s": 3545,
        "epoch": 1,
        "epochs": 4,
        "loss": 0.5,
    }


def test_a_run_that_waits_has_the_nodes_that_it_asks_for(run: Run) -> None:
    waiting = replace(run, state="PENDING", job_id="8")
    assert ProgressOfRuns().of(waiting, NOW) == RunProgress(nodes=2)
    (run.path / "spec.json").write_text('{"layout": {"nodes": 2, "further": [{"nodes": 1}, 3]}}')
    assert ProgressOfRuns().of(waiting, NOW).nodes == 3
    (run.path / "spec.json").write_text('{"layout": {"nodes": "2"}}')
    assert ProgressOfRuns().of(waiting, NOW) == RunProgress()


def test_an_ended_run_is_looked_at_once(run: Run) -> None:
    (run.path / "attempts/7.0/exit-code").write_text("0")
    write(run, {"event": "epoch", "epoch": 8, "loss": 0.25, "time": NOW})
    progress, ended = ProgressOfRuns(), replace(run, state="COMPLETED", nodes="n1")
    found = progress.of(ended, NOW)
    assert (found.nodes, found.epoch, found.left_s, found.walltime_left_s) == (1, 8, None, None)
    assert found.elapsed_s is not None and found.elapsed_s == pytest.approx(time.time() - NOW + 55, abs=60)
    write(run, {"event": "epoch", "epoch": 9, "loss": 0.2, "time": NOW})
    assert progress.of(ended, NOW + 100) is found


def test_the_beginning_is_looked_up_again_after_a_while(run: Run) -> None:
    progress = ProgressOfRuns()
    assert progress.of(run, NOW).elapsed_s == 55.0
    (run.path / "attempts/7.1").mkdir()
    (run.path / "attempts/7.1/started").write_text("2026-01-02T03:04:50Z")
    assert progress.of(run, NOW + 5).elapsed_s == 60.0
    assert progress.of(run, NOW + 40).elapsed_s == 50.0


def test_an_array_is_many_runs_and_has_only_its_nodes(run: Run) -> None:
    array = replace(run, tasks=3, nodes="")
    assert ProgressOfRuns().of(array, NOW) == RunProgress(nodes=2)
    assert ProgressOfRuns().of(replace(array, state="COMPLETED"), NOW) == RunProgress(nodes=2)


def test_a_run_whose_directory_is_gone_has_nothing(tmp_path: Path) -> None:
    run = replace(a_run(tmp_path, "7", "RUNNING"), path=tmp_path / "gone")
    assert ProgressOfRuns().of(run, NOW) == RunProgress()
