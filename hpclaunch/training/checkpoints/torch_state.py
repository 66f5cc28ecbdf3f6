"""The state of a training with PyTorch: model and optimizer as named arrays, and the random numbers of each rank."""

from __future__ import annotations

import functools
from typing import Any, Mapping

import numpy as np
import torch

from hpclaunch.training.checkpoints import nested, random_states
from hpclaunch.training.checkpoints.plain_state import BYTES, Leaf, PlainState
from hpclaunch.training.checkpoints.state import NOTHING, Arrays
from hpclaunch.training.rank.failure import TrainingError
from hpclaunch.training.rank.world import World

_CALCULATION = ("foreach", "fused", "capturable", "differentiable")
"""Options of optimizers that change how they calculate, and nothing that they keep."""


class TorchState(PlainState):
    """What state_dict() has of a model and its optimizer, without the optimizer's settings, which the program gives.

    average: of the parameters, by name, if there is one.
    """

    framework = "PyTorch"

    def __init__(
        self, world: World, seed: int, model: Any, optimizer: Any, device: Any, average: Mapping[str, Any] = NOTHING
    ) -> None:
        super().__init__(world, seed)
        self._average = average
        self._model, self._optimizer, self._device = model, optimizer, device

    def leaves(self) -> list[Leaf]:
        arrays, _ = self._pack()
        return [_leaf(*pair) for pair in arrays]

    def about(self) -> dict[str, Any]:
        return self._pack()[1]

    def _pack(self) -> tuple[nested.Places, dict[str, Any]]:
        """The tensors, with their paths, and the rest for JSON; the optimizer has its parameters by name."""
        arrays: nested.Places = []
        pack = functools.partial(nested.packed, is_array=torch.is_tensor, arrays=arrays)
        named = self._parameters()
        model = dict(self._model.state_dict())
        about = {"model": pack(model, "model")}
        # Parameters that no module has, such as a temperature of the loss, are known to the optimizer alone.
        others = {name: one.detach() for name, one in named.items() if name.startswith(_OTHER)}
        about["others"] = pack(others, "parameters")
        states = {name: self._optimizer.state[one] for name, one in named.items() if one in self._optimizer.state}
        about["optimizer"] = pack(states, "optimizer")
        if self._average:
            about["average"] = pack(dict(self._average), "average")
        about["kind"] = type(self._optimizer).__name__
        about["options"] = self._options()
        return arrays, about

    def _parameters(self) -> dict[str, Any]:
        """The parameters of the optimizer by name, in the order of its groups."""
        names = {id(parameter): name for name, parameter in self._model.named_parameters()}
        flat = [one for group in self._optimizer.param_groups for one in group["params"]]
        return {names.get(id(one), "{}{}".format(_OTHER, number)): one for number, one in enumerate(flat)}

    def _options(self) -> dict[str, Any]:
        """Of each parameter, the options that decide what the optimizer keeps for it: True, False, or a momentum."""
        found, names = {}, iter(self._parameters())
        for group in self._optimizer.param_groups:
            chosen = {name: value for name, value in group.items() if isinstance(value, bool)}
            chosen = {name: value for name, value in chosen.items() if name not in _CALCULATION}
            if "momentum" in group:
                chosen["momentum"] = bool(group["momentum"])
            for _ in group["params"]:
                found[next(names)] = chosen
        return found

    def difference(self, there: Mapping[str, Any]) -> str:
        kind = type(self._optimizer).__name__
        if there["kind"] != kind:
            return "it was saved with {}, not {}".format(there["kind"], kind)
        here = [_leaf(*pair).words for pair in self._pack()[0] if not pair[0].startswith("optimizer.")]
        arrays = [one for one in there["arrays"] if not one[0].startswith("optimizer.")]
        return self.first_difference(arrays, here) or _other_options(there["options"], self._options())

    def put(self, arrays: list[np.ndarray], about: Mapping[str, Any]) -> None:
        described = about["arrays"]
        tensors = [_tensor(array, *one[1:]) for array, one in zip(arrays, described)]
        model, named = self._model.state_dict(), self._parameters()
        metadata = getattr(model, "_metadata", None)
        model.update(nested.unpacked(about["model"], tensors))
        if metadata is not None:
            model._metadata = metadata
        self._model.load_state_dict(model)
        with torch.no_grad():
            for name, value in nested.unpacked(about["others"], tensors).items():
                named[name].copy_(value)
            for name, value in self._average.items():
                value.copy_(nested.unpacked(about["average"], tensors)[name])
        states = nested.unpacked(about["optimizer"], tensors)
        numbers = {name: number for number, name in enumerate(named)}
        state = {numbers[name]: one for name, one in states.items()}
        self._optimizer.load_state_dict({**self._optimizer.state_dict(), "state": state})
        for name, one in self._parameters().items():
            _keep_types(self._optimizer.state[one] if name in states else {}, states.get(name, {}))

    def random(self) -> Arrays:
        found = {**random_states.states(), "random-torch": torch.get_rng_state().numpy()}
        if self._device.type == "cuda":
            found["random-cuda"] = torch.cuda.get_rng_state(self._device).numpy()
        return found

    def put_random(self, arrays: Arrays) -> None:
        random_states.put(arrays)
        torch.set_rng_state(torch.from_numpy(np.array(arrays["random-torch"])))
        if self._device.type == "cuda":
            torch.cuda.set_rng_state(torch.from_numpy(np.array(arrays["random-cuda"])), self._device)

    def seed_random(self, number: int) -> None:
        random_states.seed(number)
        torch.manual_seed(number)


