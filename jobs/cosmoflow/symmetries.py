"""Turns and mirrors training volumes at random: a universe has no preferred direction. It holds no random state."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import tensorflow as tf

from hpclaunch.training.input.augmentation import Augmentation

WHICH = 0  # the column of a volume's random numbers
ORDERS = np.array(list(itertools.permutations(range(3))), np.int32)  # of the three directions: 6
MIRRORS = np.array(list(itertools.product((False, True), repeat=3)))  # which directions are mirrored: 8
COUNT = len(ORDERS) * len(MIRRORS)


class Symmetries(Augmentation):
    """One of the 48 symmetries of the cube for each training volume, all with the same probability.

    They are the products of quarter turns and mirrors. The counts are only moved, and the parameters stay the same.
    """

    @property
    def changes(self) -> bool:
        return True

    def apply(self, images: Any, labels: Any, draws: Any, as_pixels: bool = False) -> tuple[Any, Any]:
        """Move a batch: volumes [b, s, s, s, channels], targets, draws [b, DRAWS] -> the same shapes and types."""
        numbers = tf.minimum(tf.cast(draws[:, WHICH] * COUNT, tf.int32), COUNT - 1)
        moved = tf.map_fn(lambda pair: symmetric(*pair), (images, numbers), fn_output_signature=images.dtype)
        return tf.ensure_shape(moved, images.shape), labels


def symmetric(volume: Any, number: Any) -> Any:
    """The symmetry `number` (0 .. COUNT - 1; 0 changes nothing) of a volume [s, s, s, channels]."""
    mirrored = tf.where(tf.gather(MIRRORS, number % len(MIRRORS)))[:, 0]
    order = tf.gather(ORDERS, number // len(MIRRORS))
    return tf.transpose(tf.reverse(volume, mirrored), tf.concat([order, [3]], axis=0))
