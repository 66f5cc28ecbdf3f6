"""The files of a trained model: of Keras, a SavedModel, and its weights by name; each function writes one of them."""

from __future__ import annotations

import os
import warnings
from typing import Any, Iterable, Sequence

import numpy as np
import tensorflow as tf

from hpclaunch.training.checkpoints.folders import write_arrays
from hpclaunch.training.exports import portable

KERAS, HDF5, SAVED_MODEL, WEIGHTS = "model.keras", "model.h5", "saved_model", "weights.npz"
SIGNATURE, INPUTS, OUTPUTS = "serving_default", "inputs", "outputs"
KERAS_SINCE = (2, 12)  # before, "model.keras" would be an HDF5 file with a misleading name


def keras_names(tensorflow: str) -> list[str]:
    """The names of Keras's files with this version of TensorFlow: that of its own format, and the older HDF5."""
    version = tuple(int(number) for number in tensorflow.split(".")[:2])
    return [KERAS, HDF5] if version >= KERAS_SINCE else [HDF5]


def write_keras(copy: Any, folder: str, name: str) -> None:
    """Write a file (keras_names) of a model (portable.copy_of), which tf.keras.models.load_model reads.

    Raises NotPortable, and leaves no file, if it cannot be read again: TensorFlow 2.12 writes a model.keras with a ReLU
    layer that no version reads.
    """
    path, own = os.path.join(folder, name), portable.own_classes(copy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that HDF5 is the older format
        # Without a format, TensorFlow 2.12 would write a SavedModel into a folder of the name model.keras.
        copy.save(path, save_format="h5" if name == HDF5 else "keras_v3")
    try:
        with tf.device("/CPU:0"):
            again = tf.keras.models.load_model(path, custom_objects=own, compile=False)
        same = all(map(np.array_equal, copy.get_weights(), again.get_weights()))
    except Exception as error:
        os.remove(path)
        raise portable.NotPortable("it cannot be read again: {}".format(portable.in_a_line(error))) from error
    if not same:
        os.remove(path)
        raise portable.NotPortable("the model that is read from it has other weights")


def write_saved_model(model: Any, sample: Any, folder: str) -> str:
    """Write a SavedModel that tf.saved_model.load reads without Keras; returns its name.

    Its signature serving_default takes `inputs`, [b, ...] of the type and shape of `sample` (tf.TensorSpec); for
    several inputs (a tuple or dictionary of them) input_0, input_1, ... or the names of the dictionary. It gives
    `outputs`, [b, ...]; a model with several outputs gives output_0, output_1, ... or the names of its dictionary.
    Layers work as in evaluation: no dropout, and the moving statistics of batch normalization.
    """
    specs = tf.nest.flatten(sample)
    names = list(_names(sample, "input_{}", INPUTS))
    signature = [tf.TensorSpec([None, *one.shape], one.dtype, name) for name, one in zip(names, specs)]

    @tf.function(input_signature=signature)
    def serve(*inputs: Any) -> dict[str, Any]:
        outputs = model(tf.nest.pack_sequence_as(sample, inputs), training=False)
        return dict(zip(_names(outputs, "output_{}", OUTPUTS), tf.nest.flatten(outputs)))

    # A plain module, not the Keras model: its own SavedModel would need Keras, and the classes of the program.
    module = tf.Module()
    module.model_variables = list(model.variables)
    module.tables = _tables(model)
    module.serve = serve
    tf.saved_model.save(module, os.path.join(folder, SAVED_MODEL), signatures={SIGNATURE: serve})
    return SAVED_MODEL


def write_weights(model: Any, folder: str, values: Sequence[Any] | None = None) -> str:
    """Write the weights to an npz file, by name and in the order of model.weights; returns its name.

    values: in place of model.get_weights().
    """
    with open(os.path.join(folder, WEIGHTS), "wb") as file:
        write_arrays(file, named_weights(model, values).items())
    return WEIGHTS


def named_weights(model: Any, values: Sequence[Any] | None = None) -> dict[str, Any]:
    """The weights of a model by name ("dense/kernel"), in the order of model.weights; 16-bit ones become float32."""
    found: dict[str, Any] = {}
    for variable, value in zip(model.weights, model.get_weights() if values is None else values):
        name = unique = variable.name.split(":")[0]
        number = 1
        while unique in found:  # layers of two nested models may have the same names
            unique, number = "{}_{}".format(name, number), number + 1
        found[unique] = value if value.dtype.kind in "biuf" else value.astype(np.float32)  # NumPy has no bfloat16
    return found


def _names(tensors: Any, numbered: str, alone: str) -> Iterable[str]:
    """Names for tensors, in the order of tf.nest.flatten: those of a dictionary, else by number; `alone` for one."""
    if isinstance(tensors, dict):
        return sorted(tensors)
    if isinstance(tensors, (list, tuple)):
        return [numbered.format(number) for number in range(len(tensors))]
    return [alone]


def _tables(model: Any) -> list[Any]:
    """The lookup tables of layers such as StringLookup: a SavedModel must own them, too."""
    if not hasattr(tf.train, "TrackableView"):  # before TensorFlow 2.10
        return []
    resource = tf.saved_model.experimental.TrackableResource
    return [one for one in tf.train.TrackableView(model).descendants() if isinstance(one, resource)]
