"""Proves that ranks of PyTorch hold one model, and names what a program must do where DistributedDataParallel fails."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

import numpy as np
import torch

from hpclaunch.training.model_parallel import torch_shards
from hpclaunch.training.rank.failure import TrainingError
from hpclaunch.training.rank.one_model import MADE_OTHERWISE, Held, OneModel
from hpclaunch.training.rank.world import World

UNUSED = (
    "the loss does not depend on {}, so the ranks wait for gradients that never come. Use them in the loss, set "
    "requires_grad=False for them, or give training.loop find_unused_parameters=True"
)


class Replica(torch.nn.parallel.DistributedDataParallel):
    """DistributedDataParallel that counts its calls, and explains its error about parameters without a gradient.

    options: as for DistributedDataParallel. averaging: the calls whose gradients it averages, outside no_sync.
    is_alone: whether calls are those of the model: in a validation, ranks may have different numbers of batches.
    """

    def __init__(self, model: Any, **options: Any) -> None:
        super().__init__(model, **options)
        self.calls = self.averaging = 0
        self.is_alone = False
        self._known = {id(one) for one in model.parameters()}
        self._expects_all = not (options.get("find_unused_parameters") or options.get("static_graph"))

    def forward(self, *inputs: Any, **named: Any) -> Any:
        if self.is_alone:
            return self.module(*inputs, **named)
        self.calls += 1
        self.averaging += self.require_backward_grad_sync
        try:
            return super().forward(*inputs, **named)
        except RuntimeError as error:
            if "Expected to have finished reduction" not in str(error):
                raise
            raise TrainingError(UNUSED.format("some parameters in every step")) from error

    def averages(self, parameter: Any) -> bool:
        """Whether it was a part of the model when this was made: only then its gradient is averaged."""
        return id(parameter) in self._known

    def check_gradients(self) -> None:
        """After a backward pass raise TrainingError if the loss does not depend on all parameters, but must."""
        unused = self.unused()
        if unused and self.calls and self.require_backward_grad_sync:
            raise TrainingError(UNUSED.format(_list_names(unused)))

    def unused(self) -> list[str]:
        """The parameters without a gradient, where each must have one."""
        named = self.module.named_parameters() if self._expects_all else ()
        return [name for name, one in named if one.requires_grad and one.grad is None]


MOST_NAMES = 5  # of parameters, in a message


def _list_names(names: Sequence[str]) -> str:
    return "the parameters {}{}".format(", ".join(names[:MOST_NAMES]), ", …" if names[MOST_NAMES:] else "")


class TorchProof:
    """Compares the parameters and the optimizer's state of the ranks. A collective each time.

    Buffers differ between two steps, and become those of rank 0 before they are used (torch_ranks.share_buffers).
    optimizer: None: the parameters alone.
    """

    def __init__(self, world: Any, model: Any, optimizer: Any = None) -> None:
        self._world: World = world
        self._model, self._optimizer = model, optimizer
        self._replica: Replica | None = None
        self._average: Mapping[str, Any] = {}
        device = world.torch_device
        gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
        self._proof = OneModel(world, self._cause, self._facts, gpu)

    def prove_structure(self) -> None:
        """Raise AgreedError on all ranks unless they have made the same model, with any weights."""
        held = [
            Held(name, _kind_of(one)) for name, one in self._model.state_dict(keep_vars=True).items() if _is_array(one)
        ]
        OneModel(self._world, lambda name, facts: MADE_OTHERWISE).prove(held, "when it was made")

    def watch_average(self, average: Mapping[str, Any]) -> None:
        """Compare the average of the parameters, by name, as well."""
        self._average = average

    def watch(self, replica: Replica | None) -> None:
        """Let the calls of `replica`, the model of the loop, tell the cause of a difference."""
        self._replica = replica

    def prove(self, when: str) -> None:
        """Raise AgreedError on all ranks if they differ."""
        self._proof.prove(list(self._list_held()), when)

    def _list_held(self) -> Iterator[Held]:
        ignored = set(getattr(self._model, "_ddp_params_and_buffers_to_ignore", ()))
        # Of a divided parameter no two ranks have the same part.
        found = [
            (name, one) for name, one in self._parameters() if name not in ignored and not torch_shards.is_part(one)
        ]
        for name, parameter in found:
            yield _hold("the parameter " + name, parameter)
        for name, value in self._average.items():
            if not torch_shards.is_part(value):
                yield _hold("the average of " + name, value)
        if self._optimizer is None or torch_shards.shares_state(self._optimizer):
            return
        for name, parameter in found:
            for key, value in sorted(self._optimizer.state.get(parameter, {}).items()):
                if _is_array(value):
                    yield _hold("the optimizer's {} of {}".format(key, name), value)

    @property
    def _groups(self) -> list[dict[str, Any]]:
        return [] if self._optimizer is None else list(self._optimizer.param_groups)

    def _parameters(self) -> Iterator[tuple[str, Any]]:
        """Those of the model, then those that the optimizer alone has, with their names."""
        seen = set()
        for name, one in self._model.named_parameters():
            seen.add(id(one))
            yield name, one
        others = [one for group in self._groups for one in group["params"] if id(one) not in seen]
        yield from (("number {} beside the model".format(n), one) for n, one in enumerate(others))

    def _facts(self) -> Mapping[str, Any]:
        rates = [group["lr"] for group in self._groups]
        found: dict[str, Any] = {"rates": rates, "calls": 1, "averaging": 1, "later": [], "unused": []}
        if self._replica is not None:
            later = [name for name, one in self._parameters() if not self._replica.averages(one)]
            found.update(calls=self._replica.calls, averaging=self._replica.averaging, later=later)
            found["unused"] = self._replica.unused()
        return found

    def _cause(self, name: str, facts: Sequence[Mapping[str, Any]]) -> str:
        return "Likeliest cause: " + self._words(name, facts)

    def _words(self, name: str, facts: Sequence[Mapping[str, Any]]) -> str:
        if not all(one["calls"] for one in facts):
            return (
                "the loss comes from the model itself, m(x), in place of loop.model(x): then no gradient is averaged "
                "over the ranks. Call loop.model"
            )
        if any(name.endswith(later) for one in facts for later in one["later"]):
            return (
                "it is no part of the model that training.loop was given, so its gradient is not averaged. Make the "
                "whole model before the loop, and give the optimizer its parameters alone"
            )
        unused = [own for own in facts[0]["unused"] if own not in facts[0]["later"]]
        if unused and len(unused) < sum(1 for _ in self._parameters()):  # else the program has reset all gradients
            return UNUSED.format(_list_names(unused))
        if not all(one["averaging"] for one in facts):
            return (
                "every call of loop.model is inside no_sync, so no gradient is averaged over the ranks. Leave the last "
                "call before a step of the optimizer outside"
            )
        if len({tuple(one["rates"]) for one in facts}) > 1:
            return "the optimizer has other learning rates on each rank: {}".format([one["rates"] for one in facts])
        return (
            "the program changes it by what one rank has alone (its number, its batch, random numbers), leaves out "
            "a step on some ranks, or adds gradients of the model itself, m(x), to those of loop.model(x)"
        )


def _is_array(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _kind_of(tensor: Any) -> str:
    return "{} {}".format(str(tensor.dtype).replace("torch.", ""), list(tensor.shape))


def _hold(name: str, tensor: Any) -> Held:
    return Held(name, _kind_of(tensor), lambda: _values_of(tensor))


def _values_of(tensor: Any) -> np.ndarray:
    """The values on the host; of types that NumPy lacks as float32, which has all their bits."""
    here = tensor.detach().to_dense() if tensor.is_sparse else tensor.detach()
    try:
        return np.asarray(here.cpu().numpy())
    except TypeError:
        return np.asarray(here.float().cpu().numpy())
