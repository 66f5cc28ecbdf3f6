"""The study of computed universes: what it submits, what becomes of a run, and its table, bars and picture."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("group checkout: an sdist holds no benchmarks", allow_module_level=True)

Reference = Callable[[str], ModuleType]
TARGETS = [{"name": "omega_m", "low": 0.2, "high": 0.4}, {"name": "h_0", "low": 60.0, "high": 80.0}]
ANSWERS = {"targets": TARGETS, "true": [[-1.0, 0.5], [1.0, 0.0]], "answered": [[-0.5, 0.123456], [1.0, 0.25]]}


def results(reference: Reference, ratios: dict[int, float], seconds: float = 600.0) -> list[Any]:
    def result(case: str, seed: int, measured: dict[str, Any]) -> Any:
        machine = {"processor": "x", "cores": 2}
        return reference("store").Result(
            study="universes", case=case, seed=seed, settings={}, measured=measured, machine=machine
        )

    def measured(ratio: float) -> dict[str, Any]:
        values = {"error": ratio * 0.05, "always_the_mean": 0.05, "ratio": ratio}
        rows = {f"{one['name']}_{what}": value for one in TARGETS for what, value in values.items()}
        return {**rows, "seconds": seconds, "answers": ANSWERS}

    data = result("data", 1, {"seconds": 900.0, "volumes": 1200})
    return [data, *(result("train", seed, measured(ratio)) for seed, ratio in ratios.items())]


def test_it_submits_the_commands_of_the_documentation(reference: Reference, tmp_path: Path) -> None:
    study = reference("universes")
    parts, training = study.commands(study.Bench(work=tmp_path, setup=study.FULL, cores=2), 3)
    sizes = "--set train=1000 --set validation=200 --set volume_size=64"
    assert [" ".join(words) for words in parts] == [
        f"universes --site local --set folder={tmp_path}/data {sizes} --set parts=2 --set part={part}"
        for part in (0, 1)
    ]
    expected = f"cosmoflow --site local --recipe universes-64 --data-dir {tmp_path}/data --set seed=3"
    assert " ".join(training) == expected
    documented = (ROOT / "docs" / "jobs.md").read_text()
    assert "hpclaunch submit cosmoflow --site local --recipe universes-64 --data-dir " in documented


def test_another_recipe_is_another_result(reference: Reference) -> None:
    study = reference("universes")
    full, small = study.settings_of(study.FULL), study.settings_of(study.SMALL)
    assert full["recipe"]["volume_size"] == full["data"]["volume_size"] == 64
    assert (small["recipe"]["volume_size"], small["recipe"]["epochs"]) == (32, 1)
    assert {"optimizer", "learning_rate", "batch_size_per_rank"} <= set(full["recipe"])


def test_volumes_are_counted_by_the_files_that_are_there(reference: Reference, tmp_path: Path) -> None:
    count = reference("universes").volumes_in
    assert count(tmp_path) == 0
    (tmp_path / "cosmoflow").mkdir()
    record = {"files": {"train-00000.tfrecord": 50, "validation-00000.tfrecord": 7}}
    (tmp_path / "cosmoflow" / "universes.json").write_text(json.dumps(record))
    assert count(tmp_path) == 0
    (tmp_path / "cosmoflow" / "validation-00000.tfrecord").touch()
    assert count(tmp_path) == 7


@pytest.mark.parametrize(("before", "written"), [(0, [1200]), (600, [])])
def test_the_time_of_a_part_of_the_data_is_no_result(
    reference: Reference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int, written: list[int]
) -> None:
    study, counts = reference("universes"), iter([before, 1200])
    monkeypatch.setattr(study, "volumes_in", lambda folder: next(counts))
    monkeypatch.setattr(study.Bench, "completed", lambda self, submissions: [])
    study.make_data(study.Bench(work=tmp_path, setup=study.FULL, cores=2), tmp_path / "results")
    found = reference("studies").current("universes", tmp_path / "results")
    assert [one.measured["volumes"] for one in found] == written


def test_what_a_run_has_left_becomes_flat_values(reference: Reference, tmp_path: Path) -> None:
    study = reference("universes")
    lines: list[dict[str, Any]] = [
        {"event": "start", "world_size": 1, "global_batch_size": 4},
        {"event": "epoch", "epoch": 1, "loss": 0.3333333},
        {"event": "end", "seconds": 55.5, "epochs": 1},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "answers.json").write_text(json.dumps(ANSWERS))
    expected = {"training_seconds": 55.5, "ranks": 1, "epochs": 1, "batch": 4, "loss": [0.33333]}
    assert study.of_metrics(tmp_path) == expected
    assert study.of_answers(tmp_path)["answers"]["answered"][0] == [-0.5, 0.1235]
    row = {"parameter": "omega_m", "error": 0.01, "always_the_mean": 0.025, "ratio": 0.4, "ratios": [0.4]}
    assert study.of_report({"parameters": [row]}) == {
        "omega_m_error": 0.01,
        "omega_m_always_the_mean": 0.025,
        "omega_m_ratio": 0.4,
    }


def test_the_table_has_medians_and_the_bar_is_for_every_seed(reference: Reference) -> None:
    report = reference("universes_report")
    found = results(reference, {1: 0.3, 2: 0.72, 3: 0.4})
    assert report.table(found[1:]).splitlines()[2:] == [
        "| omega_m | 0.02 | 0.05 | 0.40 (0.30 to 0.72) |",
        "| h_0 | 0.02 km/s/Mpc | 0.05 km/s/Mpc | 0.40 (0.30 to 0.72) |",
    ]
    ratio, minutes = report.held(found)
    assert ratio == "FALLS SHORT: ratio of Omega_m at most 0.7 with each of 3 seeds: 0.72"
    assert minutes == "holds: training with each of 3 seeds within 60 minutes: 30 (the data: 15 more)"
    assert report.held(results(reference, {1: 0.7}, seconds=3700.0))[0].startswith("holds: ")
    assert report.held(results(reference, {1: 0.7}, seconds=3700.0))[1].startswith("FALLS SHORT: ")


def test_the_picture_is_in_the_units_of_the_parameters(reference: Reference) -> None:
    report = reference("universes_report")
    omega, hubble = report.panels(results(reference, {1: 0.3})[1:])
    answers, exact = omega.series
    assert (list(answers.x), list(answers.y)) == (pytest.approx([0.2, 0.4]), pytest.approx([0.25, 0.4]))
    assert (exact.x, exact.y, hubble.series[1].x) == ((0.2, 0.4), (0.2, 0.4), (60.0, 80.0))
