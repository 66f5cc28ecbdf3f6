"""The state of a training with PyTorch: model and optimizer as named arrays, and the random numbers of each rank."""

from __future__ import annotations

import functools
from typing import Any, Iterator, Mapping

import numpy as np
import torch

from hpclaunch.training.checkpoints import nested, random_states
from hpclaunch.training.checkpoints.plain_state import BYTES, Leaf, PlainState, name_of
from hpclaunch.training.checkpoints.state import NOTHING, Arrays, Named
from hpclaunch.training.model_parallel import torch_shards
from hpclaunch.training.rank.failure import TrainingError
from hpclaunch.training.rank.world import World

_CALCULATION = ("foreach", "fused", "capturable", "differentiable")
"""Options of optimizers that change how they calculate, and nothing that they keep."""


class TorchState(PlainState):
    """What state_dict() has of a model and its optimizer, without the optimizer's settings, which the program gives.

    A checkpoint has whole arrays, so that it fits every number of ranks, whether and how they share weights or the
    optimizer's state. A rank keeps its parts of them alone. average: of the parameters, by name, if there is one.
    """

    framework = "PyTorch"

    def __init__(
        self, world: World, seed: int, model: Any, optimizer: Any, device: Any, average: Mapping[str, Any] = NOTHING
    ) -> None:
        super().__init__(world, seed)
        self._average = average
        self._model, self._optimizer, self._device = model, optimizer, device
        self._own_optimizer = torch_shards.own_optimizer(optimizer)
        self._is_united = not torch_shards.shares_state(optimizer)

    def unite(self) -> None:
        """Let rank 0 have the state of an optimizer that ranks share. A collective."""
        if torch_shards.shares_state(self._optimizer):
            self._optimizer.consolidate_state_dict(to=0)
            self._is_united = self._world.is_root

    def shared(self, common: Mapping[str, Any] = NOTHING, keep: bool = True) -> Iterator[Named]:
        # To read an array of which each rank has a part is a collective.
        return super().shared(common, keep or torch_shards.is_divided(self._model))

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
        states = self._optimizer_states(named)
        about["optimizer"] = pack(states, "optimizer")
        if self._average:
            about["average"] = pack(dict(self._average), "average")
        about["kind"] = type(self._own_optimizer).__name__
        about["options"] = self._options()
        return arrays, about

    def _optimizer_states(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """What the optimizer keeps, by the name of the parameter; empty where this rank does not know it."""
        if not self._is_united:
            return {}
        if not torch_shards.shares_state(self._optimizer):
            return {name: self._optimizer.state[one] for name, one in named.items() if one in self._optimizer.state}
        states, names = self._optimizer.state_dict()["state"], list(named)
        return {names[number]: one for number, one in states.items() if one is not None}

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
        kind = type(self._own_optimizer).__name__
        if there["kind"] != kind:
            return "it was saved with {}, not {}".format(there["kind"], kind)
        here = [_leaf(*pair).words for pair in self._pack()[0] if not pair[0].startswith("optimizer.")]
        arrays = [one for one in there["arrays"] if not one[0].startswith("optimizer.")]
        return self.first_difference(arrays, here) or _other_options(there["options"], self._options())

    def splits(self) -> dict[str, Any]:
        found = {}
        for number, like in enumerate(self._divided_as(self._found["arrays"])):
            rows = torch_shards.rows_of(like)
            if rows is not None:
                found[name_of(number)] = rows
        return found

    def _divided_as(self, described: list[Any]) -> list[Any]:
        """For each array of a checkpoint, the tensor as which its ranks divide it; None: they do not."""
        named, model = self._parameters(), dict(self._model.state_dict())
        found = []
        for path, _, shape in described:
            kind, _, name = path.partition(".")
            # The state of an optimizer has a name of its own after that of the parameter.
            like = model.get(name) if kind == "model" else named.get(name, named.get(name.rpartition(".")[0]))
            fits = like is not None and torch_shards.is_part(like) and list(like.shape) == shape
            found.append(like if fits else None)
        return found

    def put(self, arrays: list[np.ndarray], about: Mapping[str, Any]) -> None:
        described = about["arrays"]
        tensors = [
            _tensor(array, kind, shape) if like is None else _part_tensor(array, kind, like)
            for array, (_, kind, shape), like in zip(arrays, described, self._divided_as(described))
        ]
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
        own = self._own_optimizer  # has the parameters whose state this rank keeps, in an order of its own
        names = {id(one): name for name, one in named.items()}
        flat = [names[id(one)] for group in own.param_groups for one in group["params"]]
        state = {number: states[name] for number, name in enumerate(flat) if name in states}
        own.load_state_dict({**own.state_dict(), "state": state})
        for name in flat:
            if name in states:
                _keep_types(own.state[named[name]], states[name])

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
    if name == "momentum":  # of which only is known whether there is one
        return "above 0" if value else "0"
    return str(value)


def _leaf(name: str, tensor: Any) -> Leaf:
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise TrainingError("a checkpoint cannot hold {}: it is sparse or quantized".format(name))
    dtype = str(tensor.dtype).split(".")[-1]
    return Leaf(name, dtype, tuple(tensor.shape), functools.partial(_array, tensor, dtype))


def _array(tensor: Any, dtype: str) -> np.ndarray:
    own = torch_shards.whole(tensor.detach()).cpu().contiguous()
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


def _part_tensor(array: np.ndarray, dtype: str, like: Any) -> Any:
    """The divided tensor of this rank's part of an array of a checkpoint."""
    part = _tensor(array, dtype, list(torch_shards.own_part(like).shape))
    return torch_shards.put_together(part, like)


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
