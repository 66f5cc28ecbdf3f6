"""What is written for TensorBoard: scalars that it reads, and a trace of the steps that were asked for."""

from __future__ import annotations

import pytest

try:
    import horovod.tensorflow as hvd
    import tensorflow as tf
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    pytest.skip("group horovod: horovod is not installed (the extra `train` brings it)", allow_module_level=True)

from pathlib import Path
from typing import Any

from hpclaunch.training.metrics import MetricsLog
from hpclaunch.training.monitoring import scalars, trace
from hpclaunch.training.rank import legacy_keras

assert hvd is not None


def scalars_of(folder: Path) -> dict[str, dict[int, float]]:
    """The scalars that TensorBoard reads from a folder: by name, by step."""
    found = EventAccumulator(str(folder), size_guidance={"tensors": 0}).Reload()
    return {
        tag: {event.step: float(tf.make_ndarray(event.tensor_proto)) for event in found.Tensors(tag)}
        for tag in found.Tags()["tensors"]
    }


def a_model() -> Any:
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    model.compile(legacy_keras.SGD(0.25), "mse")
    return model


def test_tensorboard_reads_the_metrics_of_the_epochs_also_after_an_interruption(tmp_path: Path) -> None:
    model = a_model()
    for first, last in ((0, 2), (2, 3)):
        callback = scalars.Scalars(str(tmp_path))
        callback.set_model(model)
        for epoch in range(first, last):
            logs = {"loss": 1.0 / (epoch + 1), **({"val_loss": 3.0} if epoch else {})}
            callback.on_epoch_end(epoch, logs)
    found = scalars_of(tmp_path / "train")
    assert found["epoch_loss"] == pytest.approx({1: 1.0, 2: 0.5, 3: 1 / 3})
    assert found["epoch_learning_rate"] == {1: 0.25, 2: 0.25, 3: 0.25}
    assert scalars_of(tmp_path / "validation") == {"epoch_loss": {2: 3.0, 3: 3.0}}


class Lines(MetricsLog):
    def __init__(self) -> None:
        super().__init__(None, False)
        self.lines: list[dict[str, Any]] = []

    def write(self, event: str, **values: Any) -> None:
        self.lines.append({"event": event, **values})


@pytest.mark.parametrize(
    ("first", "steps", "at_once", "begun", "traced"),
    [(3, 2, 1, 0, (3, 4)), (8, 9, 1, 0, (8, 12)), (2, 3, 2, 0, (3, 4)), (1, 1, 1, 4, (1, 1))],
)
def test_the_steps_that_were_asked_for_are_traced(
    first: int,
    steps: int,
    at_once: int,
    begun: int,
    traced: tuple[int, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(tf.profiler.experimental, "start", lambda folder: calls.append(("start", made[0], folder)))
    monkeypatch.setattr(tf.profiler.experimental, "stop", lambda: calls.append(("stop", made[0])))
    log, made = Lines(), [0]
    callback = trace.Trace(str(tmp_path), 3, first, steps, log)
    for _epoch in range(2):
        callback.on_epoch_begin(0)
        for batch in range(begun, begun + 6, at_once):
            callback.on_train_batch_begin(batch)
            made[0] += at_once
            callback.on_train_batch_end(batch + at_once - 1)
    callback.on_train_end()
    (start, before, folder), (stop, after) = calls
    assert (start, stop, folder) == ("start", "stop", str(tmp_path / "rank-0003"))
    assert (before + 1, after) == traced
    assert log.lines == [{"event": "profile", "folder": folder, "first": traced[0], "last": after}]


def test_a_trace_that_never_began_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    callback = trace.Trace(str(tmp_path), 0, 50, 2, Lines())
    callback.on_epoch_begin(0)
    callback.on_train_batch_begin(0)
    callback.on_train_batch_end(0)
    callback.on_train_end()
    assert "nothing was traced: this attempt made 1 steps" in capsys.readouterr().out


def test_the_profiler_writes_a_trace_or_training_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = Lines()
    both = [trace.Trace(str(tmp_path / name), 0, 2, 2, log) for name in ("first", "second")]
    data = tf.data.Dataset.from_tensors((tf.ones([1, 2]), tf.ones([1, 1]))).repeat()
    a_model().fit(data, steps_per_epoch=5, callbacks=both, verbose=0)  # one process has one profiler
    assert len(list(tmp_path.glob("first/rank-0000/**/*.xplane.pb"))) == 1
    assert [line["first"] for line in log.lines] == [2]
    assert "profile of rank 0: the profiler cannot trace" in capsys.readouterr().out
