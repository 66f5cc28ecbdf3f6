"""Turns a rank's uint8 samples into batches for training and evaluation with tf.data; holds no second copy of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from hpclaunch.training.shards import epoch_order


def training_batches(
    images: Any, labels: Any, batch_size: int, seed: int, rank: int, first_epoch: int = 0
) -> tf.data.Dataset:
    """Endless batches (float32 [b, h, w, c] in 0..1, int64 [b]), epoch after epoch.

    images uint8 [n, h, w, c], labels int64 [n]. Every epoch has its own order, given by (seed, epoch, rank); its
    last batch may be smaller. Samples stay uint8 in memory: only the batch at hand and one ahead are float32.
    """
    gather = _gather(images, labels)

    def order(epoch: Any) -> Any:
        found = tf.numpy_function(lambda e: epoch_order(len(labels), seed, int(e), rank), [epoch], tf.int64)
        return tf.data.Dataset.from_tensor_slices(tf.ensure_shape(found, [len(labels)])).batch(batch_size)

    epochs = tf.data.Dataset.range(first_epoch, np.iinfo(np.int64).max)
    return epochs.flat_map(order).map(gather).prefetch(1).with_options(_frugal())


def evaluation_batches(images: Any, labels: Any, batch_size: int) -> tf.data.Dataset:
    """One pass over the samples in order, same types as training_batches."""
    positions = tf.data.Dataset.range(len(labels)).batch(batch_size)
    return positions.map(_gather(images, labels)).prefetch(1).with_options(_frugal())


def _gather(images: Any, labels: Any) -> Any:
    with tf.device("/CPU:0"):  # a constant would otherwise move the whole shard to the GPU
        all_images, all_labels = tf.constant(images), tf.constant(labels)

    def batch(positions: Any) -> tuple[Any, Any]:
        return tf.cast(tf.gather(all_images, positions), tf.float32) / 255.0, tf.gather(all_labels, positions)

    return batch


def _frugal() -> tf.data.Options:
    """No threads and buffers beyond the one batch ahead: ranks share the node's cores and memory."""
    options = tf.data.Options()
    options.autotune.enabled = False
    options.threading.private_threadpool_size = 1
    return options
