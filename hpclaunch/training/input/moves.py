"""Mirrors and shifts large images one by one, as augmentation.moved does it with a batch, but several times as fast."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hpclaunch.training.input import augmentation
from hpclaunch.training.input.augmentation import Augmentation

DOWN, RIGHT, SHIFT = 0, 1, slice(2, 4)  # the columns of a move


class Moves:
    """The moves of an augmentation that does not scale: every new pixel is a copy of an old one, or zero.

    A move is int32 [4]: 1 if the image is mirrored vertically; 1 if horizontally; and where its first pixel lies in the
    unmoved image (rows, columns). It is one tensor, because tf.data needs some microseconds for each.
    """

    def __init__(self, how: Augmentation) -> None:
        self._how = how

    def of_batch(self, draws: Any) -> Any:
        """The moves of the images of a batch, int32 [b, 4], from their random numbers, float32 [b, DRAWS]."""
        how = self._how
        columns = [
            tf.cast(augmentation.coin(how.flip_vertical, draws[:, augmentation.FLIP_VERTICAL]), tf.float32),
            tf.cast(augmentation.coin(how.flip_horizontal, draws[:, augmentation.FLIP_HORIZONTAL]), tf.float32),
            augmentation.shift(how.crop, draws[:, augmentation.SHIFT_Y]),
            augmentation.shift(how.crop, draws[:, augmentation.SHIFT_X]),
        ]
        return tf.cast(tf.stack(columns, axis=1), tf.int32)

    def mirror(self, image: Any, move: Any) -> Any:
        """One image [h, w, c], mirrored."""
        if self._how.flip_vertical:
            upright = image
            image = tf.cond(move[DOWN] > 0, lambda: tf.reverse(upright, [0]), lambda: upright)
        if self._how.flip_horizontal:
            unturned = image
            image = tf.cond(move[RIGHT] > 0, lambda: tf.reverse(unturned, [1]), lambda: unturned)
        return image

    def apply(self, image: Any, move: Any) -> Any:
        """One image [h, w, c], mirrored and shifted, with zeros from outside."""
        image = self.mirror(image, move)
        if not self._how.crop:
            return image
        height, width, channels = image.shape
        turned = tf.where(move[:2] > 0, -move[SHIFT], move[SHIFT]) * [1, channels]
        begin, end = tf.maximum(turned, 0), tf.maximum(-turned, 0)
        size = tf.constant([height, width * channels]) - begin - end
        rows = tf.reshape(image, [height, -1])  # a matrix is cut and padded faster than three dimensions
        return tf.reshape(tf.pad(tf.slice(rows, begin, size), tf.stack([end, begin], axis=1)), image.shape)
