"""Which weights of a model Muon takes: the matrices of its hidden layers. The others are updated by AdamW."""

from __future__ import annotations

import fnmatch
from typing import Any, Iterator, List, NamedTuple, Sequence

import tensorflow as tf

ROWS = "matrix_rows"
"""The attribute of a weight: how many of its first dimensions are the rows of its matrix; 0 if it is none of Muon's."""


class Division(NamedTuple):
    """The names of weights: matrices of hidden layers, and the others with two dimensions or more."""

    hidden: List[str]
    others: List[str]

    def in_words(self) -> str:
        """What a run says of it."""
        if not self.hidden:
            return "Muon takes no weight of this model: all are updated by AdamW."
        kept = ", and {}".format(", ".join(self.others)) if self.others else ""
        return "Muon takes {} of the model; AdamW takes biases and normalization{}.".format(
            _count_in_words(len(self.hidden)), kept
        )


def rows_of(variable: Any) -> int:
    """How many of the first dimensions of a weight are the rows of its matrix; 0 if Muon does not take it.

    Without a mark of `mark`: all but the last one, which counts the outputs of Keras's kernels [..., in, out].
    """
    return int(getattr(variable, ROWS, variable.shape.rank - 1))


def mark(model: Any, exclude: Sequence[str] = (), only_hidden: bool = True) -> Division:
    """Mark the weights of a built Keras model.

    Excluded are embeddings, and the weights of the layers that take the inputs or give the outputs (Jordan et al. 2024:
    input and output layers are for AdamW); kernels that are no matrix from inputs to outputs, as of a depthwise
    convolution; and the weights whose names match a pattern of `exclude`, such as ``router*/kernel``. only_hidden: if
    not, embeddings, the first and the last layers are not excluded. Raises ValueError for a pattern that matches none.
    In a model without a graph (a subclass of tf.keras.Model), the first and the last layer are those in the order in
    which its attributes were set.
    """
    outer = {id(layer) for side in _SIDES for layer in side.layers(model)} if only_hidden else set()
    matched = dict.fromkeys(exclude, 0)
    found = Division([], [])
    for layer in _leaves(model):
        is_outer = id(layer) in outer or (only_hidden and "embedding" in type(layer).__name__.lower())
        for variable in _matrices(layer) if layer.trainable else ():
            name = name_of(variable)
            patterns = [pattern for pattern in matched if fnmatch.fnmatchcase(name, pattern)]
            for pattern in patterns:
                matched[pattern] += 1
            rows = 0 if is_outer or patterns else _rows(layer, variable)
            for one in (variable, *getattr(variable, "values", ())):  # of a strategy of TensorFlow, one for each GPU
                setattr(one, ROWS, rows)
            (found.hidden if rows else found.others).append(name)
    unknown = [pattern for pattern, number in matched.items() if not number]
    if unknown:
        raise ValueError(
            "no weight with two dimensions is called {}; there are {}".format(
                ", ".join(unknown), ", ".join(sorted(found.hidden + found.others))
            )
        )
    return found


def _count_in_words(matrices: int) -> str:
    return "one matrix" if matrices == 1 else "{} matrices".format(matrices)


def name_of(variable: Any) -> str:
    """The name of a weight, such as dense/kernel."""
    return str(variable.name.partition(":")[0])


class _Side(NamedTuple):
    """The beginning or the end of a model: its tensors, the attribute and the direction that lead to its inside."""

    tensors: str
    nodes: str
    layers_of_node: str
    leaf: int

    def layers(self, model: Any) -> Iterator[Any]:
        """Yield the layers with matrices that the data meet first from this side; layers without any are passed."""
        if not getattr(model, "_is_graph_network", False):
            with_matrices = [layer for layer in _leaves(model) if _matrices(layer)]
            if with_matrices:
                yield with_matrices[self.leaf]
            return
        own, seen = {id(layer) for layer in model.layers}, set()
        ahead = [tensor._keras_history.layer for tensor in tf.nest.flatten(getattr(model, self.tensors))]
        own.update(map(id, ahead))  # a Sequential does not count its input layer
        while ahead:
            layer = ahead.pop()
            if id(layer) in seen or id(layer) not in own:  # of another model that shares this layer
                continue
            seen.add(id(layer))
            if any(_matrices(leaf) for leaf in _leaves(layer)):
                yield from self.layers(layer)
                continue
            for node in getattr(layer, self.nodes):
                ahead += tf.nest.flatten(getattr(node, self.layers_of_node))


_SIDES = (
    _Side("inputs", "_outbound_nodes", "outbound_layer", leaf=0),
    _Side("outputs", "_inbound_nodes", "inbound_layers", leaf=-1),
)


def _leaves(layer: Any) -> Iterator[Any]:
    """Yield a layer and the layers in it, each once; a shared one where it comes first."""
    return iter({id(one): one for one in layer._flatten_layers()}.values())


def _matrices(layer: Any) -> list[Any]:
    """The weights of this very layer, not of those in it, that have two dimensions or more; also those of a frozen one.

    A frozen layer between the inputs and the trained ones is the first layer all the same.
    """
    return [one for one in layer._trainable_weights if getattr(one, "whole_rank", one.shape.rank) >= 2]


def _rows(layer: Any, variable: Any) -> int:
    """How many of the first dimensions of a weight are its inputs; 0 if it is no matrix from inputs to outputs."""
    own_name = name_of(variable).rpartition("/")[2]
    if own_name.endswith(("bias", "alpha")) or own_name.startswith("depthwise"):
        return 0  # a bias of heads, the slopes of a PReLU, a small filter for each channel
    equation = getattr(layer, "equation", None)  # of EinsumDense, such as abc,cde->abde
    if equation is None:
        return int(variable.shape.rank) - 1
    summed = [letter not in equation.partition("->")[2] for letter in equation.partition("->")[0].split(",")[1]]
    rows = sum(summed)
    return rows if all(summed[:rows]) and rows < len(summed) else 0
