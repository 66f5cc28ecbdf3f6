"""A fit that begins within an epoch tells and saves what one unbroken fit does; on one rank, Horovod not started."""

from __future__ import annotations

import pytest

try:
    import horovod.tensorflow as hvd
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group horovod: horovod is not installed (the extra `train` brings it)", allow_module_level=True)

from typing import Any

from hpclaunch.training import callbacks, fitting
from hpclaunch.training.checkpoints.resuming import Place
from hpclaunch.training.checkpoints.training_state import TrainingState
from hpclaunch.training.input import pipeline
from hpclaunch.training.input.augmentation import Augmentation
from hpclaunch.training.optimization import batch_norm, precision
from hpclaunch.training.optimization.learning_rate import Schedule
from hpclaunch.training.rank import legacy_keras
from hpclaunch.training.rank.world import World

WORLD = World(rank=0, size=1, local_rank=0, local_size=1, host="", device="", threads=1, run_dir="")
STEPS, BATCH = 6, 4
IMAGES = np.random.RandomState(3).normal(size=(STEPS * BATCH, 5)).astype(np.float32)
LABELS = np.arange(STEPS * BATCH) % 3
assert hvd is not None


class Notes(tf.keras.callbacks.Callback):
    """Keeps what a checkpoint after every step would hold, and what is told at the epoch's end."""

    def __init__(self, state: TrainingState) -> None:
        super().__init__()
        self._state = state
        self.held: dict[int, dict[str, Any]] = {}
        self.told: dict[str, float] = {}

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        common, own = self._state.statistics()
        self.held[batch + 1] = {**dict(self._state.shared()), **common, **own, **self._state.own(metrics=True)}

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.told = {name: float(value) for name, value in logs.items()}


def put_back(state: TrainingState, held: dict[str, Any]) -> None:
    if held:
        own = {name: value for name, value in held.items() if name.startswith(("random", "metric"))}
        state.put_shared({name: value for name, value in held.items() if name not in own})
        state.spread()
        state.put_own(own)


def fitted(begin: int, before: dict[str, Any], steps_per_execution: int) -> Notes:
    """One epoch from step `begin` on, with what a checkpoint there holds."""
    image = tf.keras.layers.Input((5,))
    model = tf.keras.Model(image, tf.keras.layers.Dense(3, "softmax", kernel_initializer="zeros")(image))
    loss = "sparse_categorical_crossentropy"
    model.compile(legacy_keras.SGD(0.5), loss, ["accuracy"], steps_per_execution=steps_per_execution)
    state = TrainingState(model, WORLD, seed=1)
    put_back(state, before)

    def batches_from(epoch: int, step: int) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices((IMAGES, LABELS)).skip(step * BATCH).batch(BATCH)

    notes = Notes(state)
    fitting.fit(model, batches_from, STEPS, 1, [notes], Place(0, begin, begin), state)
    return notes


@pytest.mark.parametrize(("begin", "steps_per_execution"), [(2, 1), (5, 1), (4, 2), (2, 4)])
def test_a_broken_epoch_ends_as_a_whole_one(begin: int, steps_per_execution: int) -> None:
    whole = fitted(0, {}, steps_per_execution=1)
    rest = fitted(begin, whole.held[begin], steps_per_execution)
    assert rest.told == pytest.approx(whole.told, rel=1e-6)
    assert 0 < rest.told["accuracy"] < 1
    assert sorted(rest.held) == list(range(begin + steps_per_execution, STEPS + 1, steps_per_execution))
    for step, held in rest.held.items():
        assert held.keys() == whole.held[step].keys()
        for name, value in held.items():
            np.testing.assert_allclose(value, whole.held[step][name], rtol=1e-6, err_msg=f"step {step} {name}")


PIXELS = np.random.RandomState(4).randint(0, 256, (STEPS * BATCH, 6, 6, 2)).astype(np.uint8)
MIXED = Augmentation(flip_horizontal=True, crop=1, contrast=0.2, mixup=0.2, cutmix=1.0, classes=3)


def with_state_everywhere(begin: int, before: dict[str, Any]) -> Notes:
    """The same with float16, dropout, ghost batches, a rate that changes, and images that are moved and mixed."""
    precision.use("float16")
    tf.keras.backend.experimental.enable_tf_random_generator()  # as start() does
    try:
        layers = tf.keras.layers
        image = layers.Input((6, 6, 2))
        kernel = tf.keras.initializers.GlorotUniform(seed=1)
        x = batch_norm.maker("ghost", 2)()(layers.Conv2D(4, 3, kernel_initializer=kernel)(image))
        x = layers.Dropout(0.3, seed=2)(layers.Flatten()(layers.ReLU()(x)))
        model = tf.keras.Model(image, layers.Dense(3, "softmax", kernel_initializer="zeros", dtype="float32")(x))
        model.compile(precision.scaled(legacy_keras.Adam(0.05), "float16"), MIXED.loss, ["accuracy"])
    finally:
        precision.use("float32")
        tf.keras.backend.experimental.disable_tf_random_generator()
    precision.scale_variables(model.optimizer)[0].assign(2.0**24)  # comes down while it trains
    state = TrainingState(model, WORLD, seed=1)
    put_back(state, before)

    def batches_from(epoch: int, step: int) -> tf.data.Dataset:
        return pipeline.training_batches(PIXELS, LABELS, BATCH, 5, 0, epoch, step, MIXED)

    notes = Notes(state)
    rate = callbacks.LearningRate(Schedule(0.05, start=0.05, epochs=1, decay="cosine"), STEPS)
    fitting.fit(model, batches_from, STEPS, 1, [rate, notes], Place(0, begin, begin), state)
    return notes


def test_all_that_has_state_goes_on_exactly() -> None:
    whole = with_state_everywhere(0, {})
    assert len({float(held["scale-000"]) for held in whole.held.values()}) > 1
    begin = 4
    rest = with_state_everywhere(begin, whole.held[begin])
    assert list(rest.held) == list(range(begin + 1, STEPS + 1))
    for step, held in rest.held.items():
        exact = [name for name in held if not name.startswith("metric")]  # sums are added in another order
        assert any(name.startswith("random") for name in exact)
        for name in exact:
            np.testing.assert_array_equal(held[name], whole.held[step][name], err_msg=f"step {step} {name}")
    assert rest.told == pytest.approx(whole.told, rel=1e-6)
