"""Keras's own callbacks: which are refused, which belong to rank 0, and what they count survives an interruption."""

from __future__ import annotations

import pytest

try:
    import horovod.tensorflow as hvd
    import tensorflow as tf
except ImportError:
    pytest.skip("group horovod: horovod is not installed (the extra `train` brings it)", allow_module_level=True)

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpclaunch.training.callbacks import LearningRate
from hpclaunch.training.checkpoints import epoch_facts
from hpclaunch.training.checkpoints.resuming import Place
from hpclaunch.training.model_parallel.mesh import Mesh
from hpclaunch.training.monitoring import given_callbacks
from hpclaunch.training.monitoring.agreement import SameLogs, StopTogether
from hpclaunch.training.monitoring.kept import Kept
from hpclaunch.training.optimization.learning_rate import Schedule
from hpclaunch.training.rank import legacy_keras
from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.world import World
from tests.unit.training.several_ranks import on_ranks

KERAS = tf.keras.callbacks
ALONE = World(0, 1, 0, 1, "here", "CPU", 1, "")
assert hvd is not None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: KERAS.BackupAndRestore("/tmp/x"), "BackupAndRestore: leave it out"),
        (lambda: KERAS.EarlyStopping(restore_best_weights=True), "set --restore-best=true"),
        (type("Average", (KERAS.Callback,), {"__module__": "horovod.x"}), "Average of Horovod: leave it out"),
        (lambda: KERAS.EarlyStopping, "is not a Keras callback"),
    ],
)
def test_what_cannot_work_is_refused(given: Any, message: str) -> None:
    with pytest.raises(AgreedError, match=message):
        given_callbacks.check([given()], ALONE)


def test_no_callback_writes_a_part_of_a_divided_model() -> None:
    divided = replace(ALONE, size=2, mesh=Mesh(1, 2, 1, 0))
    with pytest.raises(AgreedError, match="ModelCheckpoint: rank 0 has a part of the model alone"):
        given_callbacks.check([KERAS.ModelCheckpoint("x")], divided)
    given_callbacks.check([KERAS.CSVLogger("x")], divided)
    given_callbacks.check([KERAS.ModelCheckpoint("x")], ALONE)


def test_only_rank_0_calls_those_that_write_files(tmp_path: Path) -> None:
    given = [KERAS.ModelCheckpoint("x"), KERAS.CSVLogger("x"), KERAS.TensorBoard("x"), KERAS.LambdaCallback()]
    found = on_ranks(2, tmp_path, lambda world: len(given_callbacks.own_of(given, world)))
    assert found == [4, 1]


def fit(epochs: int, given: list[Any], losses: list[float], first: int = 0, before: Any = None) -> tuple[Kept, Any]:
    """Train from epoch `first` on as `fit` does; the loss of epoch n is losses[n]."""
    facts = before or {}
    rates = LearningRate(Schedule(0.5, start=0.5, epochs=9), 1, factor=facts.get("rate_factor", 1.0))
    kept = Kept(ALONE, rates, None, given, Place(epoch=first, epochs_facts=facts))

    class Losses(KERAS.Callback):  # type: ignore[misc]
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            logs["loss"] = losses[epoch]

    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
    model.compile(legacy_keras.SGD(0.5), "mse")
    data = tf.data.Dataset.from_tensors((tf.ones([1, 1]), tf.ones([1, 1]))).repeat()
    steady = [rates, Losses(), *given, StopTogether(ALONE), kept]
    model.fit(data, initial_epoch=first, epochs=epochs, steps_per_epoch=1, callbacks=steady, verbose=0)
    return kept, model


def test_an_early_stop_of_keras_waits_on_after_an_interruption() -> None:
    losses = [3.0, 2.0, 2.5, 2.5, 2.5, 2.5, 2.5]
    whole, _ = fit(7, [KERAS.EarlyStopping("loss", patience=3)], losses)
    assert whole.epochs == 5 and whole.is_over
    first, _ = fit(4, [KERAS.EarlyStopping("loss", patience=3)], losses)
    facts = json.loads(json.dumps(first.facts(Place(4, 0, 4))))
    assert epoch_facts.fault_in(facts) == "" and not facts["stopped"]
    assert facts["callbacks"] == [["EarlyStopping", {"wait": 2, "best": 2.0, "best_epoch": 1, "stopped_epoch": 0}]]
    second, _ = fit(7, [KERAS.EarlyStopping("loss", patience=3)], losses, first=4, before=facts)
    assert second.epochs == 5
    assert Kept(ALONE, None, None, [], Place(epochs_facts=second.facts(Place(5, 0, 5)))).is_over


