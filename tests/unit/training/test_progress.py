"""The lines of metrics.jsonl that a job without TensorFlow writes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.training import progress
from hpclaunch.training.metrics import metrics_log
from hpclaunch.training.optimization.learning_rate import Schedule
from hpclaunch.training.rank.world import World

ALONE = World(rank=0, size=1, local_rank=0, local_size=1, host="n1", device="CPU", threads=1, run_dir="")


def lines(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_warm_up_without_effect_is_printed_by_rank_0_alone(capsys: pytest.CaptureFixture[str]) -> None:
    idle = Schedule(rate=0.1, start=0.1, epochs=9, warmup_epochs=2)
    for world, schedule in (
        (ALONE, replace(idle, start=0.05)),
        (ALONE, replace(idle, warmup_epochs=0)),
        (replace(ALONE, rank=1, size=2), idle),
    ):
        progress.report_warm_up(world, schedule)
        assert capsys.readouterr().out == ""
    progress.report_warm_up(ALONE, idle)
    assert capsys.readouterr().out.startswith("the warm-up of 2 epochs has no effect: a step is one batch")


def test_single_slow_steps_do_not_count_as_variation() -> None:
    assert progress.step_times([0.1] * 9) == {}
    assert progress.step_times([0.1] * 20 + [5.0]) == {"step_s": 0.1, "step_spread": 0.0}
    assert progress.step_times([0.09, 0.1, 0.11] * 5)["step_spread"] > 0.1


def test_an_epoch_reports_the_samples_of_all_ranks_and_the_mean_loss(tmp_path: Path) -> None:
    log = metrics_log(str(tmp_path), True, synthetic=True)
    epoch = progress.Epoch(2, steps=4, samples=400)
    for _ in range(4):
        epoch.step_ended()
    loss = progress.mean_loss(ALONE, [1.0, 2.0, 3.0, 8.0], [10, 10, 10, 2])
    epoch.report(ALONE, log, {"loss": loss, "val_loss": 2.0}, 0.0)
    (line,) = lines(tmp_path)
    assert (line["val_loss"], line["validation_s"]) == (2.0, 0.0)
    assert (line["event"], line["epoch"], line["loss"]) == ("epoch", 3, 2.375)
    assert line["images_per_s"] > 0 and line["seconds"] >= 0
    resumed = progress.Epoch(0, steps=4, samples=400, first=3)
    assert resumed._samples == 100
