"""A copy of a trained Keras model that consists of Keras's own layers, has no optimizer, and lies on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from hpclaunch.training.optimization.batch_norm import GhostBatchNormalization

AGREES = 0.02  # of the largest output: float16 and bfloat16 round twice, on the GPU and here
MOST_TEXT = 300
_OF_KERAS = ("keras.", "tf_keras.")
_SHARED_BY_NORMALIZATIONS = ("name", "trainable", "dtype", "momentum", "epsilon")


class NotPortable(Exception):
    """The text says why there is no such copy of a model."""


def copy_of(model: Any, sample: Any) -> Any:
    """A model with the same weights and outputs that was never compiled.

    model: of Keras, built. sample: the tf.TensorSpec of one sample, or those of
    several inputs as a tuple or dictionary. Ghost and synchronized batch normalization become
    Keras's: they differ only in training. A subclass of Model is made again from its get_config().
    Raises NotPortable if that cannot be done, or gives other outputs.
    """
    try:
        with tf.device("/CPU:0"):
            copy = clone(_functional_base(model)) if has_graph(model) else type(model).from_config(model.get_config())
            copy(_probe(sample))  # builds a subclass
            copy.set_weights(model.get_weights())
            expected, found = (tf.nest.flatten(one(_probe(sample), training=False)) for one in (model, copy))
    except Exception as error:  # whatever get_config, __init__ and call of the program's own layers raise
        raise NotPortable(in_a_line(error)) from error
    if not all(map(_close, expected, found)):
        raise NotPortable("a model made from its get_config() gives other outputs: get_config() leaves something out")
    return copy


def has_graph(model: Any) -> bool:
    """Whether inputs and layers determine the model: it is functional or sequential, without a `call` of its own."""
    owner = next(cls for cls in type(model).__mro__ if "call" in vars(cls))
    return (
        bool(getattr(model, "inputs", None)) and owner.__module__.startswith(_OF_KERAS) and owner is not tf.keras.Model
    )


def in_a_line(error: Exception) -> str:
    """The class and the first line of an error, which may quote a whole model."""
    return "{}: {}".format(type(error).__name__, str(error).strip().split("\n")[0][:MOST_TEXT])


def own_classes(model: Any) -> dict[str, Any]:
    """The classes of the model and its layers that are not Keras's, by name: a reader of the file needs them."""
    found = {type(layer) for layer in model._flatten_layers()}
    return {cls.__name__: cls for cls in found if not cls.__module__.startswith(_OF_KERAS)}


def _functional_base(model: Any) -> Any:
    """The same layers as a functional model, whose batch has any size."""
    base = tf.keras.Model(model.input, model.output, name=model.name)
    if all(one.shape[0] is None for one in model.inputs):
        return base
    # A sequential model without Input takes the size of its first batches.
    inputs = tf.nest.map_structure(lambda one: tf.keras.Input(one.shape[1:], dtype=one.dtype), model.input)
    whole = tf.keras.models.clone_model(base, input_tensors=inputs)
    whole.set_weights(model.get_weights())
    return whole


def clone(model: Any) -> Any:
    """A new functional or sequential model with the same layers, and weights of its own."""
    if type(model) not in (tf.keras.Model, tf.keras.Sequential):  # a training step of ours
        model = tf.keras.Model(model.input, model.output, name=model.name)
    return tf.keras.models.clone_model(model, clone_function=_clone_layer)


def _clone_layer(layer: Any) -> Any:
    """A new layer like this one; those of hpclaunch and Horovod become Keras's, if it has such a layer."""
    if isinstance(layer, tf.keras.Model) and has_graph(layer):
        return clone(layer)
    config = layer.get_config()
    if hasattr(layer, "of_keras"):  # one that several ranks can share
        return layer.of_keras()
    if isinstance(layer, GhostBatchNormalization):
        return tf.keras.layers.BatchNormalization(**{name: config[name] for name in _SHARED_BY_NORMALIZATIONS})
    if type(layer).__name__ == "SyncBatchNormalization" and type(layer).__module__.startswith("horovod."):
        return tf.keras.layers.BatchNormalization.from_config(config)
    return type(layer).from_config(config)


def _probe(sample: Any) -> Any:
    """Two made-up samples: zeros and ones of a whole-number type, which every table of embeddings has, or fractions."""
    if tf.nest.is_nested(sample):
        return tf.nest.map_structure(_probe, sample)
    shape = [2, *sample.shape]
    numbers = np.arange(int(np.prod(shape))).reshape(shape)
    return tf.constant(
        numbers % 2 if sample.dtype.is_integer or sample.dtype.is_bool else numbers % 7 / 7, sample.dtype
    )


def _close(expected: Any, found: Any) -> bool:
    wanted, has = (np.asarray(tf.cast(one, tf.float32)) for one in (expected, found))
    largest = np.max(np.abs(wanted), initial=0.0)
    return wanted.shape == has.shape and np.allclose(wanted, has, rtol=0, atol=AGREES * largest, equal_nan=True)
