"""Finds the figures of a Keras model without a training step: parameters, operations, bytes for the backward pass.

As a program, python -m hpclaunch.training.model_probe MODULE:FUNCTION FILE writes them to FILE as JSON. It needs
TensorFlow, but no GPU, no Horovod and no data.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any, Iterator, Optional, Sequence

FEW, MANY = 1, 8
"""Two batch sizes: the difference between their graphs belongs to the samples, the rest (such as weights) does not."""
FIXED = ("Const", "ReadVariableOp")
LOOPS = ("While", "StatelessWhile", "PartitionedCall", "StatefulPartitionedCall")
"""Operations with inner operations, which TensorFlow's profiler counts once, or not at all."""
FLOAT_BYTES = 4
BOOKKEEPING = ("Const", "Placeholder", "ReadVariableOp", "Identity", "NoOp")
"""Operations of a graph that launch nothing."""
OPERATIONS_OF_AN_UPDATE, OPERATIONS_OF_KERAS = 21, 20
"""Operations with which Keras 2.15's Adam updates one variable, and those of its loss and metrics in a step."""


class ProbeError(Exception):
    """The reason, in one line, why a model cannot be probed."""


def built(name: str) -> Any:
    """The model that module:function returns when it is called without an argument. Raises ProbeError."""
    module, _, function = name.partition(":")
    make = getattr(importlib.import_module(module), function, None)
    if make is None:
        raise ProbeError("{} has no function {}".format(module, function))
    model = make()
    inputs = getattr(model, "inputs", None)
    if not inputs:
        raise ProbeError("{} returns no Keras model with an Input, so its shapes are not known".format(name))
    for tensor in inputs:
        if None in list(tensor.shape)[1:]:
            raise ProbeError("the input {} has no fixed shape: {}".format(tensor.name, tuple(tensor.shape)))
    return model


def figures(model: Any) -> dict[str, Any]:
    """The values of hpclaunch.guidelines.figures.ModelFigures, as JSON can hold them, for one sample."""
    few, many = _trace(model, FEW), _trace(model, MANY)
    flops = (_operations(many) - _operations(few)) / (MANY - FEW)
    saved, at_most = saved_bytes(model, few, many)
    trained = sum(_values(variable) for variable in model.trainable_variables)
    largest = max((sum(map(_values, layer.trainable_variables)) for layer in _layers(model)), default=trained)
    return {
        "parameters": trained,
        "fixed_parameters": sum(map(_values, model.variables)) - trained,
        "flops_per_sample": flops,
        "flops_at_least": any(one.type in LOOPS for one in many.graph.get_operations()),
        "saved_bytes_per_sample": saved,
        "saved_at_most": at_most,
        "largest_layer": largest,
        "operations": training_operations(model),
        "layers": [
            [layer.name, type(layer).__name__, sum(map(_values, layer.trainable_variables)), _outputs(layer)]
            for layer in _layers(model)
        ],
    }


def saved_bytes(model: Any, few: Any, many: Any) -> tuple[float, bool]:
    """Bytes that the forward pass of one sample saves for the backward pass, and whether that is an upper bound.

    They are TensorFlow's own list, from the graphs; if there is none, the sum of all layers' outputs.
    """
    try:
        found = (_residuals(many) - _residuals(few)) / (MANY - FEW)
    except Exception:  # no public part of TensorFlow: a version without it, or what it does not know the size of
        found = 0.0
    return (found, False) if found > 0 else (float(FLOAT_BYTES * _layer_outputs(model)), True)


