"""Decodes JPEG and PNG images on several threads, in order."""

from __future__ import annotations

from typing import Any, Callable

import tensorflow as tf

from hpclaunch.training.input.pipeline import frugal, rank_threads


def image(content: Any, shape: tuple[int, ...]) -> Any:
    """The image uint8 of `shape` in a string tensor; InvalidArgumentError if it is no image, or of another shape."""
    found = tf.io.decode_image(content, channels=shape[2], expand_animations=False)
    return tf.ensure_shape(found, shape)


def resized(content: Any, shape: tuple[int, ...]) -> Any:
    """The whole image in a string tensor, resized to uint8 of `shape`; bilinear, with an average where it shrinks."""
    found = tf.io.decode_image(content, channels=shape[2], expand_animations=False)
    pixels = tf.image.resize(found, shape[:2], antialias=True)
    return tf.ensure_shape(tf.cast(tf.clip_by_value(tf.round(pixels), 0, 255), tf.uint8), shape)


def in_parallel(samples: tf.data.Dataset, work: Callable[[Any], Any], threads: int = 0) -> tf.data.Dataset:
    """Apply `work` to every element, in order, on `threads` threads (0: those of the rank)."""
    threads = threads or rank_threads()
    return samples.map(work, num_parallel_calls=threads, deterministic=True).with_options(frugal(threads))
