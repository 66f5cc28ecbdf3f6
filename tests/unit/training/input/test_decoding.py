"""Images of any size become images of one size: the box that is asked for, without aliasing."""

from __future__ import annotations

import pytest

try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group training: tensorflow is not installed", allow_module_level=True)

from typing import Any

from hpclaunch.training.input import decoding


def smooth(height: int, width: int) -> Any:
    """An image without edges, which every resize shows in the same way."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([128 + 100 * np.sin(y / 40), 128 + 100 * np.cos(x / 30), (x + y) / 8], axis=2).astype(np.uint8)


def inner(shape: Any) -> Any:
    """A box that begins in the middle of a block of 8 x 8 pixels, as JPEG stores them."""
    return tf.stack([shape[0] // 4 + 3, shape[1] // 4 + 5, shape[0] // 2, shape[1] // 2])


@pytest.mark.parametrize("size", [(200, 300), (90, 120), (30, 40), (10, 200), (12, 8)])
def test_a_part_of_a_jpeg_is_that_part_of_the_image(size: tuple[int, int]) -> None:
    image = smooth(240, 320)
    content = tf.io.encode_jpeg(image, quality=95)
    found = decoding.resized(content, (*size, 3), inner).numpy().astype(int)
    part = image[63:183, 85:245]
    expected = tf.image.resize(part, size, antialias=True).numpy()
    assert found.shape == (*size, 3)
    assert np.abs(found - expected).mean() < 2.5


def test_stripes_that_are_too_narrow_become_grey() -> None:
    stripes = np.zeros((120, 120, 3), np.uint8)
    stripes[:, ::2] = 255
    for encode in (tf.io.encode_png, lambda image: tf.io.encode_jpeg(image, quality=100)):
        found = decoding.resized(encode(stripes), (40, 30, 3)).numpy().astype(int)
        assert np.abs(found - 127.5).max() < 12  # every fourth pixel alone would be black or white
    # Taller and narrower: the one axis is averaged, the other one is not.
    found = decoding.resized(tf.io.encode_png(stripes), (240, 30, 3)).numpy().astype(int)
    assert np.abs(found - 127.5).max() < 33


def test_values_are_rounded_and_stay_in_range() -> None:
    board = np.random.RandomState(0).choice([0, 255], (50, 50, 3)).astype(np.uint8)
    for size in (50, 20, 64):
        found = decoding.resized(tf.io.encode_png(board), (size, size, 3)).numpy()
        exact = tf.image.resize(board, (size, size), method="area" if size == 20 else "bilinear").numpy()
        assert found.dtype == np.uint8 and np.abs(found - exact).max() <= 0.5
