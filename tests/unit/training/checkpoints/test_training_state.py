"""The state of a model by value: what all ranks have in common is saved once, and other world sizes get means."""

from __future__ import annotations

import pytest

try:
    import horovod.tensorflow as hvd
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group horovod: horovod is not installed (the extra `train` brings it)", allow_module_level=True)

import json
from pathlib import Path
from typing import Any

from hpclaunch.training.checkpoints import folders, resuming, writing
from hpclaunch.training.checkpoints.resuming import Place
from hpclaunch.training.checkpoints.training_state import TrainingState
from hpclaunch.training.metrics import MetricsLog
from hpclaunch.training.rank import legacy_keras
from hpclaunch.training.rank.failure import AgreedError, TrainingError
from hpclaunch.training.rank.world import World
from tests.unit.training.checkpoints.test_restoring import facts
from tests.unit.training.optimization.test_learning_rate import asked
from tests.unit.training.several_ranks import on_ranks

assert hvd is not None
FROZEN, MEAN, VARIANCE = "statistic-000", "statistic-001", "statistic-002"


def alone(run_dir: Path) -> World:
    return World(0, 1, 0, 1, "host", "CPU", 1, str(run_dir))


def made(world: World, width: int = 4) -> TrainingState:
    """A frozen layer without bias, batch normalization and a layer that is trained."""
    layers = tf.keras.layers
    first = layers.Dense(width, use_bias=False, trainable=False)
    inputs = layers.Input((3,))
    model = tf.keras.Model(inputs, layers.Dense(2)(layers.BatchNormalization()(first(inputs))))
    model.compile(legacy_keras.SGD(0.1, momentum=0.9), "mse")
    state = TrainingState(model, world, seed=1)
    state.model = model  # type: ignore[attr-defined]
    return state


def values(state: TrainingState) -> list[Any]:
    found: list[Any] = [variable.numpy() for variable in state.model.non_trainable_variables]  # type: ignore[attr-defined]
    return found


def test_only_statistics_that_differ_are_a_ranks_own(tmp_path: Path) -> None:
    states = [made(alone(tmp_path)) for _ in range(3)]
    for rank, state in enumerate(states):
        frozen, mean, variance = state.model.non_trainable_variables  # type: ignore[attr-defined]
        frozen.assign(tf.ones_like(frozen))
        mean.assign(tf.fill(mean.shape, float(rank == 2)))  # the last rank alone has another one
        variance.assign(tf.fill(variance.shape, 2.5))

    def statistics(world: World) -> Any:
        states[world.rank]._world = world
        return states[world.rank].statistics()

    for rank, (common, own) in enumerate(on_ranks(3, tmp_path, statistics)):
        assert (list(common), list(own)) == ([FROZEN, VARIANCE], [MEAN])
        assert own[MEAN].tolist() == [float(rank == 2)] * 4


def test_ranks_of_another_world_get_the_mean_over_all_ranks(tmp_path: Path) -> None:
    state = made(alone(tmp_path))
    shared = {**dict(state.shared()), FROZEN: np.full((3, 4), 7, np.float32)}
    several = [
        {MEAN: np.full(4, value, np.float32), VARIANCE: np.full(4, 10 * value, np.float32), "random-000": np.zeros(3)}
        for value in (1.0, 2.0, 6.0)
    ]
    state.put_shared(shared)
    state.put_average(iter(several))
    state.spread()
    frozen, mean, variance = values(state)
    assert (frozen == 7).all() and (mean == 3).all() and (variance == 30).all()


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({MEAN: np.zeros(4, np.float32)}, "statistic-002 is float32 [4] here, but not there"),
        ({MEAN: np.zeros(5, np.float32), VARIANCE: np.zeros(4, np.float32)}, "statistic-001 is float32 [4] here"),
        ({MEAN: np.zeros(4, "U1"), VARIANCE: np.zeros(4, np.float32)}, "but <U1 [4] there"),
    ],
)
def test_statistics_of_another_model_are_refused(tmp_path: Path, own: dict[str, Any], said: str) -> None:
    state = made(alone(tmp_path))
    state.put_shared({**dict(state.shared()), FROZEN: values(state)[0]})
    with pytest.raises(TrainingError, match="belongs to another model") as error:
        state.put_average([own])
    assert said in str(error.value)


def test_a_saved_state_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(resuming.FOLDER_VARIABLE, raising=False)
    world = alone(tmp_path)
    state = made(world)
    held = values(state)
    path = writing.save(world, state, str(tmp_path / "checkpoints"), Place(1, 4, 14), facts(1), 2)
    assert set(folders.read(path, folders.SHARED)) == {*dict(state.shared()), FROZEN, MEAN, VARIANCE}
    other = made(world)
    place = resuming.restore(world, other, asked(), 10, MetricsLog(None, False))
    assert (place.epoch, place.step, place.made) == (1, 4, 14)
    for one, before in zip(values(other), held, strict=True):
        np.testing.assert_array_equal(one, before)
    with pytest.raises(AgreedError, match="belongs to another model"):
        resuming.restore(world, made(world, width=5), asked(), 10, MetricsLog(None, False))


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_checkpoint_of_format_1_is_read(tmp_path: Path, ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has all variables that are not trained, also frozen weights, in every rank's own file."""
    monkeypatch.delenv(resuming.FOLDER_VARIABLE, raising=False)
    world = alone(tmp_path)
    state = made(world)
    frozen = values(state)[0]
    partial = folders.begin(str(tmp_path / "checkpoints"), 14)
    files = [folders.write(partial, folders.SHARED, state.shared())]
    for rank in range(ranks):
        own = {FROZEN: frozen, MEAN: np.full(4, 2.0 + rank, np.float32), VARIANCE: np.full(4, 5, np.float32)}
        files.append(folders.write(partial, folders.own_file(rank), own.items()))
    manifest = Path(folders.commit(partial, 14, files, facts(ranks), 2)) / folders.MANIFEST
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 1}))
    other = made(world)
    assert resuming.restore(world, other, asked(), 10, MetricsLog(None, False)).made == 14
    found = values(other)
    np.testing.assert_array_equal(found[0], frozen)
    assert (found[1] == (2.0 if ranks == 1 else 2.5)).all() and (found[2] == 5).all()
