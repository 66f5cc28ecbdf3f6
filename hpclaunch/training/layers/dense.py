"""The pair of dense layers that several ranks share: the first divides its outputs, the second its inputs."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hpclaunch.training.layers.parallel import ParallelUnits
from hpclaunch.training.model_parallel import collectives


class ColumnParallelDense(ParallelUnits):
    """A dense layer whose units are divided among the ranks: [..., n] becomes [..., units / ranks].

    The next layer that mixes units must be a RowParallelDense; between them are only layers that treat each unit by
    itself, such as activations, and ParallelDropout in place of Dropout. gather_output: every rank gets all units,
    [..., units], for example of the last layer. Other arguments are those of tf.keras.layers.Dense.
    """

    def __init__(self, units: int, activation: Any = None, gather_output: bool = False, **named: Any) -> None:
        super().__init__(activation=activation, **named)
        self.units, self.gather_output = units, gather_output

    def build(self, shape: Any) -> None:
        columns = self.split("units", self.units, 1)
        self.kernel = self.add_part("kernel", (shape[-1], self.units), columns, self.kernel_initializer)
        if self.use_bias:
            own = self.split("units", self.units, 0)
            self.bias = self.add_part("bias", (self.units,), own, self.bias_initializer)
        super().build(shape)

    def call(self, inputs: Any) -> Any:
        x = collectives.enter(inputs, self.group, self.shared_name + ".enter")
        x = self.finish(tf.tensordot(x, self.kernel, 1))
        return collectives.join(x, self.group, self.shared_name + ".join") if self.gather_output else x

    def of_keras(self) -> Any:
        """The same layer of Keras, with the whole kernel."""
        return tf.keras.layers.Dense(self.units, **super().get_config())

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units, "gather_output": self.gather_output}


class RowParallelDense(ParallelUnits):
    """A dense layer whose inputs are divided among the ranks: [..., n / ranks] becomes [..., units] on every rank.

    Its inputs are the outputs of a ColumnParallelDense, or with split_input those that all ranks have. The bias is
    added once, to the sum. Other arguments are those of tf.keras.layers.Dense.
    """

    def __init__(self, units: int, activation: Any = None, split_input: bool = False, **named: Any) -> None:
        super().__init__(activation=activation, **named)
        self.units, self.split_input = units, split_input

    def build(self, shape: Any) -> None:
        whole = shape[-1] if self.split_input else shape[-1] * self.group.size
        rows = self.split("the length of the inputs", whole, 0)
        self.kernel = self.add_part("kernel", (whole, self.units), rows, self.kernel_initializer)
        if self.use_bias:
            self.bias = self.add_weight(name="bias", shape=(self.units,), initializer=self.bias_initializer)
        super().build(shape)

    def call(self, inputs: Any) -> Any:
        x = collectives.divide(inputs, self.group, self.shared_name + ".divide") if self.split_input else inputs
        x = tf.tensordot(x, self.kernel, 1)
        return self.finish(collectives.leave(x, self.group, self.shared_name + ".leave"))

    def of_keras(self) -> Any:
        """The same layer of Keras, with the whole kernel."""
        return tf.keras.layers.Dense(self.units, **super().get_config())

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units, "split_input": self.split_input}
