"""The layers of a Keras model as plain values, for a table or a picture; it computes nothing with the model."""

from __future__ import annotations

from typing import Any, Iterator


def layers_of(model: Any) -> list[dict[str, Any]]:
    """The layers in their order, those of inner models in their place: name, kind, shape of the output, parameters.

    kind: the class of the layer. shape: of one sample's (first) output; a dimension without a fixed size is 0, and the
    list is empty for a layer whose shape Keras does not know. parameters: trained or not.
    """
    return [
        {
            "name": layer.name,
            "kind": type(layer).__name__,
            "shape": _shape(layer),
            "parameters": sum(int(weight.shape.num_elements() or 0) for weight in layer.weights),
        }
        for layer in _leaf_layers(model)
    ]


def _leaf_layers(model: Any) -> Iterator[Any]:
    for layer in model.layers:
        if getattr(layer, "layers", None):
            yield from _leaf_layers(layer)
        else:
            yield layer


def _shape(layer: Any) -> list[int]:
    try:
        shape = layer.output_shape
    except (AttributeError, RuntimeError):  # never called as a part of a graph, or called with several shapes
        return []
    while isinstance(shape, (list, dict)):  # several outputs, or an input layer
        shape = next(iter(shape.values() if isinstance(shape, dict) else shape))
    return [int(length or 0) for length in tuple(shape or ())[1:]]
