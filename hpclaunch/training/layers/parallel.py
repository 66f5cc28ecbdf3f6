"""What the shared layers have in common: their group of ranks, and variables of which each rank has a part."""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow as tf

from hpclaunch.training.model_parallel import groups, splits
from hpclaunch.training.model_parallel.splits import OwnPart, Split
from hpclaunch.training.rank.failure import AgreedError


class Parallel(tf.keras.layers.Layer):
    """A layer that the ranks share that were a tensor-parallel group when it was made.

    It takes no regularizer: its loss would need the whole variable. Weight decay of the optimizer works.
    """

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self.group, self.shared_name = groups.tensor(), groups.next_name()

    def split(self, what: str, whole: int, axis: int) -> Split:
        """This rank's part of an axis of length `whole`. Raises AgreedError if it cannot be divided equally."""
        if whole % self.group.size:
            raise AgreedError(
                "the layer {}: {}={} cannot be divided among the {} ranks of --tensor-parallel: use a multiple of "
                "{}".format(self.name, what, whole, self.group.size, self.group.size),
                speaks=self.group.rank == 0,
            )
        return Split(axis, whole, self.group.size, self.group.index)

    def add_part(self, name: str, shape: Sequence[int], split: Split, initializer: Any) -> Any:
        """This rank's part of a variable whose whole `shape` is given."""
        # A new initializer: one of Keras that is used twice gives the same values.
        initializer = tf.keras.initializers.get(initializer)
        if hasattr(initializer, "get_config"):
            initializer = type(initializer).from_config(initializer.get_config())
        made = OwnPart(initializer, split)
        variable = self.add_weight(name=name, shape=split.own_shape(shape), initializer=made)
        if split.parts > 1:
            splits.mark(variable, split)
        return variable


class ParallelUnits(Parallel):
    """A shared layer with a kernel, a bias and an activation, as Keras's Dense and Conv2D have them."""

    def __init__(
        self,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        **named: Any,
    ) -> None:
        super().__init__(**named)
        self.activation, self.use_bias = tf.keras.activations.get(activation), use_bias
        self.kernel_initializer = tf.keras.initializers.get(kernel_initializer)
        self.bias_initializer = tf.keras.initializers.get(bias_initializer)

    def finish(self, x: Any) -> Any:
        """The outputs with bias and activation."""
        if self.use_bias:
            x = x + self.bias
        return x if self.activation is None else self.activation(x)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "activation": tf.keras.activations.serialize(self.activation),
            "use_bias": self.use_bias,
            "kernel_initializer": tf.keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": tf.keras.initializers.serialize(self.bias_initializer),
        }
