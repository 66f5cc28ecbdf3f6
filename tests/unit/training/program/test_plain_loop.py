"""The loop of PyTorch's and JAX's programs, with a framework that does nothing: its epochs, its end, its evaluation."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

from hpclaunch.training.checkpoints import save_points
from hpclaunch.training.checkpoints.plain_state import Leaf, PlainState
from hpclaunch.training.checkpoints.resuming import Place
from hpclaunch.training.checkpoints.save_points import SavePoints
from hpclaunch.training.input.array_file import ArrayFile
from hpclaunch.training.input.own_shard import MicroBatch, OwnShard
from hpclaunch.training.metrics import metrics_log
from hpclaunch.training.program import plain_loop
from hpclaunch.training.program.run import Run
from hpclaunch.training.program.settings import Settings
from hpclaunch.training.rank import stopping
from hpclaunch.training.rank.failure import AgreedError, RunAgain, TrainingError
from hpclaunch.training.rank.world import World
from tests.unit.training.several_ranks import RankInThread, on_ranks

ASKED = {"epochs": 2, "batch_size_per_rank": 3, "seed": 3, "train_samples": 0, "learning_rate": 0.1}
RATES = {"scale_learning_rate": "linear", "warmup_epochs": 0.0, "warmup_steps": 0, "decay": "constant"}
RATES.update(decay_epochs=(), decay_factor=0.1, decay_power=1.0, accumulation=1, synthetic=False)
BEST = {"patience": 0, "monitor": "", "monitor_mode": "auto", "min_delta": 0.0, "keep_best": False}
BEST.update(restore_best=False, validation_every=1)
SAVES = {"checkpoint_minutes": 0.0, "checkpoint_steps": 0, "keep_checkpoints": 2, "resume": True}


class Weights(PlainState):
    """Two weights, which each step changes."""

    framework = "NumPy"

    def __init__(self, world: World) -> None:
        super().__init__(world, 3)
        self.weights = np.zeros(2)

    def leaves(self) -> list[Leaf]:
        return [Leaf("weights", "float64", (2,), lambda: self.weights)]

    def put(self, arrays: list[Any], about: Any) -> None:
        (self.weights,) = arrays

    def random(self) -> dict[str, Any]:
        return {"random-own": np.zeros(3)}

    def put_random(self, arrays: dict[str, Any]) -> None:
        pass

    def seed_random(self, number: int) -> None:
        pass


class Loop(plain_loop.PlainLoop):
    """Notes after how many steps it saves."""

    def __init__(self, run: Run, data: OwnShard, validate: Any = None) -> None:
        self.state = Weights(run.world)
        super().__init__(run, data, self.state, validate)
        self.saved, self.sound = list[int](), True

    def step(self, loss: float) -> None:
        self.state.weights = self.state.weights + loss
        self._end_step(loss)

    def _export(self) -> dict[str, Any]:
        return {}

    def _average_weights(self) -> None:
        pass

    def _take_average(self) -> None:
        pass

    def _take_restored(self) -> None:
        pass

    @contextlib.contextmanager
    def _open_validation(self) -> Iterator[Any]:
        assert self._validate is not None
        yield self._validate

    def _micro_batches(self, epoch: int, first: int) -> Iterator[MicroBatch]:
        return self._data.micro_batches(epoch, first)

    def _ready(self, micro: MicroBatch) -> Any:
        self.micro = micro
        return micro.batch

    def _is_sound(self) -> bool:
        return self.sound

    def _prove(self, when: str) -> None:
        pass

    def _save(self, place: Place, stop: bool) -> None:
        self.saved.append(place.made)
        super()._save(place, stop)


def opened(world: World, folder: Path, options: Any = None, **arrays: Any) -> tuple[Run, OwnShard]:
    """A run on arrays: 20 training samples, and 7 for the test."""
    file = folder / f"own-{world.rank}.npz"
    np.savez(file, **arrays)
    asked = Settings(**{**ASKED, **RATES, **SAVES, **BEST, **(options or {})})
    log = metrics_log(str(folder), world.is_root, False)
    run = Run("own", asked, world, log)
    data = OwnShard(world, asked, ArrayFile(str(file), ("x", "y"), 0.0, 3))
    data.validation = "validation" if "x_validation" in arrays else ""
    return run, data


def arrays_of(targets: Any) -> dict[str, Any]:
    y = np.asarray([*range(27)], targets)
    x = y.astype(np.float32)[:, None]
    return {"x_train": x[:20], "y_train": y[:20], "x_test": x[20:], "y_test": y[20:]}


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == kind]


def stopped_after(loop: Loop, world: World, steps: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """Ask the last rank to stop after so many steps; what all then say."""
    for made, _ in enumerate(loop, 1):
        loop.step(2.0 + world.rank)
        if made == steps and world.rank == world.size - 1:
            monkeypatch.setattr(stopping, "state", lambda world: (world.rank == world.size - 1, False))
    return ""


def test_it_makes_what_is_left_of_the_epochs_and_saves_after_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begun(world: World) -> Any:
        run, data = opened(world, tmp_path, **arrays_of(np.int64))
        loop = Loop(run, data)
        with pytest.raises(RunAgain) as error:
            stopped_after(loop, world, 1, monkeypatch)
        return str(error.value).partition(" in ")[0], loop.saved

    def work(world: World) -> Any:
        run, data = opened(world, tmp_path, **arrays_of(np.int64))
        loop, made = Loop(run, data), 0
        for inputs, targets in loop:
            assert inputs[:, 0].tolist() == targets.tolist()
            made += 1
            loop.step(2.0 + world.rank)
        run.end()
        return made, loop.saved, loop.learning_rate, loop.state.weights.tolist()

    with monkeypatch.context() as patched:
        patched.setattr(save_points, "LOOK_S", 0.0)
        monkeypatch = patched
        assert on_ranks(2, tmp_path, begun) == [("asked to stop; saved at epoch 1, step 1 of 4", [1])] * 2
    found = on_ranks(2, tmp_path, work)
    # Four steps an epoch, one of them made before. Rank 0's weights are those of all.
    assert found == [(7, [4, 8], 0.2, [16.0, 16.0]), (7, [4, 8], 0.2, [23.0, 23.0])]
    assert [line["loss"] for line in events(tmp_path, "epoch")] == [2.5, 2.5]
    assert events(tmp_path, "end")[0]["epochs"] == 2
    assert [line["step"] for line in events(tmp_path, "checkpoint")] == [4, 8]  # the first is moved away
    assert [line["steps_made"] for line in events(tmp_path, "resume")] == [1] and len(events(tmp_path, "start")) == 0


def test_a_step_of_several_batches_counts_once_and_its_rates_follow_the_epochs(tmp_path: Path) -> None:
    """20 samples on two ranks, in steps of 3 + 3 samples; the second step of an epoch has 3 + 1."""
    options = {"epochs": 3, "accumulation": 2, "decay": "step", "decay_epochs": (1.0, 2.0), "checkpoint_steps": 1}

    def work(world: World) -> Any:
        run, data = opened(world, tmp_path, options, **arrays_of(np.int64))
        loop, seen = Loop(run, data), []
        for _, targets in loop:
            seen.append((len(targets), loop.micro.share, loop.micro.is_last, loop.learning_rate))
            loop.step(float(len(targets)))
        return seen, loop.saved

    for seen, saved in on_ranks(2, tmp_path, work):
        assert [one[:3] for one in seen] == 3 * [(3, 0.5, False), (3, 0.5, True), (3, 0.75, False), (1, 0.25, True)]
        rates = [rate for *_, rate in seen]
        assert rates == pytest.approx(4 * [0.4] + 4 * [0.04] + 4 * [0.004])  # 0.1, for 2 x 2 batches
        assert saved == [1, 2, 3, 4, 5, 6]
    assert [line["loss"] for line in events(tmp_path, "epoch")] == [2.8] * 3  # of the samples, not of the batches


VALIDATED = {"x_validation": np.arange(7, dtype=np.float32)[:, None], "y_validation": np.arange(7)}


def validated(
    world: World, folder: Path, course: list[float], options: Any = None, until: int = 0
) -> tuple[Loop, list[float]]:
    """Train with a validation whose loss in each epoch is that of `course`, on 7 samples with losses apart.

    until: the epoch in which the program dies. Also the weights by epoch.
    """
    weights = list[float]()

    def validate(inputs: Any, targets: Any) -> dict[str, float]:
        # The loss of a sample is far from the mean, which alone is that of the epoch.
        return {"loss": course[min(len(weights), len(course) - 1)] + targets.mean() - 3, "accuracy": 0.5}

    asked = {"epochs": 9, "patience": 2, "restore_best": True, "keep_checkpoints": 1, **(options or {})}
    run, data = opened(world, folder, asked, **arrays_of(np.int64), **VALIDATED)
    loop = Loop(run, data, validate)
    made = loop._made
    weights += [0.0] * (made // data.steps)
    for _ in loop:
        loop.step(1.0 + world.rank)
        made += 1
        if made % data.steps == 0:
            if until and made == until * data.steps:
                break
            weights.append(0.0)
    run.end()
    return loop, weights


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_validation_of_all_ranks_counts_each_sample_once_and_ends_the_training(size: int, tmp_path: Path) -> None:
    course = [5.0, 5.0, 3.0, 4.0, 3.0, 1.0]

    def work(world: World) -> Any:
        loop, _ = validated(world, tmp_path, course)
        return loop.state.weights.tolist(), loop.saved

    found = on_ranks(size, tmp_path, work)
    lines = events(tmp_path, "epoch")
    assert [line["val_loss"] for line in lines] == pytest.approx([5.0, 3.0, 4.0, 3.0], rel=1e-12)
    assert {line["val_accuracy"] for line in lines} == {0.5} and all(line["validation_s"] >= 0 for line in lines)
    (end,) = events(tmp_path, "end")
    assert (end["epochs"], end["best_epoch"], end["best_metric"]) == (4, 2, "val_loss")
    (early,) = events(tmp_path, "early_stop")
    assert (early["after"], early["epoch"]) == (4, 2)
    steps = {1: 7, 2: 4, 3: 3}[size]
    # The weights are those of epoch 2, whose checkpoint was kept beside the newest one.
    assert [weights for weights, _ in found] == [[2.0 * steps] * 2] * size
    kept = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert kept == [f"step-{2 * steps:08d}", f"step-{4 * steps:08d}"]


@pytest.mark.parametrize("until", [1, 2, 3, 4])
def test_patience_and_the_best_epoch_survive_an_interruption(until: int, tmp_path: Path) -> None:
    course = [5.0, 5.0, 3.0, 4.0, 3.0, 1.0]

    def first(world: World) -> None:
        validated(world, tmp_path, course, until=until)

    def again(world: World) -> Any:
        return validated(world, tmp_path, course)[0].state.weights.tolist()

    on_ranks(2, tmp_path, first)
    assert on_ranks(2, tmp_path, again) == [[8.0] * 2] * 2
    (end,) = events(tmp_path, "end")
    assert (end["epochs"], end["best_epoch"]) == (4, 2)
    assert [line["epoch"] for line in events(tmp_path, "epoch")] == [1, 2, 3, 4]
    assert on_ranks(2, tmp_path, again) == [[8.0] * 2] * 2  # a run that has ended early trains no more
    assert len(events(tmp_path, "epoch")) == 4
    more = on_ranks(2, tmp_path, lambda world: validated(world, tmp_path, course, {"patience": 3})[1])
    assert len(more[0]) > 4  # but with more patience it does


def test_every_second_epoch_and_the_last_are_validated(tmp_path: Path) -> None:
    options = {"epochs": 5, "validation_every": 2, "patience": 0, "restore_best": False}
    on_ranks(2, tmp_path, lambda world: validated(world, tmp_path, [1.0], options))
    assert ["val_loss" in line for line in events(tmp_path, "epoch")] == [False, True, False, True, True]


@pytest.mark.parametrize("until", [0, 2, 3, 4, 5, 6])  # the program dies in this epoch; 0: in none
def test_training_ends_after_no_epoch_that_is_not_validated(until: int, tmp_path: Path) -> None:
    """Epochs 2, 4 and 6 are validated, of which the last is not better than the one before."""
    course = [1.0, 1.0, 1.0, 0.9, 0.5, 0.9, 0.6]
    options = {"validation_every": 2, "patience": 1, "restore_best": False}
    for dies in (until, 0) if until else (0,):
        validated(on_ranks(1, tmp_path, lambda world: world)[0], tmp_path, course, options, until=dies)
    lines = events(tmp_path, "epoch")
    assert [line["epoch"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert [line["val_loss"] for line in lines if "val_loss" in line] == pytest.approx([1.0, 0.5, 0.6])
    assert [(line["after"], line["epoch"]) for line in events(tmp_path, "early_stop")] == [(6, 4)]
    assert events(tmp_path, "end")[-1]["epochs"] == 6


def test_a_metric_that_no_validation_gives_ends_the_run_after_its_first_step(tmp_path: Path) -> None:
    found = on_ranks(2, tmp_path, lambda world: validated(world, tmp_path, [1.0], {"monitor": "val_f1"}))
    assert {str(one) for one in found} == {
        "--monitor=val_f1: there is no such metric; this training has loss, val_loss, val_accuracy"
    }
    assert not (tmp_path / "metrics.jsonl").exists() and not (tmp_path / "checkpoints").exists()


def test_a_validation_that_fails_on_one_rank_ends_all_after_the_first_step(tmp_path: Path) -> None:
    def work(world: World) -> None:
        def validate(inputs: Any, targets: Any) -> float:
            if world.rank:
                raise TrainingError("scores do not fit")
            return 1.0

        run, data = opened(world, tmp_path, **arrays_of(np.int64), **VALIDATED)
        loop = Loop(run, data, validate)
        for _ in loop:
            assert loop._made == 0
            loop.step(1.0)

    found = on_ranks(2, tmp_path, work)
    assert {str(one) for one in found} == {"1 of 2 ranks, first rank 1: scores do not fit"}


@pytest.mark.parametrize("split", ["validation", "test"])
def test_samples_of_the_validation_are_read_once_and_in_no_other_collective(
    split: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ranks tell each other of their progress in a thread of its own, beside which no other collective may run."""
    working, nested, reads = threading.local(), list[Any](), list[str]()
    together, gather, read = World.together, RankInThread.gather, ArrayFile.read

    def noted(world: World, work: Any, long: bool = False) -> Any:
        def inside() -> Any:
            outer, working.now = getattr(working, "now", False), True
            try:
                return work()
            finally:
                working.now = outer

        return together(world, inside, long)

    def met(world: RankInThread, value: Any) -> list[Any]:
        if getattr(working, "now", False):
            nested.append(value)
        return gather(world, value)

    monkeypatch.setattr(World, "together", noted)
    monkeypatch.setattr(RankInThread, "gather", met)
    monkeypatch.setattr(ArrayFile, "read", lambda file, name, own: [reads.append(name), read(file, name, own)][1])

    def work(world: World) -> None:
        run, data = opened(world, tmp_path, {"epochs": 3}, **arrays_of(np.int64), **VALIDATED)
        data.validation = split
        loop = Loop(run, data, lambda inputs, targets: 1.0)
        for _ in loop:
            loop.step(1.0)
        plain_loop.evaluate(run, lambda inputs: np.zeros((len(inputs), 27)), data)

    assert on_ranks(2, tmp_path, work) == [None, None]
    assert len(events(tmp_path, "epoch")) == 3 and not nested
    assert reads.count(split) == 2  # on each rank


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (
            lambda rank, batch: rank == 0,
            "validate gives f1, loss for rank 0, but loss for rank 1: let it give the same",
        ),
        (
            lambda rank, batch: rank == 1,
            "validate gives loss for rank 0, but f1, loss for rank 1: let it give the same",
        ),
        (lambda rank, batch: batch == 1, "validate gives loss for a batch, but f1, loss for another"),
    ],
    ids=["more-on-rank-0", "more-on-rank-1", "more-in-a-batch"],
)
def test_a_validation_that_gives_other_metrics_somewhere_is_refused(more: Any, told: str, tmp_path: Path) -> None:
    def work(world: World) -> None:
        run, data = opened(world, tmp_path, **arrays_of(np.int64), **VALIDATED)
        own = {"loss": 1.0, "f1": 0.5}
        loop = Loop(run, data, lambda x, y: own if more(world.rank, len(y)) else {"loss": 1.0})
        for _ in loop:
            loop.step(1.0)

    found = on_ranks(2, tmp_path, work)
    assert all(isinstance(one, AgreedError) and told in str(one) for one in found), found
    assert not (tmp_path / "checkpoints").exists()


