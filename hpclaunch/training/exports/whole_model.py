"""The whole model of one that several ranks share, on every rank: its weights, and a model that needs no other rank."""

from __future__ import annotations

from typing import Any

from hpclaunch.training.exports import portable
from hpclaunch.training.model_parallel import groups
from hpclaunch.training.model_parallel.whole import seen_whole


def weights_of(model: Any) -> list[Any]:
    """The whole weights, as model.get_weights() gives those of this rank. A collective of the ranks that share it."""
    return [seen_whole(one, "weight-{:03d}".format(n)).numpy() for n, one in enumerate(model.weights)]


def copy_of(model: Any, weights: list[Any]) -> Any:
    """A model of whole layers with these `weights`. Raises NotPortable if it cannot be made from get_config()."""
    try:
        with groups.whole_models():
            copy = portable.clone(model) if portable.has_graph(model) else type(model).from_config(model.get_config())
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