def test_a_rate_that_keras_has_reduced_stays_reduced() -> None:
    losses = [1.0, 1.0, 1.0, 1.0, 1.0]

    def plateau() -> Any:
        return KERAS.ReduceLROnPlateau("loss", factor=0.1, patience=2)

    _, whole = fit(5, [plateau()], losses)
    assert float(whole.optimizer.learning_rate) == pytest.approx(0.005)  # after epochs 3 and 5
    first, model = fit(3, [plateau()], losses)
    facts = json.loads(json.dumps(first.facts(Place(3, 0, 3))))
    assert facts["rate_factor"] == pytest.approx(0.1) and float(model.optimizer.learning_rate) == pytest.approx(0.05)
    second, model = fit(5, [plateau()], losses, first=3, before=facts)
    assert float(model.optimizer.learning_rate) == pytest.approx(0.005)
    assert second.facts(Place(5, 0, 5))["rate_factor"] == pytest.approx(0.01)


def test_a_schedule_of_keras_takes_the_place_of_a_constant_rate() -> None:
    rates: list[float] = []

    class Rates(KERAS.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            rates.append(float(self.model.optimizer.learning_rate))

    fit(3, [KERAS.LearningRateScheduler(lambda epoch, rate: 0.3 / (epoch + 1)), Rates()], [1.0] * 3)
    assert rates == pytest.approx([0.3, 0.15, 0.1])


def test_without_such_a_callback_the_factor_is_exactly_one() -> None:
    kept, _ = fit(3, [], [1.0] * 3)
    assert kept.facts(Place(3, 0, 3)) == {"best": None, "rate_factor": 1.0, "stopped": False, "callbacks": []}


def test_other_callbacks_begin_anew(capsys: pytest.CaptureFixture[str]) -> None:
    early = KERAS.EarlyStopping("loss")
    early.on_train_begin()
    given_callbacks.put_back([early], [["CSVLogger", {}]], ALONE)
    assert early.wait == 0 and "they start from the beginning" in capsys.readouterr().out
    given_callbacks.put_back([early], [["EarlyStopping", {"wait": 4, "model": 1}]], ALONE)
    assert early.wait == 4 and early.model is None


def test_a_stop_of_one_rank_within_an_epoch_ends_all_at_its_end(tmp_path: Path) -> None:
    class Model:
        stop_training = False

    def work(world: World) -> list[bool]:
        stop, model, found = StopTogether(world), Model(), []
        stop.set_model(model)
        for epoch in range(3):
            model.stop_training = world.rank == 1 and epoch == 1
            stop.on_train_batch_end(0)
            assert not model.stop_training
            stop.on_epoch_end(epoch)
            found.append(model.stop_training)
        return found

    assert on_ranks(2, tmp_path, work) == [[False, True, False]] * 2


def test_all_ranks_see_the_metrics_of_rank_0(tmp_path: Path) -> None:
    def work(world: World) -> dict[str, float]:
        logs = {"loss": 0.1 + 1e-17 * world.rank + world.rank}
        SameLogs(world).on_epoch_end(0, logs)
        return logs

    assert on_ranks(2, tmp_path, work) == [{"loss": 0.1}] * 2


@pytest.mark.parametrize(
    "change",
    [
        {"best": []},
        {"best": {"metric": "loss", "value": 1, "epoch": -1, "step": 0}},
        {"best": {"metric": "loss", "value": float("nan"), "epoch": 1, "step": 0}},
        {"best": {"metric": 3, "value": 1, "epoch": 1, "step": 0}},
        {"rate_factor": "1"},
        {"rate_factor": float("inf")},
        {"stopped": 0},
        {"callbacks": {}},
        {"callbacks": [["EarlyStopping", {"wait": "3"}]]},
        {"callbacks": [["EarlyStopping"]]},
        {"other": 1},
    ],
)
def test_damaged_facts_are_named(change: dict[str, Any]) -> None:
    good = {"best": None, "rate_factor": 1.0, "stopped": False, "callbacks": []}
    assert epoch_facts.fault_in(good) == epoch_facts.fault_in(None) == ""
    assert epoch_facts.fault_in({**good, **change}) and epoch_facts.fault_in([good])
