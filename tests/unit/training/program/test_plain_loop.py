"""The loop of PyTorch's and JAX's programs, with a framework that does nothing: its epochs, its end, its evaluation."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

from hpclaunch.training.input.array_file import ArrayFile
from hpclaunch.training.input.own_shard import OwnShard
from hpclaunch.training.metrics import metrics_log
from hpclaunch.training.program import plain_loop
from hpclaunch.training.program.run import Run
from hpclaunch.training.rank import stopping
from hpclaunch.training.rank.failure import RunAgain, TrainingError
from hpclaunch.training.rank.world import World
from tests.unit.training.several_ranks import on_ranks

ASKED = {"epochs": 2, "batch_size_per_rank": 3, "seed": 3, "train_samples": 0, "learning_rate": 0.1}
RATES = {"scale_learning_rate": "linear", "warmup_epochs": 0.0, "decay": "constant", "synthetic": False}


class Loop(plain_loop.PlainLoop):
    """Notes when it saves; `done` steps were made before."""

    def __init__(self, run: Run, data: OwnShard, done: int = 0) -> None:
        super().__init__(run, data)
        self._done, self.saved = done, list[int]()

    def step(self, loss: float) -> None:
        self._end_step(loss)

    def _ready(self, batch: Any) -> Any:
        return batch

    def _save(self) -> None:
        self.saved.append(self._done)


def opened(world: World, folder: Path, **arrays: Any) -> tuple[Run, OwnShard]:
    """A run on arrays: 20 training samples, and 7 for the test."""
    file = folder / f"own-{world.rank}.npz"
    np.savez(file, **arrays)
    asked = Namespace(**ASKED, **RATES)
    log = metrics_log(str(folder), world.is_root, False)
    run = Run("own", asked, world, log)  # type: ignore[arg-type]
    return run, OwnShard(world, asked, ArrayFile(str(file), ("x", "y"), 0.0, 3))


def arrays_of(targets: Any) -> dict[str, Any]:
    y = np.asarray([*range(27)], targets)
    x = y.astype(np.float32)[:, None]
    return {"x_train": x[:20], "y_train": y[:20], "x_test": x[20:], "y_test": y[20:]}


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == kind]


def test_it_makes_what_is_left_of_the_epochs_and_saves_after_each(tmp_path: Path) -> None:
    def work(world: World) -> tuple[int, list[int], float]:
        run, data = opened(world, tmp_path, **arrays_of(np.int64))
        loop, made = Loop(run, data, done=1), 0
        for inputs, targets in loop:
            assert inputs[:, 0].tolist() == targets.tolist()
            made += 1
            loop.step(2.0 + world.rank)
        run.end()
        return made, loop.saved, loop.learning_rate

    assert on_ranks(2, tmp_path, work) == [(7, [4, 8], 0.2)] * 2  # four steps an epoch, one of them made before
    assert [line["loss"] for line in events(tmp_path, "epoch")] == [2.5, 2.5]
    assert events(tmp_path, "end")[0]["epochs"] == 2


def test_a_program_that_ends_no_step_or_two_is_refused(tmp_path: Path) -> None:
    for calls in (0, 2):
        (world,) = on_ranks(1, tmp_path, lambda world: world)
        run, data = opened(world, tmp_path, **arrays_of(np.int64))
        loop = Loop(run, data)
        with pytest.raises(TrainingError, match="must end each of its steps once"):
            for _ in loop:
                for _ in range(calls):
                    loop.step(1.0)


def test_a_rank_that_is_asked_to_stop_makes_all_save_the_same_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "AGREE_STEPS", 2)

    def work(world: World) -> Any:
        run, data = opened(world, tmp_path, **arrays_of(np.int64))
        loop = Loop(run, data)
        try:
            for _ in loop:
                loop.step(1.0)
                monkeypatch.setattr(stopping, "_asked", [15])
        except RunAgain as error:
            return str(error), loop.saved
        return None

    assert on_ranks(2, tmp_path, work) == [("asked to stop; saved at step 2", [2])] * 2


def test_every_sample_of_every_rank_counts_once_in_the_evaluation(tmp_path: Path) -> None:
    def classes(world: World) -> Any:
        run, data = opened(world, tmp_path, **arrays_of(np.int64))
        return plain_loop.evaluate(run, lambda inputs: np.eye(27)[np.minimum(inputs[:, 0].astype(int), 24)], data)

    def numbers(world: World) -> Any:
        run, data = opened(world, tmp_path, **arrays_of(np.float32))
        return plain_loop.evaluate(run, lambda inputs: inputs + (inputs == 26) * 7, data)

    assert on_ranks(3, tmp_path, classes) == [{"test_accuracy": 5 / 7, "test_samples": 7}] * 3
    assert on_ranks(3, tmp_path, numbers) == [{"test_mae": 1.0, "test_mse": 7.0, "test_samples": 7}] * 3


def test_predictions_of_another_shape_are_refused(tmp_path: Path) -> None:
    (world,) = on_ranks(1, tmp_path, lambda world: world)
    run, data = opened(world, tmp_path, **arrays_of(np.float32))
    with pytest.raises(TrainingError, match=r"predictions \[3, 2\] do not fit targets \[3\]"):
        plain_loop.evaluate(run, lambda inputs: np.zeros((len(inputs), 2)), data)
