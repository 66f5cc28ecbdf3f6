"""Turns a rank's uint8 samples into batches for training and evaluation with tf.data, without a second copy of them."""

from __future__ import annotations

import os
from typing import Any, Callable, Sequence

import numpy as np
import tensorflow as tf

from hpclaunch.training.input import augmentation
from hpclaunch.training.input.shards import epoch_order, steps_per_epoch

unconverted = tf.autograph.experimental.do_not_convert
"""Marks functions of batches: AutoGraph would read their code for up to a second, and has nothing to convert in it."""
AT_ONCE = 4  # batches that are augmented at the same time: each is held as float32


def training_batches(
    images: Any,
    labels: Any,
    batch_size: int,
    seed: int,
    rank: int,
    first_epoch: int = 0,
    first_step: int = 0,
    augment: augmentation.Augmentation | None = None,
    threads: int = 0,
    as_pixels: bool = False,
    places: Callable[[int], np.ndarray] | None = None,
    length: int = 0,
    weights: Sequence[Any] = (),
) -> tf.data.Dataset:
    """Endless batches (float32 [b, h, w, c] in 0..1, int64 [b]), epoch after epoch.

    images uint8 [n, h, w, c], labels int64 [n]; or other arrays, also several, as tuples or dictionaries. weights: of
    the samples, if they have any: the third part of a batch, as labels are the second.

    Every epoch has its own order, given by (seed, epoch, rank); its last batch may be smaller. The first batch is that
    of step `first_step` in `first_epoch` (both from 0), with the samples and random numbers of an uninterrupted run.
    Samples stay uint8 in memory: only the current batch and the
    next one are float32. augment: changes images, and with mixing makes labels float32 [b, classes]. threads: how many
    batches are made at the same time (0: one, but with augmentation up to AT_ONCE, as the rank's threads allow).
    as_pixels: images stay in 0..255, as uint8 unless `augment` makes fractions of them. This saves three quarters of
    the bytes to write and to copy to the device; the model must begin with Rescaling(1 / 255). places: another order:
    of an epoch, the places of its samples among those given, int64 [length].
    """
    length = length or samples_of(labels)
    places = places or (lambda epoch: epoch_order(length, seed, epoch, rank))
    augments = augment is not None and augment.changes
    threads = threads or (min(AT_ONCE, rank_threads()) if augments else 1)
    gather = _gather(images, labels, *weights)
    finish = finisher(seed, rank, augment, as_pixels)

    @unconverted
    def epoch_batches(epoch: Any) -> Any:
        order = tf.numpy_function(lambda e: places(int(e)), [epoch], tf.int64)
        order = tf.ensure_shape(order, [length])

        def batch(step: Any) -> Any:
            # One slice for the whole batch: to pass positions one by one would take longer than to read the images.
            start = step * batch_size
            return finish(gather(order[start : start + batch_size]), epoch, start)

        return steps_of(epoch).map(batch, num_parallel_calls=threads if threads > 1 else None)

    def steps_of(epoch: Any) -> Any:
        begin = tf.where(tf.equal(epoch, first_epoch), tf.constant(first_step, tf.int64), tf.constant(0, tf.int64))
        return tf.data.Dataset.range(begin, steps_per_epoch(length, batch_size))

    epochs = tf.data.Dataset.range(first_epoch, np.iinfo(np.int64).max)
    return epochs.flat_map(epoch_batches).prefetch(1).with_options(frugal(threads))


def evaluation_batches(
    images: Any, labels: Any, batch_size: int, as_pixels: bool = False, weights: Sequence[Any] = ()
) -> tf.data.Dataset:
    """One pass over the samples in order, same types as training_batches."""
    gather = _gather(images, labels, *weights)
    positions = tf.data.Dataset.range(samples_of(labels)).batch(batch_size)
    finish = finisher(0, 0, None, as_pixels)
    completed = unconverted(lambda found: finish(gather(found), 0, 0))
    return positions.map(completed).prefetch(1).with_options(frugal())


def finisher(
    seed: int, rank: int, augment: augmentation.Augmentation | None, as_pixels: bool
) -> Callable[..., tuple[Any, ...]]:
    """The function that completes a batch: ((uint8 images, labels, weights), epoch, number of its first sample)."""

    def finish(batch: tuple[Any, ...], epoch: Any, start: Any) -> tuple[Any, ...]:
        images, labels, *weights = batch
        if augment is None or not augment.changes:
            return (images if as_pixels else augmentation.to_float(images)), labels, *weights
        draws = augmentation.random_numbers(seed, rank, epoch, start, tf.shape(labels)[0])
        return (*augment.apply(images, labels, draws, as_pixels), *weights)

    return finish


def frugal(threads: int = 1) -> tf.data.Options:
    """Options without extra threads and buffers, since ranks share the node's cores and memory."""
    options = tf.data.Options()
    options.autotune.enabled = False
    options.threading.private_threadpool_size = threads
    return options


def rank_threads() -> int:
    """The number of threads of this rank: those that rank.start has set, else the cores that it may use."""
    return tf.config.threading.get_intra_op_parallelism_threads() or len(os.sched_getaffinity(0))


def samples_of(labels: Any) -> int:
    """The number of samples that these labels (one array or several) belong to."""
    return len(tf.nest.flatten(labels)[0])


def on_host(arrays: Any) -> Any:
    """One array or several (tuples, dictionaries) as tensors, which are copies."""
    with tf.device("/CPU:0"):  # otherwise the whole shard would be copied to the GPU
        return tf.nest.map_structure(tf.constant, arrays)


def _gather(*parts: Any) -> Any:
    held = on_host(parts)

    def batch(positions: Any) -> Any:
        return tf.nest.map_structure(lambda one: tf.gather(one, positions), held)

    return batch
