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
from hpclaunch.training.rank.failure import AgreedError, RunAgain, TrainingError
from hpclaunch.training.rank.world import World
from tests.unit.training.several_ranks import on_ranks

ASKED = {"epochs": 2, "batch_size_per_rank": 3, "seed": 3, "train_samples": 0, "learning_rate": 0.1}
RATES = {"scale_learning_rate": "linear", "warmup_epochs": 0.0, "decay": "constant", "synthetic": False}


class Loop(plain_loop.PlainLoop):
    """Notes when it saves; `done` steps were made before."""

    def __init__(self, run: Run, data: OwnShard, done: int = 0) -> None:
        super().__init__(run, data)
        self._done, self.saved, self.sound = done, list[int](), True

    def step(self, loss: float) -> None:
        self._end_step(loss)

    def _ready(self, batch: Any) -> Any:
        return batch

    def _is_sound(self) -> bool:
        return self.sound

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


@pytest.mark.parametrize(
    ("loss", "sound", "found"),
    [
        (float("nan"), True, "the loss is nan"),
        (float("inf"), True, "the loss is inf"),
        (1.0, False, plain_loop.UNSOUND),
    ],
)
@pytest.mark.parametrize(("every", "when"), [(50, "the end of epoch 2"), (2, "step 2")])
def test_what_one_rank_finds_wrong_ends_all_before_the_next_checkpoint(
    loss: float, sound: bool, found: str, every: int, when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_loop, "CHECK_STEPS", every)

    def work(world: World) -> Any:
        run, data = opened(world, tmp_path, **arrays_of(np.int64))
        loop, made = Loop(run, data), 0
        try:
            for _ in loop:
                made += 1
                wrong = world.rank == 1 and made > 4
                loop.sound = sound or not wrong
                loop.step(loss if wrong else 1.0)
        except AgreedError as error:
            return str(error), loop.saved, error.speaks
        return None

    text = f"{found} at {when}: training has diverged. Lower the learning rate, or lengthen the warm-up."
    assert on_ranks(2, tmp_path, work) == [(text, [4], True), (text, [4], False)]
    assert [line["epoch"] for line in events(tmp_path, "epoch")] == [1]


@pytest.mark.parametrize("dimensions", [1, 2])
def test_one_score_tells_two_classes_by_a_threshold(dimensions: int, tmp_path: Path) -> None:
    def evaluated(scores: Any, threshold: float | None = None) -> Any:
        def work(world: World) -> Any:
            y = np.asarray([number % 2 for number in range(27)], np.int64)
            x = y.astype(np.float32)[:, None]
            split = {"x_train": x[:20], "y_train": y[:20], "x_test": x[20:], "y_test": y[20:]}
            run, data = opened(world, tmp_path, **split)
            found = plain_loop.evaluate(
                run, lambda inputs: scores(inputs if dimensions == 2 else inputs[:, 0]), data, threshold
            )
            return found["test_accuracy"]

        results = on_ranks(2, tmp_path, work)
        return str(results[0]) if isinstance(results[0], AgreedError) else results

    assert evaluated(lambda x: 4 * x - 2) == [1.0] * 2  # logits
    assert evaluated(lambda x: 4 * x - 2, 0.0) == [1.0] * 2
    assert evaluated(lambda x: 0.2 + 0.6 * x, 0.5) == [1.0] * 2  # probabilities
    assert "give evaluate threshold=0.5 if they are probabilities" in evaluated(lambda x: 0.2 + 0.6 * x)


def test_scores_that_do_not_fit_the_classes_are_refused(tmp_path: Path) -> None:
    (world,) = on_ranks(1, tmp_path, lambda world: world)
    run, data = opened(world, tmp_path, **arrays_of(np.int64))
    with pytest.raises(TrainingError, match="one score for a sample, which tells class 0 from class 1, but there is a"):
        plain_loop.evaluate(run, lambda inputs: inputs, data)
    with pytest.raises(TrainingError, match=r"scores \[3, 2, 27\] do not fit targets \[3\]"):
        plain_loop.evaluate(run, lambda inputs: np.zeros((len(inputs), 2, 27)), data)


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
