"""The validation of one rank by value, and when it takes place; on one rank, Horovod not started."""

from __future__ import annotations

import pytest

try:
    import horovod.tensorflow as hvd
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group horovod: horovod is not installed (the extra `train` brings it)", allow_module_level=True)

from typing import Any

from hpclaunch.training import callbacks
from hpclaunch.training.metrics import MetricsLog
from hpclaunch.training.monitoring.validation import AsAtTheEnd, Compiled, Validation
from hpclaunch.training.optimization import training_step
from hpclaunch.training.rank.world import World

ALONE = World(0, 1, 0, 1, "here", "CPU", 1, "")
RANDOM = np.random.RandomState(5)
INPUTS, TARGETS = RANDOM.normal(size=(2, 20, 3)).astype("float32")
assert hvd is not None


def in_batches(size: int) -> Any:
    return lambda: tf.data.Dataset.from_tensor_slices((INPUTS, TARGETS)).batch(size)


def a_model(parts: int = 1) -> Any:
    inputs = tf.keras.layers.Input((3,))
    regular = tf.keras.regularizers.L2(0.1)
    outputs = tf.keras.layers.Dense(3, kernel_initializer="ones", kernel_regularizer=regular)(inputs)
    model = training_step.in_parts(tf.keras.Model(inputs, outputs), parts)
    model.compile("sgd", "mse", ["mae", tf.keras.metrics.RootMeanSquaredError(name="rmse")])
    model.test_on_batch(INPUTS[:2], TARGETS[:2])  # Keras makes the metrics in the first step
    return model


@pytest.mark.parametrize("size", [1, 3, 7, 20])
@pytest.mark.parametrize("parts", [1, 2])
def test_the_compiled_metrics_are_those_of_all_samples(size: int, parts: int) -> None:
    wrong = INPUTS.sum(1, keepdims=True) - TARGETS
    found = Compiled(ALONE, in_batches(size))(a_model(parts))
    assert found == pytest.approx(
        {"loss": (wrong**2).mean() + 0.9, "mae": np.abs(wrong).mean(), "rmse": np.sqrt((wrong**2).mean())}, rel=1e-5
    )


def test_it_leaves_no_sums_behind_and_measures_the_same_again() -> None:
    model, measure = a_model(), Compiled(ALONE, in_batches(7))
    assert measure(model) == measure(model)
    assert all(float(tf.reduce_sum(variable)) == 0 for metric in model.metrics for variable in metric.variables)


def test_a_model_without_a_loss_is_measured_as_at_the_end() -> None:
    model = tf.keras.Sequential([tf.keras.layers.Activation("linear")])
    model.compile()
    found = AsAtTheEnd(ALONE, in_batches(6), has_classes=False)(model)
    assert found == pytest.approx({"mae": np.abs(INPUTS - TARGETS).mean(), "mse": ((INPUTS - TARGETS) ** 2).mean()})


@pytest.mark.parametrize(
    ("every", "epochs", "validated"), [(1, 3, [0, 1, 2]), (2, 5, [1, 3, 4]), (9, 2, [1]), (2, 4, [1, 3])]
)
def test_the_last_epoch_is_always_validated(every: int, epochs: int, validated: list[int]) -> None:
    callback, found = Validation(lambda model: {"loss": 0.5}, every, epochs), []
    callback.set_model(None)
    for epoch in range(epochs):
        logs = {"loss": 1.0}
        callback.on_epoch_end(epoch, logs)
        assert (callback.seconds > 0) == ("val_loss" in logs)
        found += [epoch] if logs == {"loss": 1.0, "val_loss": 0.5} else []
    assert found == validated


def test_the_time_of_the_validation_is_not_that_of_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    class Log(MetricsLog):
        def write(self, event: str, **values: Any) -> None:
            lines.append(values)

    clock, lines = [0.0], []  # type: ignore[var-annotated]
    monkeypatch.setattr(callbacks.time, "perf_counter", lambda: clock[0])
    model = a_model()
    validation = Validation(lambda model: {}, 1, 1)
    report = callbacks.Report(ALONE, Log(None, False), 40, 4, 1, validation)
    report.set_model(model)
    report.on_epoch_begin(0)
    report.on_train_batch_begin(0)
    clock[0], validation.seconds = 5.0, 3.0
    report.on_epoch_end(0, {"loss": 1.0, "val_loss": 2.0})
    assert (lines[0]["seconds"], lines[0]["validation_s"], lines[0]["images_per_s"]) == (2.0, 3.0, 20.0)
    assert lines[0]["val_loss"] == 2.0