def test_a_validation_without_a_function_is_refused(tmp_path: Path) -> None:
    (world,) = on_ranks(1, tmp_path, lambda world: world)
    run, data = opened(world, tmp_path, {"validation_part": 0.1}, **arrays_of(np.int64), **VALIDATED)
    with pytest.raises(AgreedError, match="--validation-part has no effect: this program does not say how it is"):
        Loop(run, data)


def test_a_program_that_ends_no_step_or_two_is_refused(tmp_path: Path) -> None:
    for calls in (0, 2):
        (world,) = on_ranks(1, tmp_path, lambda world: world)
        run, data = opened(world, tmp_path, **arrays_of(np.int64))
        loop = Loop(run, data)
        with pytest.raises(TrainingError, match="must end each of its steps once"):
            for _ in loop:
                for _ in range(calls):
                    loop.step(1.0)


@pytest.mark.parametrize(
    ("options", "clock", "saved"),
    [
        ({"checkpoint_steps": 3}, 0.0, [3, 4, 6, 8]),
        ({"checkpoint_minutes": 1.0}, 25.0, [3, 4, 7, 8]),  # each step takes 25 seconds
        ({"checkpoint_minutes": 1.0}, 10.0, [4, 8]),
    ],
)
def test_it_saves_at_the_intervals_of_the_settings(
    options: Any, clock: float, saved: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(save_points.time, "monotonic", lambda: now[0])
    (world,) = on_ranks(1, tmp_path, lambda world: world)
    run, data = opened(world, tmp_path, {**options, "batch_size_per_rank": 5}, **arrays_of(np.int64))
    loop = Loop(run, data)
    for _ in loop:
        loop.step(1.0)
        now[0] += clock
    assert loop.saved == saved


@pytest.mark.parametrize(("seconds", "looks"), [(2.0, 8), (0.5, 5), (0.125, 4)])
def test_ranks_agree_on_a_stop_about_once_a_second_whatever_a_step_takes(
    seconds: float, looks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps longer than a second are each followed by a look; the end of an epoch of four has one in any case."""
    now, times = [0.0], list[float]()
    monkeypatch.setattr(save_points.time, "monotonic", lambda: now[0])
    (world,) = on_ranks(1, tmp_path, lambda world: world)
    run, data = opened(world, tmp_path, {"batch_size_per_rank": 5}, **arrays_of(np.int64))
    loop, look = Loop(run, data), SavePoints.look
    monkeypatch.setattr(SavePoints, "look", lambda self, made: [times.append(now[0]), look(self, made)][1])
    for _ in loop:
        now[0] += seconds
        loop.step(1.0)
    assert len(times) == looks and max(later - one for one, later in itertools.pairwise(times)) <= max(1.0, seconds)


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


def test_losses_are_read_behind_the_steps_but_not_at_the_ends_of_an_epoch(tmp_path: Path) -> None:
    """A device computes on while the host gives it the next step; times of an epoch are still those of the device."""
    read = list[tuple[int, float]]()

    class Lagging(Loop):
        lag = 1
        made = 0

        def _begin_reading(self, loss: float) -> Any:
            self.made += 1

            def number() -> float:
                read.append((self.made, loss))
                return loss

            return number

    def work(world: World) -> Any:
        run, data = opened(world, tmp_path, **arrays_of(np.int64))
        loop = Lagging(run, data)
        for made, _ in enumerate(loop, 1):
            loop.step(float(made))

    on_ranks(1, tmp_path, work)
    # Seven steps an epoch: the first and the last are read at once, the others after the next one has begun.
    first = [(1, 1.0), (3, 2.0), (4, 3.0), (5, 4.0), (6, 5.0), (7, 6.0), (7, 7.0)]
    assert read == [*first, *[(made + 7, loss + 7) for made, loss in first]]
    found = [line["loss"] for line in events(tmp_path, "epoch")]
    assert found == [
        pytest.approx((sum(range(1, 7)) * 3 + 7 * 2) / 20),
        pytest.approx((sum(range(8, 14)) * 3 + 28) / 20),
    ]
