"""The share of a step that the all-reduce takes: known answers, and when it is measured; Horovod is not started."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

try:
    import horovod.tensorflow as hvd
    import tensorflow as tf
except ImportError:
    pytest.skip("group horovod: horovod is not installed (the extra `train` brings it)", allow_module_level=True)

from hpclaunch.training import metrics
from hpclaunch.training.monitoring import communication
from hpclaunch.training.monitoring.communication import Communication, gradient_bytes, step_length, warning_of
from hpclaunch.training.rank.world import World


def world(size: int = 2, **more: Any) -> World:
    return World(0, size, 0, size, "", "", 1, "", **more)


@pytest.mark.parametrize(
    ("ends", "length"),
    [
        ([], 0.0),
        ([(0, 9.0), *((step, 9.0 + step) for step in range(1, 5))], 0.0),  # four steps after the first
        ([(0, 9.0), *((step, 9.0 + step) for step in range(1, 6))], 1.0),
        ([(9, 1.0), (19, 2.0), (29, 3.0), (39, 4.0), (49, 5.0), (59, 6.0)], 0.1),  # ten steps in an execution
        ([(0, 0.0), (1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0), (5, 99.0)], 1.0),  # a checkpoint in one of them
    ],
)
def test_a_step_takes_the_median_of_the_steps_after_the_first(ends: list[tuple[int, float]], length: float) -> None:
    assert step_length(ends) == pytest.approx(length)


@pytest.mark.parametrize(("all_reduce_s", "warned"), [(0.001, False), (0.004, False), (0.0041, True), (0.02, True)])
def test_more_than_half_a_step_is_warned_of(all_reduce_s: float, warned: bool) -> None:
    warning = warning_of(all_reduce_s, 0.008, 4)
    assert bool(warning) == warned
    if warned:
        assert f"takes {1e3 * all_reduce_s:.3g} ms, a whole step 8 ms" in warning and "the 4 ranks" in warning


def test_what_is_sent_are_the_trained_variables_without_embeddings() -> None:
    layers = tf.keras.layers
    tokens = layers.Input((3,))
    x = layers.Flatten()(layers.Embedding(7, 5)(tokens))
    model = tf.keras.Model(tokens, layers.Dense(2)(layers.BatchNormalization()(x)))
    assert gradient_bytes(model, 4) == 4 * (2 * 15 + 15 * 2 + 2)
    assert gradient_bytes(model, 2) == 2 * (2 * 15 + 15 * 2 + 2)


SETTINGS = {"compression": "none", "adasum": False, "shard_optimizer": False, "update_groups": 1, "epochs": 4}


@pytest.mark.parametrize(
    ("place", "settings", "steps", "measured"),
    [
        (world(), {}, 100, True),
        (world(), {}, 99, False),
        (world(), {"epochs": 40}, 10, True),
        (world(1), {}, 100, False),
        (world(distribute=object()), {}, 100, False),
        (world(mesh=object()), {}, 100, False),
        (world(), {"adasum": True}, 100, False),
        (world(), {"shard_optimizer": True}, 100, False),
        (world(), {"update_groups": 2}, 100, False),
    ],
)
def test_it_is_measured_where_it_costs_at_most_one_percent(
    place: World, settings: dict[str, Any], steps: int, measured: bool
) -> None:
    asked = SimpleNamespace(**{**SETTINGS, **settings})
    assert len(communication.callbacks(asked, place, metrics.MetricsLog(None, False), steps)) == measured


class Clock:
    """Seconds that pass between the looks at it."""

    def __init__(self) -> None:
        self.now, self.step = 0.0, 0.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now


@pytest.mark.parametrize(("all_reduce_s", "warned"), [(0.25, False), (0.75, True)])
def test_the_measurement_is_logged_once_with_its_warning(
    all_reduce_s: float, warned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(hvd, "allreduce", lambda values, **_: values)  # no ranks are started here
    path, clock = tmp_path / "metrics.jsonl", Clock()
    callback = Communication(world(4), metrics.MetricsLog(str(path), False), half=True, clock=clock)
    image = tf.keras.layers.Input((3,))
    callback.set_model(tf.keras.Model(image, tf.keras.layers.Dense(2)(image)))
    for epoch in range(3):
        callback.on_epoch_begin(epoch)
        clock.step = 1.0
        for step in range(3 if epoch == 0 else 9):  # the first epoch has too few steps
            callback.on_train_batch_end(step)
        clock.step = all_reduce_s
        callback.on_epoch_end(epoch)
    (line,) = [json.loads(text) for text in path.read_text().splitlines()]
    assert {name: line[name] for name in ("event", "epoch", "gradient_bytes", "all_reduce_s", "step_s", "share")} == {
        "event": "communication",
        "epoch": 2,
        "gradient_bytes": 16,
        "all_reduce_s": all_reduce_s,
        "step_s": 1.0,
        "share": all_reduce_s,
    }
    assert ("warning" in line) == warned
    assert capsys.readouterr().out == (f"warning: {line['warning']}\n" if warned else "")
