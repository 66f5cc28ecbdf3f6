"""The order of one pass over the samples of a rank: as they are stored, or random."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import tensorflow as tf

from hpclaunch.training.input.shards import epoch_order, stream_seed


class Order:
    """Samples as they are stored."""

    def __call__(self, length: Any, name: str) -> Any:
        """A permutation of 0 .. length - 1, int64; name: of this stream of random numbers."""
        return tf.range(tf.cast(length, tf.int64))

    def shuffle(self, samples: tf.data.Dataset, window: int) -> tf.data.Dataset:
        """The samples in an order of which any part can be made with `window` samples in memory."""
        return samples


class RandomOrder(Order):
    """A random order, which seed, rank and epoch (a tensor) alone determine: a resumed run has the same one."""

    def __init__(self, seed: int, rank: int, epoch: Any) -> None:
        self._seed, self._rank, self._epoch = seed, rank, epoch

    def __call__(self, length: Any, name: str) -> Any:
        # "samples" is the order that pipeline.training_batches uses.
        own = self._seed if name == "samples" else stream_seed(self._seed, name)

        def permutation(epoch: Any, count: Any) -> np.ndarray:
            return epoch_order(int(count), own, int(epoch), self._rank)

        return tf.ensure_shape(tf.numpy_function(permutation, [self._epoch, length], tf.int64), [None])

    def shuffle(self, samples: tf.data.Dataset, window: int) -> tf.data.Dataset:
        """The samples shuffled as tf.data does it: the next one is any of `window` samples."""

        def seeds_of(epoch: Any) -> np.ndarray:
            names = ("samples of files", int(epoch), self._rank)
            return np.array([stream_seed(self._seed, *names), stream_seed(self._seed, "second", *names)], np.int64)

        seeds = tf.ensure_shape(tf.numpy_function(seeds_of, [self._epoch], tf.int64), [2])
        specs = tf.nest.flatten(samples.element_spec)
        # Dataset.shuffle would mix in TensorFlow's global seed, which differs between ranks and between programs.
        shuffled = tf.raw_ops.ShuffleDataset(
            input_dataset=tf.data.experimental.to_variant(samples),
            buffer_size=window,
            seed=seeds[0],
            seed2=seeds[1],
            output_types=[spec.dtype for spec in specs],
            output_shapes=[spec.shape for spec in specs],
        )
        return tf.data.experimental.from_variant(shuffled, samples.element_spec)


class GivenOrder(Order):
    """The order that `places` gives for an epoch (a tensor), int64 [n]: for sources whose samples can be in any."""

    def __init__(self, places: Callable[[int], np.ndarray], epoch: Any) -> None:
        self._places, self._epoch = places, epoch

    def __call__(self, length: Any, name: str) -> Any:
        return tf.ensure_shape(tf.numpy_function(lambda e: self._places(int(e)), [self._epoch], tf.int64), [None])
