"""Weights of a model of PyTorch of which each rank keeps a part (FSDP2), and a part of an optimizer's state (ZeRO-1).

PyTorch's `fully_shard` makes a parameter a DTensor, which is divided along its first axis. `ZeroRedundancyOptimizer`
gives each parameter with its state to one rank.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import Any, Iterator, Mapping

import numpy as np
import torch

from hpclaunch.training.rank.failure import AgreedError

NEEDED = (
    "--shard-weights=true needs fully_shard of PyTorch 2.6 or newer, and this is {}: use another environment, or "
    "--shard-optimizer=true, which shares the optimizer's state alone"
)
OWN_OPTIMIZER = (
    "--shard-{}=true has no effect on an optimizer that the program makes before: give training.loop the one that "
    "training.optimizer(run, model) makes{}, or omit the setting"
)
NUMBERS = "--shard-weights=true cannot divide {}, which is a single number: give it the shape [1]"


def is_divided(model: Any) -> bool:
    """Whether ranks share the weights of a model."""
    return any(map(is_part, model.parameters()))


def is_part(tensor: Any) -> bool:
    """Whether a tensor is a DTensor, of which this rank has a part."""
    return hasattr(tensor, "full_tensor")


def own_part(tensor: Any) -> Any:
    """What this rank has of a tensor."""
    return tensor.to_local() if is_part(tensor) else tensor


def whole(tensor: Any) -> Any:
    """The whole tensor. A collective, if it is divided."""
    return tensor.full_tensor() if is_part(tensor) else tensor


def whole_state(model: Any, keep: bool) -> Mapping[str, Any]:
    """The state_dict with whole tensors, on the CPU, one gathered after another. A collective.

    keep: whether this rank needs it; else it is empty. Of a model that is not divided it is the state_dict itself.
    """
    state: Mapping[str, Any] = model.state_dict()
    if not is_divided(model):
        return state
    found = {}
    for name, one in state.items():
        here = whole(one)
        if keep:
            found[name] = here.cpu() if torch.is_tensor(here) else here
    return found


def divide(world: Any, model: Any) -> None:
    """Let all ranks share the weights of `model`, in place. A collective, before the optimizer is made.

    Each element of a ModuleList, or of a model that is a Sequential, is gathered for itself when it computes. A part
    is moved to its GPU when it is divided. Raises AgreedError for a PyTorch without fully_shard, and for a parameter
    without an axis.
    """
    if world.size == 1 or is_divided(model):
        return
    numbers = [name for name, one in model.named_parameters() if not one.dim()]
    if numbers:
        raise AgreedError(NUMBERS.format("the parameter " + numbers[0]), speaks=world.is_root)
    try:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        raise AgreedError(NEEDED.format(torch.__version__), speaks=world.is_root) from None
    mesh = init_device_mesh(world.torch_device.type, (world.size,))
    for block in _blocks(model):
        fully_shard(block, mesh=mesh, reshard_after_forward=True)
    # Else the weights of the model itself would stay whole after a forward pass without a backward one.
    fully_shard(model, mesh=mesh, reshard_after_forward=True)
    model.no_sync = lambda: _skip_exchange(model)


def _blocks(model: Any) -> list[Any]:
    """The parts that are gathered for themselves, the inner ones first."""
    containers = [one for one in model.modules() if isinstance(one, torch.nn.ModuleList)]
    if isinstance(model, torch.nn.Sequential):
        containers.append(model)
    several = {id(block) for one in containers for block in one if any(True for _ in block.parameters())}
    without_call = (torch.nn.ModuleList, torch.nn.ModuleDict)
    inner_first = reversed(list(model.modules()))
    return [block for block in inner_first if id(block) in several and not isinstance(block, without_call)]


@contextlib.contextmanager
def _skip_exchange(model: Any) -> Iterator[None]:
    """As no_sync of DistributedDataParallel: backward passes add to the gradients of this rank alone."""
    model.set_requires_gradient_sync(False)
    try:
        yield
    finally:
        model.set_requires_gradient_sync(True)


def share_state(optimizer: Any) -> Any:
    """The same optimizer of which each rank keeps the state of a part of the parameters. A collective."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    kind, rate = type(optimizer), optimizer.param_groups[0]["lr"]
    # The groups have all options of the optimizer, so that it can be made again of a part of them.
    return ZeroRedundancyOptimizer(optimizer.param_groups, optimizer_class=lambda groups: kind(groups, lr=rate))


def shares_state(optimizer: Any) -> bool:
    """Whether ranks share the state of an optimizer by ZeroRedundancyOptimizer."""
    return type(optimizer).__name__ == "ZeroRedundancyOptimizer"


def own_optimizer(optimizer: Any) -> Any:
    """The optimizer that updates the parameters of this rank."""
    return optimizer.optim if shares_state(optimizer) else optimizer


@dataclass(frozen=True)
class Rows:
    """What this rank keeps of an array of a checkpoint: `length` of `whole` rows along `axis` (as splits.Split)."""

    axis: int
    whole: int
    begin: int
    length: int

    def part(self, array: np.ndarray) -> np.ndarray:
        """This rank's part of the whole array."""
        return array[(slice(None),) * self.axis + (slice(self.begin, self.begin + self.length),)]


def rows_of(tensor: Any) -> Rows | None:
    """Which rows this rank has of a divided tensor; None of one that is whole, or replicated."""
    if not is_part(tensor) or tensor.placements[0].is_replicate():
        return None
    axis, ranks = tensor.placements[0].dim, tensor.device_mesh.size()
    count = tensor.shape[axis]
    # As torch.chunk divides: all parts but the last ones have the same length.
    begin = min(tensor.device_mesh.get_local_rank() * math.ceil(count / ranks), count)
    return Rows(axis, count, begin, tensor.to_local().shape[axis])


def put_together(part: Any, like: Any) -> Any:
    """The divided tensor of which this rank has `part`, divided as `like`, a DTensor."""
    from torch.distributed.tensor import DTensor

    options = {"run_check": False, "shape": like.shape, "stride": like.stride()}
    return DTensor.from_local(part.to(like.device), like.device_mesh, like.placements, **options)
