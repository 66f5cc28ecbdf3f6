"""The large-batch study: its rows fit the job's switches, what is done is not run again, and the table tells ranges."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
STUDY = ROOT / "benchmarks" / "large_batch"
if not STUDY.is_dir():
    pytest.skip("group checkout: an sdist holds no benchmarks", allow_module_level=True)


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    monkeypatch.syspath_prepend(str(STUDY))
    names = ("ranks", "rows", "table", "store", "results", "report")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(STUDY.parent / "reference"))
    found = {name: importlib.import_module(name) for name in names}
    for name in names:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(found["store"], "own_version", lambda: "0.1.0")  # git would be a process
    return found


def run_in(folder: Path, accuracy: float, ranks: int = 8) -> Path:
    start = {
        "event": "start",
        "world_size": ranks,
        "options": {"seed": 1, "data_dir": "/somebody/own"},
        "global_batch_size": 4096,
        "steps_per_epoch": 13,
        "parameters": 490_378,
        "scaled_learning_rate": 0.008,
        "data": {"layout": "npz", "path": "/somebody/own", "fingerprint": "crc-1", "samples": {"train": 50_000}},
        "versions": {"tensorflow": "2.15.1"},
        "synthetic": False,
    }
    epochs: list[dict[str, Any]] = [
        {"event": "epoch", "epoch": n, "loss": 1.0, "accuracy": accuracy * n / 2, "images_per_s": 100.0 * n}
        for n in (1, 2)
    ]
    end = {"event": "end", "epochs": 2, "test_accuracy": accuracy - 0.1, "test_samples": 10_000}
    lines = [start, *({**epoch, "learning_rate": 0.1} for epoch in epochs), end]
    folder.mkdir(exist_ok=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_a_run_becomes_a_result_that_names_no_folder(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    results, row = modules["results"], modules["rows"].BY_NAME["lamb"]
    ended = modules["ranks"].Ended(code=0, seconds=60.0, peak_pss=6_500_000_000)
    result = results.from_run(row, 1, run_in(tmp_path / "run", 0.8), ended)
    assert (result.training_accuracy, result.test_accuracy) == (0.8, pytest.approx(0.7))
    assert (result.training_loss, result.images_per_s, result.peak_pss_mb) == (1.0, 200.0, 6500)
    results.write(tmp_path, result)
    assert "/somebody/own" not in (tmp_path / results.NAME).read_text()
    assert results.read(tmp_path, 2, "lamb", 1) == result
    assert results.read(tmp_path, 2, "lamb", 2) is results.read(tmp_path, 12, "lamb", 1) is None
    assert results.current(row, result)
    assert not results.current(replace(row, program=modules["rows"].JOB), result)
    assert not results.current(replace(row, switches=row.switches[1:]), result)

    assert results.every(tmp_path, 2) == [result]
    results.write(tmp_path, replace(result, row="no-row-now"))
    assert results.every(tmp_path, 2) == [result]
    for stale in (replace(result, switches=[]), replace(result, synthetic=True)):
        results.write(tmp_path, stale)
        assert results.every(tmp_path, 2) == []


def test_metrics_that_are_not_whole_or_of_another_world_are_refused(
    modules: dict[str, ModuleType], tmp_path: Path
) -> None:
    ended = modules["ranks"].Ended(code=0, seconds=60.0, peak_pss=1)
    row = modules["rows"].BY_NAME["lamb"]
    with pytest.raises(ValueError, match="4 ranks, not 8"):
        modules["results"].from_run(row, 1, run_in(tmp_path / "four", 0.8, ranks=4), ended)
    cut = run_in(tmp_path / "cut", 0.8) / "metrics.jsonl"
    cut.write_text("".join(cut.read_text().splitlines(keepends=True)[:-2]))
    with pytest.raises(ValueError, match="1 epochs, 0 ends"):
        modules["results"].from_run(row, 1, cut.parent, ended)


def test_the_table_tells_median_and_range(
    modules: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results, row = modules["results"], modules["rows"].BY_NAME["lamb"]
    ended = modules["ranks"].Ended(code=0, seconds=60.0, peak_pss=6_500_000_000)
    for seed, accuracy in ((1, 0.80), (2, 0.83), (3, 0.81)):
        made = results.from_run(row, seed, run_in(tmp_path / "run", accuracy), ended)
        results.write(tmp_path, replace(made, epochs=12))
    results.write(tmp_path, replace(made, epochs=2, seed=1, images_per_s=600.0))
    monkeypatch.setattr(sys, "argv", ["report.py", "--results", str(tmp_path), "--markdown"])
    assert modules["report"].main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(modules["rows"].ROWS)
    (lamb,) = [line for line in lines if "`lamb`" in line]
    assert "| 600; 1 run |" in lamb  # of the short run
    assert "81.0 % (80.0 to 83.0)" in lamb and "71.0 % (70.0 to 73.0)" in lamb and "3 of 3" in lamb


def test_every_row_has_switches_that_go_together(modules: dict[str, ModuleType]) -> None:
    pytest.importorskip("numpy", reason="group training: numpy is not installed")
    from hpclaunch.training import options
    from hpclaunch.training.optimization import techniques

    for row in modules["rows"].ROWS:
        parser = options.parser("", {"from": ["images", "batch_norm"]})
        parser.add_argument("--own-order", type=options.boolean)
        assert techniques.faults(techniques.parse(parser, row.switches)) == [], row.name


def test_the_recipe_is_what_the_rules_of_planning_say(modules: dict[str, ModuleType]) -> None:
    from hpclaunch.guidelines import optimizers, rates

    rows = modules["rows"]
    batch = rows.RANKS * rows.BATCH_SIZE_PER_RANK
    adam = optimizers.choose_optimizer("adam", batch)
    warm_up = rates.warm_up(batch / rows.BATCH_SIZE_PER_RANK, adam.name, epochs=rows.EPOCHS)
    assert (
        f"--optimizer={adam.name}",
        f"--scale-learning-rate={rates.rule_for(adam.name)}",
        f"--warmup-epochs={warm_up.epochs:g}",
        f"--decay={rates.choose_decay(adam.name).name}",
    ) == rows.RECIPE


def test_ranks_of_the_reference_shuffle_alike_unless_each_has_an_order_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    try:
        import tensorflow as tf
    except ImportError:
        pytest.skip("group training: tensorflow is not installed (the extra `train` brings it)")
    monkeypatch.syspath_prepend(str(STUDY))
    unsharded = importlib.import_module("unsharded")
    monkeypatch.delitem(sys.modules, "unsharded")
    labels = list(range(100))
    images = tf.zeros([100, 1, 1, 1], tf.uint8)

    def drawn(process_seed: int, drawer: int) -> list[int]:
        tf.random.set_seed(process_seed)  # start() gives every rank another one
        _, first = next(iter(unsharded.batches(images, labels, 50, 1, drawer)))
        return list(first.numpy())

    assert drawn(11, 0) == drawn(22, 0)
    assert drawn(11, 0) != drawn(11, 1)


def test_a_folder_without_results_is_one_error(
    modules: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["report.py", "--results", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"no results of real images in .*: run benchmarks/large_batch/study.py first"):
        modules["report"].main()
