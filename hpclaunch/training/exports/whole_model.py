"""The whole model of one that several ranks share, on every rank: its weights, and a model that needs no other rank."""

from __future__ import annotations

from typing import Any, Iterator

import numpy as np
import tensorflow as tf

from hpclaunch.training.exports import portable
from hpclaunch.training.model_parallel import groups, splits
from hpclaunch.training.model_parallel.whole import seen_whole
from hpclaunch.training.optimization.pipelined import Pipelined


def is_made_again(model: Any) -> bool:
    """Whether the model is of no use without hpclaunch as it trains, and consists of blocks that can be made again."""
    return getattr(model, "whole_again", None) is not None


def parameters_of(model: Any) -> int:
    """The number of weights, trained or not, of the whole model."""
    shapes = [(one.shape, splits.split_of(one)) for one in model.weights]
    own = sum(int(np.prod(shape if split is None else split.whole_shape(shape))) for shape, split in shapes)
    return sum(model.of_all_stages(own)) if isinstance(model, Pipelined) else own


def weights_of(model: Any, keep: bool = True) -> list[Any]:
    """The whole weights, as model.get_weights() gives those of this rank. A collective of the ranks that share it.

    keep: without it this rank gets none, and holds one at a time.
    """
    seen = [seen_whole(one, "weight-{:03d}".format(n)) for n, one in enumerate(model.weights)]
    found = []
    for value in _read_all_stages(model, seen) if isinstance(model, Pipelined) else (one.numpy() for one in seen):
        found += [value] if keep else []
    return found


def _read_all_stages(model: Pipelined, seen: list[Any]) -> Iterator[Any]:
    shapes = model.of_all_stages([(tuple(one.shape), tf.as_dtype(one.dtype).name) for one in seen])
    for stage, of_stage in enumerate(shapes):
        for n, (shape, kind) in enumerate(of_stage):
            own = seen[n].numpy() if stage == model.index else np.zeros(shape, kind)
            yield model.of_stage(stage, own).numpy()


def copy_of(model: Any, weights: list[Any]) -> Any:
    """A model of whole layers with these `weights`. Raises NotPortable if it cannot be made from get_config()."""
    try:
        with groups.whole_models():
            copy = _make(model)
        if not copy.built:
            raise portable.NotPortable(
                "a subclass of Model that several ranks share has no weights before it is called"
            )
        copy.set_weights(weights)
    except portable.NotPortable:
        raise
    except Exception as error:  # whatever get_config and __init__ of the program's own layers raise
        raise portable.NotPortable(portable.in_a_line(error)) from error
    return copy


def _make(model: Any) -> tf.keras.Model:
    if is_made_again(model):
        return model.whole_again()
    return portable.clone(model) if portable.has_graph(model) else type(model).from_config(model.get_config())
