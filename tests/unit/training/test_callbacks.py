"""What tells that training has diverged, and what is reported; on one rank, Horovod not started."""

from __future__ import annotations

import pytest

try:
    import horovod.tensorflow as hvd
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group horovod: horovod is not installed (the extra `train` brings it)", allow_module_level=True)

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hpclaunch.training import callbacks, metrics
from hpclaunch.training.optimization import precision
from hpclaunch.training.rank import legacy_keras
from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.world import World

WORLD = World(rank=0, size=1, local_rank=0, local_size=1, host="", device="", threads=1, run_dir="")
STEPS = 120
assert hvd is not None


def model_of(optimizer: Any, steps_per_execution: int = 1) -> tf.keras.Model:
    image = tf.keras.layers.Input((2,))
    model = tf.keras.Model(image, tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")(image))
    model.compile(optimizer, "mse", steps_per_execution=steps_per_execution)
    return model


def fit(model: tf.keras.Model, spoilt_step: int = STEPS + 1) -> None:
    """An epoch of STEPS steps; from `spoilt_step` on a target is infinite."""
    targets = np.ones((STEPS, 4, 1), np.float32)
    targets[spoilt_step - 1 :] = np.inf
    batches = tf.data.Dataset.from_tensor_slices((np.ones((STEPS, 4, 2), np.float32), targets))
    model.fit(batches, steps_per_epoch=STEPS, callbacks=[callbacks.StopOnNaN(WORLD)], verbose=0)


@pytest.mark.parametrize(
    ("spoilt", "steps_per_execution", "told"),
    [(1, 1, "step 50"), (51, 1, "step 100"), (101, 1, "the end of epoch 1"), (1, 20, "step 60"), (1, 120, "step 120")],
)
def test_a_loss_that_is_no_number_ends_training_at_the_next_look(
    spoilt: int, steps_per_execution: int, told: str
) -> None:
    with pytest.raises(AgreedError, match=f"the loss is .* at {told}: training has diverged. Lower the learning rate"):
        fit(model_of(legacy_keras.SGD(0.01), steps_per_execution), spoilt)


def test_a_weight_that_is_no_number_ends_training_though_the_loss_is_one() -> None:
    model = model_of(legacy_keras.SGD(0.0))
    check = callbacks.StopOnNaN(WORLD)
    check.set_model(model)
    check.on_epoch_end(0, {"loss": 0.5})
    model.layers[-1].kernel.assign([[1.0], [float("inf")]])
    with pytest.raises(AgreedError, match="a weight is not a finite number at the end of epoch 1"):
        check.on_epoch_end(0, {"loss": 0.5})


def test_gradients_that_overflow_under_float16_do_not() -> None:
    precision.use("float16")
    try:
        optimizer = precision.scaled(legacy_keras.SGD(0.01), "float16")
        model = model_of(optimizer)
    finally:
        precision.use("float32")
    scale = precision.scale_variables(optimizer)[0]
    scale.assign(2.0**40)  # every gradient is infinite until it has come down
    before = model.get_weights()
    fit(model)
    assert float(scale) < 2.0**20
    assert not np.array_equal(before[0], model.get_weights()[0]) and np.isfinite(model.get_weights()[0]).all()


def test_a_report_tells_the_metrics_that_the_model_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = model_of(legacy_keras.SGD(0.01))
    model.compile(legacy_keras.SGD(0.01), "mse", ["mae"])
    log = metrics.metrics_log(str(tmp_path), True, synthetic=False)
    report = callbacks.Report(WORLD, log, samples=8, steps=2, epochs=1)
    model.fit(np.ones((8, 2), np.float32), np.ones((8, 1), np.float32), batch_size=4, callbacks=[report], verbose=0)
    (line,) = [json.loads(text) for text in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert line["loss"] > 0 and line["mae"] > 0 and line["learning_rate"] == pytest.approx(0.01)
    assert f"loss {line['loss']:.4f}  mae {line['mae']:.4f}" in capsys.readouterr().out


class SlowSteps(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Steps of known length, on a clock of their own."""

    def __init__(self, clock: list[float], lengths: list[float]) -> None:
        super().__init__()
        self._clock, self._lengths = clock, lengths

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._clock[0] += self._lengths[batch]


def told_of_steps(
    folder: Path, monkeypatch: pytest.MonkeyPatch, lengths: list[float], steps_per_execution: int = 1
) -> dict[str, Any]:
    clock = [0.0]
    monkeypatch.setattr(callbacks.time, "perf_counter", lambda: clock[0])
    log = metrics.metrics_log(str(folder), True, synthetic=False)
    report = callbacks.Report(WORLD, log, samples=len(lengths), steps=len(lengths), epochs=1)
    model = model_of(legacy_keras.SGD(0.01), steps_per_execution)
    batches = tf.data.Dataset.from_tensors((np.ones((1, 2), np.float32), np.ones((1, 1), np.float32))).repeat()
    model.fit(batches, steps_per_epoch=len(lengths), callbacks=[SlowSteps(clock, lengths), report], verbose=0)
    return dict(json.loads((folder / "metrics.jsonl").read_text()))


def test_a_report_tells_how_much_steps_vary_whatever_the_first_and_one_slow_one_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = [0.95, 1.0, 1.05] * 7
    found = told_of_steps(tmp_path, monkeypatch, [30.0, *lengths, 20.0])
    assert found["step_s"] == pytest.approx(1.0)
    assert found["step_spread"] == pytest.approx(1.4826 * 0.05, rel=1e-3)


@pytest.mark.parametrize(("steps", "at_once"), [(10, 1), (40, 4)])
def test_a_report_does_not_tell_it_of_few_steps_or_of_several_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int, at_once: int
) -> None:
    found = told_of_steps(tmp_path, monkeypatch, [1.0] * steps, at_once)
    assert "step_s" not in found and "step_spread" not in found and found["images_per_s"] > 0


def test_a_share_of_all_ranks_is_known_whatever_their_number() -> None:
    rounded = 0
    for kind in (np.float32, np.float64):
        for ranks in range(1, 4097):
            inverse = kind(1.0) / kind(ranks)  # by which Horovod multiplies the sum
            rounded += kind(ranks) * inverse < 1
            assert callbacks.is_of_all(kind(ranks) * inverse, ranks)
            assert not callbacks.is_of_all(kind(ranks - 1) * inverse, ranks)
    assert rounded


def test_a_value_is_that_of_its_metric_but_for_rounding() -> None:
    results = {"auc": 0.75, "loss": float("nan")}
    assert callbacks.is_measured(results, "auc", float(np.nextafter(np.float32(0.75), np.float32(1))))
    assert not callbacks.is_measured(results, "auc", 0.7501)
    assert not callbacks.is_measured(results, "own", 0.75)
    assert not callbacks.is_measured(results, "loss", float("nan"))


def test_a_metric_is_that_of_all_49_ranks_though_their_average_of_ones_is_rounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ranks = 49
    metric = tf.keras.metrics.Mean("score")
    metric.update_state([0.5, 1.0])  # a total of 1.5, a count of 2

    def allreduce(value: Any, op: Any = hvd.Average, **_: Any) -> Any:
        if op == hvd.Sum:
            return value + tf.constant([ranks - 1.0, 0.0], value.dtype)  # the total of the others
        return value * ranks * (1.0 / ranks)

    monkeypatch.setattr(hvd, "allreduce", allreduce)
    average = callbacks.AverageMetrics(dataclasses.replace(WORLD, size=ranks))
    average.set_model(SimpleNamespace(metrics=[metric]))
    logs = {"score": float(np.nextafter(np.float32(0.75), np.float32(1))), "own": 3.0}
    average.on_epoch_end(0, logs)
    assert logs == {"score": 24.75, "own": pytest.approx(3.0)}