_OTHER = "parameter-"


def _other_options(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    for name in [*there, *here]:
        if name not in here or name not in there:
            where = ("there", "here") if name in there else ("here", "there")
            return "its optimizer trains {}, but not {}: {}".format(*where, name)
        for option in sorted({*there[name], *here[name]}):
            then, now = (_option(one[name], option) for one in (there, here))
            if then != now:
                return "its optimizer has {} {} for {}, but here it is {}".format(option, then, name, now)
    return ""


def _option(options: Mapping[str, Any], name: str) -> str:
    value = options.get(name, False)
    return ("above 0" if value else "0") if name == "momentum" else str(value)


def _leaf(name: str, tensor: Any) -> Leaf:
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise TrainingError("a checkpoint cannot hold {}: it is sparse or quantized".format(name))
    dtype = str(tensor.dtype).split(".")[-1]
    return Leaf(name, dtype, tuple(tensor.shape), functools.partial(_array, tensor, dtype))


def _array(tensor: Any, dtype: str) -> np.ndarray:
    own = tensor.detach().cpu().contiguous()
    if _is_of_numpy(dtype):
        return own.numpy()
    size = own.element_size()
    return own.reshape(-1).view(torch.uint8).numpy().view(BYTES[size]).reshape(own.shape)


def _tensor(array: np.ndarray, dtype: str, shape: list[int]) -> Any:
    """The tensor of an array of a checkpoint. Raises TrainingError if it is not what the manifest says."""
    wanted = np.dtype(dtype) if _is_of_numpy(dtype) else np.dtype(BYTES.get(array.dtype.itemsize, np.uint8))
    kind = getattr(torch, dtype, None)
    if array.dtype != wanted or list(array.shape) != shape or not isinstance(kind, torch.dtype):
        raise TrainingError(
            "an array of the checkpoint is {} {}, not {} {}".format(array.dtype, array.shape, dtype, shape)
        )
    own = torch.from_numpy(np.array(array).reshape(-1).view(np.uint8))
    return own.view(kind).reshape(shape)


def _is_of_numpy(dtype: str) -> bool:
    try:
        return np.dtype(dtype).kind in "biufc"
    except TypeError:
        return False


def _keep_types(state: Any, saved: Any) -> None:
    """Put tensors back whose type PyTorch has changed to that of their parameter, which would round them."""
    for key, value in saved.items():
        now = state.get(key)
        if torch.is_tensor(value) and torch.is_tensor(now) and now.dtype != value.dtype:
            state[key] = value.to(now.device)
