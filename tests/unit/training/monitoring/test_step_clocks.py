"""The clocks in TensorFlow's graph, on one rank: known sleeps, and values that stay as they are."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group training: tensorflow is not installed", allow_module_level=True)

from hpclaunch.training.monitoring.step_clocks import ExchangeClock, InputClock, exchange_clock
from hpclaunch.training.rank.world import World

SLEEP_S = 0.05
ALONE = World(rank=0, size=1, local_rank=0, local_size=1, host="", device="", threads=1, run_dir="")


def sleeping(seconds: float) -> Any:
    def asleep(value: Any) -> Any:
        time.sleep(seconds)
        return value

    def slow(value: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(asleep, [value], tf.float32), value.shape)

    return slow


def batches_from(epoch: int, step: int) -> Any:
    """Batches of one sample, each of which takes SLEEP_S to make."""
    one = tf.data.Dataset.from_tensors((np.ones((1, 2), np.float32), np.ones((1, 1), np.float32))).repeat()
    return one.map(lambda x, y: (sleeping(SLEEP_S)(x), y))


@pytest.mark.parametrize("at_once", [1, 4])
def test_a_source_that_sleeps_is_waited_for_at_every_step(at_once: int) -> None:
    waits = InputClock()
    model = tf.keras.Sequential([tf.keras.layers.Input((2,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse", steps_per_execution=at_once)
    began = time.perf_counter()
    model.fit(waits.in_pipeline(batches_from)(0, 0), steps_per_epoch=8, verbose=0)
    assert 8 * SLEEP_S <= waits.seconds <= time.perf_counter() - began


def test_batches_keep_their_structure_and_their_options() -> None:
    def named(epoch: int, step: int) -> Any:
        options = tf.data.Options()
        options.threading.private_threadpool_size = 3
        found = {"a": tf.range(4), "b": tf.range(4.0)}
        return tf.data.Dataset.from_tensor_slices((found, tf.range(4))).batch(2).with_options(options)

    waits = InputClock()
    watched = waits.in_pipeline(named)(0, 0)
    assert watched.element_spec == named(0, 0).element_spec
    assert watched.options().threading.private_threadpool_size == 3
    for (x, y), (x_before, y_before) in zip(watched, named(0, 0), strict=True):
        assert all(np.array_equal(x[name], x_before[name]) for name in x) and np.array_equal(y, y_before)
    single = InputClock().in_pipeline(lambda epoch, step: tf.data.Dataset.range(3))(0, 0)
    assert [int(number) for number in single] == [0, 1, 2]


def test_a_loop_in_python_adds_to_the_same_sum() -> None:
    waits = InputClock()
    for _ in zip(range(3), waits.in_python(batches_from(0, 0)), strict=False):
        pass
    assert waits.seconds >= 3 * SLEEP_S


@pytest.mark.parametrize("name", ["_allreduce_grads", "_allreduce"])
def test_the_exchange_is_timed_and_gives_what_it_gave(name: str) -> None:
    slow = sleeping(SLEEP_S)

    def exchange(gradients: Any, variables: Any) -> Any:
        return [None if one is None else 2 * slow(tf.convert_to_tensor(one)) for one in gradients]

    optimizer = SimpleNamespace(**{name: exchange})
    clock = ExchangeClock()
    clock.attach(optimizer)
    rows = tf.IndexedSlices(tf.ones([1, 3]), tf.constant([1]), tf.constant([4, 3]))
    exchanged = getattr(optimizer, name)
    step = tf.function(lambda: [one for one in exchanged([tf.ones([3]), None, rows], None) if one is not None])
    for number in (1, 2, 3):
        dense, sparse = step()
        assert dense.numpy().tolist() == [2, 2, 2] and sparse.numpy().sum() == 6
        assert clock.seconds >= number * SLEEP_S


def test_steps_with_other_exchanges_are_not_measured() -> None:
    plain = {"shard_optimizer": False, "update_groups": 1}

    def clock(size: int = 2, distribute: Any = None, mesh: Any = None, **more: Any) -> ExchangeClock | None:
        world = World(0, size, 0, size, "", "", 1, "", distribute, mesh)
        optimizer = SimpleNamespace(_allreduce=lambda gradients: gradients)
        return exchange_clock(optimizer, world, SimpleNamespace(**{**plain, **more}))

    assert clock() is not None
    for other in ({"shard_optimizer": True}, {"update_groups": 2}, {"distribute": object()}, {"mesh": object()}):
        assert clock(**other) is None
    alone = clock(size=1, shard_optimizer=True)  # one rank has nothing to shard
    assert alone is not None and alone.seconds == 0.0
