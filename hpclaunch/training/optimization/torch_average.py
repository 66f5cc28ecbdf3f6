"""An exponential moving average of the parameters of a model of PyTorch, defined as for Keras (weight_average)."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, Mapping

import torch


class TorchAverage:
    """The average of the parameters, by name (`tensors`), which a checkpoint must have.

    Of parameters with fewer than 32 bits it is float32: in bfloat16, mean * 0.999 is rounded back to mean. A parameter
    without a gradient stays as it is. Buffers are those of the model itself.
    """

    def __init__(self, model: Any, decay: float) -> None:
        self._model, self._decay = model, decay
        self.tensors = {name: one.detach().to(_type_of(one), copy=True) for name, one in model.named_parameters()}

    def begin(self) -> None:
        """Begin with the weights of now."""
        self._put_into(self.tensors, dict(self._model.named_parameters()))

    def step_ended(self) -> None:
        """Take the weights after a step into the average."""
        with torch.no_grad():
            for name, one in self._model.named_parameters():
                if one.requires_grad:
                    self.tensors[name].mul_(self._decay).add_(one, alpha=1 - self._decay)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """A block in which the model has the averages as its parameters."""
        weights = {name: one.detach().clone() for name, one in self._model.named_parameters()}
        self.take()
        try:
            yield
        finally:
            self._put_into(dict(self._model.named_parameters()), weights)

    def take(self) -> None:
        """Let the averages be the parameters of the model from now on."""
        self._put_into(dict(self._model.named_parameters()), self.tensors)

    @staticmethod
    def _put_into(several: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        with torch.no_grad():
            for name, one in several.items():
                one.copy_(values[name])


def _type_of(parameter: Any) -> Any:
    """The type of its average."""
    is_short = parameter.is_floating_point() and parameter.element_size() < 4
    return torch.float32 if is_short else parameter.dtype
