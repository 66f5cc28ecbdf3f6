"""Scales the random first weights of the network to a few volumes, so that all layers see numbers of the same size.

Between two universes the means of the network's features differ by a few percent, far less than the features are. Dense
layers with dropout learn to ignore so small a difference. So each layer's outputs are first brought to mean 0 and
deviation 1 over some volumes, as Salimans and Kingma 2016 do (arXiv 1602.07868, section 3). The network stays the same.
"""

from __future__ import annotations

from typing import Any, Iterator, List

import numpy as np
import tensorflow as tf

VOLUMES = 16
LAST = 0.25  # deviation of the last layer's outputs before tanh, which has hardly a slope where they are large
LEAST = 1e-6  # deviation below which a filter counts as constant


def scale_to(model: Any, volumes: Any) -> None:
    """Scale the weights of a Sequential model, and shift its biases, to volumes [n, s, s, s, channels] (any number).

    The outputs of each filter get mean 0 and deviation 1 over the volumes and their voxels. Volumes are computed one
    after the other.
    """
    first, *blocks = _blocks(model.layers)
    values = [_through(first, tf.cast(volume[None], tf.float32)) for volume in volumes]
    for number, (layer, *rest) in enumerate(blocks, 1):
        mean, deviation = _moments(_linear(layer, value) for value in values)
        scale = (LAST if number == len(blocks) else 1.0) / np.maximum(deviation, LEAST)
        layer.kernel.assign(layer.kernel * scale.astype(np.float32))
        layer.bias.assign((-mean * scale).astype(np.float32))
        values = [_through([layer] + rest, value) for value in values]


def _blocks(layers: Any) -> List[List[Any]]:
    """The layers in blocks: those before the first one with weights, then each of these with those that follow it."""
    blocks: List[List[Any]] = [[]]
    for layer in layers:
        if hasattr(layer, "kernel"):
            blocks.append([])
        blocks[-1].append(layer)
    return blocks


def _through(layers: Any, value: Any) -> Any:
    for layer in layers:
        value = layer(value)
    return value


def _linear(layer: Any, value: Any) -> Any:
    """The outputs of a layer without its bias, which is 0, and its activation."""
    return tf.matmul(value, layer.kernel) if isinstance(layer, tf.keras.layers.Dense) else layer(value)


def _moments(outputs: Iterator[Any]) -> Any:
    """Mean and deviation of each filter, float64 [filters]."""
    count, total, squares = 0, 0.0, 0.0
    for output in outputs:
        rows = np.reshape(tf.cast(output, tf.float32), (-1, output.shape[-1])).astype(np.float64)
        count, total, squares = count + len(rows), total + rows.sum(axis=0), squares + np.square(rows).sum(axis=0)
    mean = total / count
    return mean, np.sqrt(np.maximum(squares / count - mean**2, 0))
