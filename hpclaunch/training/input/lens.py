"""Bends images as a lens does, which draws straight lines as curves; it holds no random state."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

FOLDS_FROM = 1 / 3  # r (1 + k r^2) would fall again before the corner (r = 1) with k below -1/3
LARGE = 2**15  # bytes of an image from which one after the other takes no longer than a batch, and far less memory


def distorted(images: Any, transforms: Any, curvature: Any) -> Any:
    """Distort and move a batch (any number type, [b, h, w, c]) in one pass; pixels from outside are 0.

    A pixel at the distance r from the middle reads the image at r' = r (1 + k r^2), in the same direction: the first
    term of radial distortion (Brown 1966, "Decentering distortion of lenses"). r is 1 in the corners. k > 0 draws the
    corners in (barrel), k < 0 draws them out (pincushion); the middle stays. transforms: float32 [b, 8], of places in
    the distorted image to those in the unmoved one, as for ImageProjectiveTransform. curvature: k, float32 [b].
    Pixels between others are bilinear; those of whole numbers are rounded.
    """
    if images.shape[1] * images.shape[2] * images.shape[3] < LARGE:
        return _interpolate(images, *_read_at(images, transforms, curvature))

    def one(image_and_places: Any) -> Any:
        image, transform, k = (part[None] for part in image_and_places)
        return _interpolate(image, *_read_at(image, transform, k))[0]

    own = tf.TensorSpec(images.shape[1:], images.dtype)
    return tf.map_fn(one, (images, transforms, curvature), fn_output_signature=own)


def _read_at(images: Any, transforms: Any, curvature: Any) -> tuple[Any, Any]:
    """Where each output pixel reads its image: rows and columns, float32 [b, h, w]."""
    height, width = images.shape[1], images.shape[2]
    middle_y, middle_x = (height - 1) / 2.0, (width - 1) / 2.0
    away_y = (tf.range(height, dtype=tf.float32) - middle_y)[None, :, None]
    away_x = (tf.range(width, dtype=tf.float32) - middle_x)[None, None, :]
    corner = max(middle_y**2 + middle_x**2, 1.0)
    stretch = 1.0 + curvature[:, None, None] * (away_y**2 + away_x**2) / corner
    y, x = middle_y + away_y * stretch, middle_x + away_x * stretch
    # Unstacked, not sliced: Grappler of TensorFlow 2.15 forgets the new axes of a slice of what was stacked.
    a0, a1, a2, b0, b1, b2, *_ = (tf.reshape(part, [-1, 1, 1]) for part in tf.unstack(transforms, axis=1))
    return b0 * x + b1 * y + b2, a0 * x + a1 * y + a2


def _interpolate(images: Any, y: Any, x: Any) -> Any:
    """The images [b, h, w, c] at rows y and columns x (float32 [b, h, w]), bilinear, with zeros outside."""
    height, width, channels = images.shape[1:]
    pixels = tf.reshape(images, [-1, height * width, channels])
    top, left = tf.floor(y), tf.floor(x)
    down, right = y - top, x - left

    def weighted(row: Any, column: Any, weight: Any) -> Any:
        there = (row >= 0) & (row <= height - 1) & (column >= 0) & (column <= width - 1)
        # Whole numbers: a large image has more pixels than float32 can count.
        row_number = tf.cast(tf.clip_by_value(row, 0.0, height - 1.0), tf.int32)
        column_number = tf.cast(tf.clip_by_value(column, 0.0, width - 1.0), tf.int32)
        found = tf.gather(pixels, row_number * width + column_number, batch_dims=1)
        return tf.cast(found, tf.float32) * tf.where(there, weight, 0.0)[..., None]

    total = weighted(top, left, (1 - down) * (1 - right)) + weighted(top, left + 1, (1 - down) * right)
    total += weighted(top + 1, left, down * (1 - right)) + weighted(top + 1, left + 1, down * right)
    return tf.cast(tf.round(total) if images.dtype.is_integer else total, images.dtype)
