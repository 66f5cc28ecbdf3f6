"""The article's study: its cases fit the job, its results hold what the tables and pictures need, and those say it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.builders import bundled_job

if not (Path(__file__).parents[3] / "benchmarks").is_dir():
    pytest.skip("group checkout: an sdist holds no benchmarks", allow_module_level=True)

Reference = Callable[[str], ModuleType]


def outcome(reference: Reference, accuracy: float = 0.9, ranks: int = 2, epoch_s: float = 2.0) -> Any:
    """What comparisons/study.py gives for a run of three epochs."""
    runs = reference("hours_to_minutes_runs")
    epochs = [
        {
            "seconds": epoch_s + (3.0 if number == 0 else 0.0),
            "loss": 1.0 / (number + 1),
            "accuracy": accuracy,
            "val_loss": 1.1 / (number + 1),
            "val_accuracy": accuracy,
            "learning_rate": 0.0005,
        }
        for number in range(3)
    ]
    start = {"global_batch_size": 64, "steps_per_epoch": 16, "data": {"samples": {"train": 1020}}}
    look = reference("ranks").Look
    looks = tuple(look(at=2.0 * n, pss=ranks * 400_000_000, cores=0.9 * ranks if n else 0.0) for n in range(20))
    return runs.Outcome(
        seconds=12.0,
        samples_per_s=500.0,
        peak_pss=ranks * 400_000_000,
        start=start,
        epochs=epochs,
        end={"test_accuracy": accuracy},
        looks=looks,
    )


def write(reference: Reference, folder: Path) -> None:
    """Results of every case and two seeds, with times in which ranks share the work of one, up to two."""
    store, cases, runs = (reference(name) for name in ("store", "hours_to_minutes_cases", "hours_to_minutes_runs"))
    for seed in (1, 2):
        for case in cases.every_case(cases.FULL):
            found = outcome(reference, 0.9 + seed / 100, case.replicas, epoch_s=2.0 / min(2, case.replicas))
            measured = {**runs.of_training(found), **runs.of_use(found)}
            if case.name in runs.CHECKED:
                measured |= {"saved_model_accuracy": 0.9 + seed / 100, "keras_file_accuracy": 0.9 + seed / 100}
            settings = cases.settings_of(cases.FULL, case)
            store.write(
                store.Result(study="hours_to_minutes", case=case.name, seed=seed, settings=settings, measured=measured),
                folder,
            )
    layers = [{"name": "conv", "kind": "Conv2D", "shape": [500, 500, 16], "parameters": 448}]
    model = store.Result(
        study="hours_to_minutes", case="model", seed=1, settings=cases.MODEL_SETTINGS, measured={"layers": layers}
    )
    store.write(model, folder)


def test_every_switch_is_one_of_the_jobs_parameters(reference: Reference) -> None:
    cases = reference("hours_to_minutes_cases")
    every = cases.every_case(cases.FULL)
    assert len({case.name for case in every}) == len(every) == 12
    for case in every:
        for switch in case.switches:
            name, _, value = switch.removeprefix("--").partition("=")
            bundled_job("chips").parameters[name.replace("-", "_")].parse(value)
        divided = "--global-batch-size=64" in case.switches
        assert not (divided and any("scale-learning-rate" in switch for switch in case.switches))
    assert {case.replicas for case in cases.every_case(cases.SMALL)} == {1, 2}


def test_the_batch_is_divided_or_the_rate_scaled(reference: Reference) -> None:
    cases = {
        case.name: case
        for case in reference("hours_to_minutes_cases").every_case(reference("hours_to_minutes_cases").FULL)
    }
    assert cases["same-batch-4-power23"].batch == 64 and cases["same-batch-4-power23"].replicas == 4
    assert cases["shards-4"].batch == 16 and "--global-batch-size=64" in cases["shards-4"].switches
    assert cases["generator-4"].batch == 64 and "--global-batch-size=64" not in cases["generator-4"].switches


def test_times_are_those_of_warm_epochs_and_use_leaves_the_ends_out(reference: Reference) -> None:
    runs = reference("hours_to_minutes_runs")
    measured = {**runs.of_training(outcome(reference)), **runs.of_use(outcome(reference))}
    assert (measured["epoch_s"], measured["seconds"], measured["loss"]) == (2.0, 12.0, pytest.approx(1 / 3))
    assert measured["curves"]["loss"] == [1.0, 0.5, 0.33333]
    assert (measured["peak_pss_mb"], measured["mean_cores"]) == (800, 1.8)
    assert len(measured["use"]["at_s"]) == len(measured["use"]["cores"]) == 20


def test_a_speed_up_is_that_over_one_rank_of_the_same_seed(reference: Reference, tmp_path: Path) -> None:
    write(reference, tmp_path)
    store, by_case, report = reference("store"), reference("studies").by_case, reference("hours_to_minutes_report")
    alone = store.read("hours_to_minutes", "shards-1", 1, tmp_path)
    store.write(replace(alone, measured={**alone.measured, "epoch_s": 4.0}), tmp_path)
    old = store.read("hours_to_minutes", "shards-4", 1, tmp_path)
    store.write(replace(old, measured={**old.measured, "speed_up": 9.0}), tmp_path)  # as it was stored once

    def speed_ups(case: str) -> list[float | None]:
        return [one.measured.get("speed_up") for one in by_case("hours_to_minutes", tmp_path)[case]]

    assert (speed_ups("shards-1"), speed_ups("shards-4"), speed_ups("generator-2")) == ([1, 1], [4, 2], [2, 2])
    assert speed_ups("shards-1-all-cores") == [2, 1] and speed_ups("augmented-2") == [None, None]
    # Without the run of one rank there is none, and the tables and the picture leave it out.
    for seed in (1, 2):
        store.write(replace(store.read("hours_to_minutes", "shards-1", seed, tmp_path), settings={}), tmp_path)
    assert speed_ups("shards-4") == [None, None]
    found = by_case("hours_to_minutes", tmp_path)
    assert [one.label for one in report.speed_panel(found).series] == ["generator", "article, shards on GPUs"]
    (row,) = [row for row in report.times(found) if row[0] == "shards-4"]
    assert row[6:] == ["", "2", "2"]


def test_without_results_the_report_says_what_to_do(reference: Reference, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"run benchmarks/reference/hours_to_minutes\.py first"):
        reference("hours_to_minutes_report").report(tmp_path, tmp_path)


def test_the_list_estimates_what_is_left(
    reference: Reference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = reference("hours_to_minutes")
    for words, done in (([], 24), (["--cases", "shards-1", "--seeds", "1"], 1)):
        write(reference, tmp_path)
        monkeypatch.setattr("sys.argv", ["hours_to_minutes.py", "--list", f"--results={tmp_path}", *words])
        assert study.main() == 0
        lines = capsys.readouterr().out.splitlines()
        assert sum("done 20" in line for line in lines) == done
    assert lines[-1].startswith("the rest takes about 0 minutes")
    monkeypatch.setattr("sys.argv", ["hours_to_minutes.py", "--small"])
    with pytest.raises(SystemExit):
        study.parse()
    assert "another folder with --results" in capsys.readouterr().err
    assert reference("store").read("hours_to_minutes", "shards-1", 1, tmp_path).machine["cores"] >= 1
