"""The pair of convolutions that several ranks share: the first divides its filters, the second its input channels."""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow as tf

from hpclaunch.training.layers.parallel import ParallelUnits
from hpclaunch.training.model_parallel import collectives


class _ParallelConv2D(ParallelUnits):
    """kernel_size, strides: one number or two. padding: valid or same. Images are [b, height, width, channels]."""

    def __init__(
        self,
        filters: int,
        kernel_size: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        padding: str = "valid",
        **named: Any,
    ) -> None:
        super().__init__(**named)
        self.filters, self.padding = filters, padding
        self.kernel_size, self.strides = _two(kernel_size), _two(strides)

    def convolve(self, x: Any) -> Any:
        """The convolution with this rank's part of the kernel."""
        return tf.nn.conv2d(x, self.kernel, list(self.strides), self.padding.upper())

    def of_keras(self) -> Any:
        """The same layer of Keras, with the whole kernel."""
        return tf.keras.layers.Conv2D(**self.get_config())

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "filters": self.filters,
            "kernel_size": self.kernel_size,
            "strides": self.strides,
            "padding": self.padding,
        }


class ColumnParallelConv2D(_ParallelConv2D):
    """A convolution whose filters are divided among the ranks: [b, h, w, c] becomes [b, h', w', filters / ranks].

    The next layer that mixes channels must be a RowParallelConv2D. Between them are layers that treat each channel by
    itself: activations, pooling, ParallelBatchNormalization, ParallelDropout. Arguments are those of Conv2D.
    """

    def build(self, shape: Any) -> None:
        whole = (*self.kernel_size, shape[-1], self.filters)
        self.kernel = self.add_part("kernel", whole, self.split("filters", self.filters, 3), self.kernel_initializer)
        if self.use_bias:
            own = self.split("filters", self.filters, 0)
            self.bias = self.add_part("bias", (self.filters,), own, self.bias_initializer)
        super().build(shape)

    def call(self, inputs: Any) -> Any:
        return self.finish(self.convolve(collectives.enter(inputs, self.group, self.shared_name + ".enter")))


class RowParallelConv2D(_ParallelConv2D):
    """A convolution whose input channels are divided among the ranks: [b, h, w, c / ranks] to [b, h', w', filters].

    Its inputs come from a ColumnParallelConv2D. The bias is added once, to the sum. Arguments are those of Conv2D.
    """

    def build(self, shape: Any) -> None:
        channels = shape[-1] * self.group.size
        whole = (*self.kernel_size, channels, self.filters)
        self.kernel = self.add_part("kernel", whole, self.split("channels", channels, 2), self.kernel_initializer)
        if self.use_bias:
            self.bias = self.add_weight(name="bias", shape=(self.filters,), initializer=self.bias_initializer)
        super().build(shape)

    def call(self, inputs: Any) -> Any:
        return self.finish(collectives.leave(self.convolve(inputs), self.group, self.shared_name + ".leave"))


def _two(sizes: int | Sequence[int]) -> tuple[int, ...]:
    return (sizes, sizes) if isinstance(sizes, int) else tuple(sizes)
