"""Decodes JPEG and PNG images on several threads, in order."""

from __future__ import annotations

from typing import Any, Callable

import tensorflow as tf

from hpclaunch.training.input.pipeline import frugal, rank_threads

AVERAGED_FROM = 1.5  # old pixels per new pixel; below, bilinear pixels differ from averages as antialiasing filters do


def image(content: Any, shape: tuple[int, ...]) -> Any:
    """The image uint8 of `shape` in a string tensor; InvalidArgumentError if it is no image, or of another shape."""
    found = tf.io.decode_image(content, channels=shape[2], expand_animations=False)
    return tf.ensure_shape(found, shape)


def resized(content: Any, shape: tuple[int, ...], part: Callable[[Any], Any] | None = None) -> Any:
    """The image in a string tensor, or a part of it, resized to uint8 of `shape`.

    part: takes the image's shape (int32 [3]) and returns the box to use (top, left, height, width; int32 [4]). Of a
    JPEG only this box is decoded. Pixels are bilinear. Where an image shrinks by more than AVERAGED_FROM, they are
    averages instead, because bilinear pixels would skip a part of the image (docs/decisions/0046).
    """
    pixels = _resize(_decode(content, part, shape[2]), shape[:2])
    return tf.ensure_shape(tf.cast(pixels + 0.5, tf.uint8), shape)  # both resizes stay in 0..255


def _decode(content: Any, part: Callable[[Any], Any] | None, channels: int) -> Any:
    if part is None:
        return tf.io.decode_image(content, channels, expand_animations=False)
    box_of = part

    def of_jpeg() -> Any:
        return tf.io.decode_and_crop_jpeg(content, box_of(tf.image.extract_jpeg_shape(content)), channels)

    def of_another_format() -> Any:
        whole = tf.io.decode_image(content, channels, expand_animations=False)
        box = box_of(tf.shape(whole))
        # Not crop_to_bounding_box, whose many assertions would take time for every image, also for the JPEGs.
        return tf.slice(whole, tf.concat([box[:2], [0]], 0), tf.concat([box[2:], [channels]], 0))

    return tf.cond(tf.io.is_jpeg(content), of_jpeg, of_another_format)


def _resize(pixels: Any, size: tuple[int, ...]) -> Any:
    """Pixels uint8 [h, w, c] as float32 [*size, c]."""
    # Few operations, as each takes microseconds for every image: about a thirtieth of all the work is in this choice.
    before = tf.shape(pixels)[:2]

    def averaged() -> Any:  # the mean over a pixel's area; where an axis does not shrink it would repeat pixels
        return tf.cond(
            tf.reduce_all(before >= size),
            lambda: tf.image.resize(pixels, size, method="area"),
            lambda: tf.image.resize(pixels, size, antialias=True),
        )

    large = tf.reduce_any(before > [int(AVERAGED_FROM * length) for length in size])
    return tf.cond(large, averaged, lambda: tf.image.resize(pixels, size))


def in_parallel(samples: tf.data.Dataset, work: Callable[..., Any], threads: int = 0) -> tf.data.Dataset:
    """Apply `work` to every element, in order, on `threads` threads (0: those of the rank)."""
    threads = threads or rank_threads()
    return samples.map(work, num_parallel_calls=threads, deterministic=True).with_options(frugal(threads))
