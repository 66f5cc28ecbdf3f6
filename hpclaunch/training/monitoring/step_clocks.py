"""Clocks inside TensorFlow's graph: how long a step waits for its batch and for the gradients of the other ranks.

They change no value and delay no operation: each is a time stamp beside what it measures.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

import tensorflow as tf

from hpclaunch.training.monitoring import step_parts
from hpclaunch.training.monitoring.step_parts import Waits, Window
from hpclaunch.training.rank.world import World

_MOST = 2**62
_unconverted = tf.autograph.experimental.do_not_convert  # AutoGraph has nothing to convert here


class InputClock:
    """Sums the seconds in which steps wait for their batches: in the pipeline for fit, in Python for other loops."""

    def __init__(self) -> None:
        self._in_python = Waits()
        self._in_graph = _sum_on_host()
        self.is_missing = False
        """Whether waits remain unknown, as TensorFlow makes no time stamps."""

    @property
    def seconds(self) -> float:
        """Since the start of the training."""
        return self._in_python.seconds + float(self._in_graph.numpy())

    def in_python(self, batches: Any) -> Any:
        """The batches for a loop in Python."""
        return self._in_python.of(batches)

    def in_pipeline(self, batches_from: Callable[[int, int], Any]) -> Callable[[int, int], Any]:
        """The function, whose batches (tf.data) are stamped when a step asks for one, and when it arrives.

        Both stamps are made by the iterator that the step calls, after every prefetching. zip asks its parts in order.
        """
        self.is_missing = not _has_time_stamps()
        if self.is_missing:
            return batches_from

        def watched(epoch: int, step: int) -> Any:
            batches = batches_from(epoch, step)
            asked = tf.data.Dataset.range(_MOST).map(_asked_at).with_options(batches.options())
            return tf.data.Dataset.zip((asked, batches)).map(self._note_arrival)

        return watched

    @_unconverted
    def _note_arrival(self, asked: Any, *batch: Any) -> Any:
        self._in_graph.assign_add(tf.maximum(tf.timestamp() - asked, 0.0))
        return batch[0] if len(batch) == 1 else batch


@_unconverted
def _asked_at(_: Any) -> Any:
    return tf.timestamp()


class ExchangeClock:
    """Sums the seconds from a rank's own gradients to the reduced ones: what no computation hides, and waiting."""

    def __init__(self) -> None:
        self._in_graph = _sum_on_host()

    @property
    def seconds(self) -> float:
        """Since the start of the training."""
        return float(self._in_graph.numpy())

    def attach(self, optimizer: Any) -> None:
        """Measure the exchange of an optimizer of reduction.distributed or reduction.lagged, before it is traced."""
        name = "_allreduce_grads" if hasattr(optimizer, "_allreduce_grads") else "_allreduce"
        exchange = getattr(optimizer, name)

        def timed(gradients: Any, *rest: Any, **named: Any) -> Any:
            gradients = list(gradients)
            ready = _when_ready(gradients)
            reduced = exchange(gradients, *rest, **named)
            with tf.device("/CPU:0"):
                # A lagged exchange may end before this step's gradients are ready: then nothing waits for it.
                self._in_graph.assign_add(tf.maximum(_when_ready(reduced) - ready, 0.0))
            return reduced

        setattr(optimizer, name, timed)


def _has_time_stamps() -> bool:
    """Whether TensorFlow makes time stamps, which it refuses to with its determinism (TF_DETERMINISTIC_OPS=1)."""
    try:
        with tf.device("/CPU:0"):
            tf.timestamp()
    except tf.errors.FailedPreconditionError:
        return False
    return True


def _sum_on_host() -> tf.Variable:
    with tf.device("/CPU:0"):
        return tf.Variable(0.0, trainable=False, dtype=tf.float64)


def _when_ready(tensors: Sequence[Any]) -> Any:
    """The time stamp (s) at which all tensors are there.

    On a GPU an operation has "ended" when it is in the queue. So the smallest tensor is copied to the host after the
    others: the copy begins when the GPU has made everything before it.
    """
    dense = [getattr(one, "values", one) for one in tensors if one is not None]
    with tf.control_dependencies(dense):
        witness = tf.identity(min(dense, key=lambda one: one.shape.num_elements() or _MOST))
    with tf.device("/CPU:0"), tf.control_dependencies([tf.identity(witness)]):
        return tf.timestamp()


def exchange_clock(optimizer: Any, world: World, asked: Any) -> ExchangeClock | None:
    """A clock at the optimizer's exchange, or None if a step has other exchanges too: then this one says too little.

    None, too, if TensorFlow makes no time stamps. asked: has shard_optimizer and update_groups. On one rank there is no
    exchange, and the sum stays 0.
    """
    groups = getattr(asked, "update_groups", 1) > 1
    if world.distribute is not None or world.mesh is not None or groups or (asked.shard_optimizer and world.size > 1):
        return None
    if world.size > 1 and not _has_time_stamps():
        return None
    clock = ExchangeClock()
    if world.size > 1:
        clock.attach(optimizer)
    return clock


class StepParts(tf.keras.callbacks.Callback):
    """Measures the parts of the steps of each epoch; `line` has the values for its event. Place it before Report.

    waits: at the batches of the training. exchange: at its optimizer, None if it is not measured.
    """

    def __init__(self, world: World, waits: InputClock, exchange: ExchangeClock | None) -> None:
        super().__init__()
        self._world, self.waits = world, waits
        self._window = Window(lambda: waits.seconds, lambda: None if exchange is None else exchange.seconds)
        self.line: dict[str, Any] = {}

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._window.begin()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._window.step_ended(batch)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Exchange what every rank has measured: a collective. A strategy of TensorFlow has clocks of its own."""
        if self._world.distribute is None and not self.waits.is_missing:
            self.line = step_parts.gathered(self._world, self._window.own())