def training_operations(model: Any) -> Optional[int]:
    """The operations of one training step: forward, backward, and Adam's update; None if the model has no gradient.

    Each costs some microseconds of the framework's own time, however small the batch is.
    """
    import tensorflow as tf

    specs = [tf.TensorSpec([MANY] + list(tensor.shape)[1:], tensor.dtype) for tensor in model.inputs]

    def step(*inputs: Any) -> Any:
        with tf.GradientTape() as tape:
            outputs = model(inputs[0] if len(inputs) == 1 else list(inputs), training=True)
            loss = tf.add_n([tf.reduce_sum(tf.cast(one, tf.float32)) for one in tf.nest.flatten(outputs)])
        return [one for one in tape.gradient(loss, model.trainable_variables) if one is not None]

    try:
        graph = tf.function(step).get_concrete_function(*specs).graph
    except Exception:  # an operation without a gradient: the fixed time is then estimated from the layers
        return None
    launched = sum(one.type not in BOOKKEEPING for one in graph.get_operations())
    return launched + OPERATIONS_OF_AN_UPDATE * len(model.trainable_variables) + OPERATIONS_OF_KERAS


def _trace(model: Any, batch: int) -> Any:
    """The forward pass of `batch` samples as a graph."""
    import tensorflow as tf

    specs = [tf.TensorSpec([batch] + list(tensor.shape)[1:], tensor.dtype) for tensor in model.inputs]

    def forward(*inputs: Any) -> Any:
        outputs = model(inputs[0] if len(inputs) == 1 else list(inputs), training=True)
        return tf.add_n([tf.reduce_sum(tf.cast(one, tf.float32)) for one in tf.nest.flatten(outputs)])

    return tf.function(forward).get_concrete_function(*specs)


def _operations(traced: Any) -> float:
    """Floating-point operations of a graph, as TensorFlow's profiler counts them; a multiply-add counts as two.

    The profiler does not count normalizations and most activations.
    """
    import tensorflow as tf

    options = {**tf.compat.v1.profiler.ProfileOptionBuilder.float_operation(), "output": "none"}
    return float(tf.compat.v1.profiler.profile(traced.graph, options=options).total_float_ops)


def _residuals(traced: Any) -> int:
    """Bytes that a GradientTape would keep of a graph. Raises ProbeError where the size of one is not known.

    It does the same as a tape when a function is called under it: tensors for the gradient become graph outputs.
    """
    before = len(traced.graph.outputs)
    traced._delayed_rewrite_functions.forward_backward()
    kept = {id(tensor): tensor for tensor in traced.graph.outputs[before:] if tensor.op.type not in FIXED}
    total = 0
    for tensor in kept.values():
        workspace = tensor.op.type.startswith("FusedBatchNorm") and tensor.shape.rank is None
        if tensor.dtype.name == "resource" or workspace:
            continue  # a variable itself; the room that cuDNN keeps for itself, and that is empty elsewhere
        if tensor.dtype.name == "variant" or not tensor.shape.is_fully_defined():
            raise ProbeError("{} has no size".format(tensor.name))
        total += tensor.dtype.size * _values(tensor)
    return total


def _layers(model: Any) -> Iterator[Any]:
    """All layers, including those of models inside the model."""
    for layer in model.layers:
        if getattr(layer, "layers", None):
            yield from _layers(layer)
        else:
            yield layer


def _layer_outputs(model: Any) -> int:
    """The number of output values of all calls of all layers for one sample."""
    return sum(_outputs(layer) for layer in _layers(model))


def _outputs(layer: Any) -> int:
    """The number of output values of all calls of a layer for one sample."""
    import tensorflow as tf

    found = 0
    for node in range(len(layer._inbound_nodes)):
        for tensor in tf.nest.flatten(layer.get_output_at(node)):
            found += int(tf.TensorShape(tensor.shape[1:]).num_elements() or 0)
    return found


def _values(variable: Any) -> int:
    return int(variable.shape.num_elements())


def _last_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return "{}: {}".format(type(error).__name__, lines[-1] if lines else "without a word")


def main(arguments: Sequence[str]) -> int:
    """Probe the model; if it fails, the last line on stderr gives the reason."""
    name, output = arguments
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # only shapes are needed: a GPU may be in use by others
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        found = figures(built(name))
        import tensorflow as tf

        found["tensorflow"] = tf.__version__
    except Exception as error:  # the model is the user's own code, which may raise anything
        print(error if isinstance(error, ProbeError) else _last_line(error), file=sys.stderr)
        return 1
    with open(output, "w") as file:
        json.dump(found, file)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
