"""Reads and decodes a shard anew in every epoch, for data that does not fit in memory; keeps no sample."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

import numpy as np
import tensorflow as tf

from hpclaunch.training import augmentation
from hpclaunch.training.datasets import Source
from hpclaunch.training.decoding import rank_threads
from hpclaunch.training.pipeline import finisher, frugal
from hpclaunch.training.shards import Shard, epoch_order, steps_per_epoch, stream_seed

CHECKED = 1024  # samples that are read again at once to find a damaged one


def training_stream(
    source: Source,
    shard: Shard,
    batch_size: int,
    seed: int,
    rank: int,
    first_epoch: int = 0,
    first_step: int = 0,
    augment: augmentation.Augmentation | None = None,
    threads: int = 0,
    as_uint8: bool = False,
) -> tf.data.Dataset:
    """Endless batches of the training split, as pipeline.training_batches makes them from memory.

    For class folders they are the same batches. threads: how many images are decoded at the same time (0: the rank's).
    Holds about two batches. Wrap the training in `damage_named`: what is damaged is found while training.
    """
    threads = threads or rank_threads()
    finish = finisher(seed, rank, augment, as_uint8)
    steps = steps_per_epoch(len(shard.indices), batch_size)

    @tf.autograph.experimental.do_not_convert  # nothing to convert; AutoGraph would warn about what it cannot read
    def epoch_batches(epoch: Any) -> Any:
        def order(length: Any, name: Any) -> Any:
            found = tf.numpy_function(lambda *given: _order(seed, rank, *given), [epoch, length, name], tf.int64)
            return tf.ensure_shape(found, [None])

        begin = tf.where(tf.equal(epoch, first_epoch), tf.constant(first_step, tf.int64), tf.constant(0, tf.int64))
        samples = source.samples("train", shard, order, begin * batch_size, threads)
        numbered = tf.data.Dataset.zip((samples.batch(batch_size), tf.data.Dataset.range(begin, steps)))
        return numbered.map(lambda batch, step: finish(batch[0], batch[1], epoch, step * batch_size))

    epochs = tf.data.Dataset.range(first_epoch, np.iinfo(np.int64).max)
    return epochs.flat_map(epoch_batches).prefetch(1).with_options(frugal(threads))


@contextlib.contextmanager
def damage_named(source: Source, shard: Shard) -> Iterator[None]:
    """Turn a reading error of the block into a DataError that names the file, by reading the shard once more."""
    try:
        yield
    except (tf.errors.InvalidArgumentError, tf.errors.DataLossError, tf.errors.NotFoundError):
        for start in range(0, len(shard.indices), CHECKED):
            source.read("train", shard.indices[start : start + CHECKED])
        raise  # the data are sound: the error came from elsewhere


def _order(seed: int, rank: int, epoch: Any, length: Any, name: Any) -> np.ndarray:
    text = name.decode("ascii")
    # "samples" is the order that pipeline.training_batches uses.
    own = seed if text == "samples" else stream_seed(seed, text)
    return epoch_order(int(length), own, int(epoch), rank)
