"""Ranks of PyTorch: their start with torch.distributed, and how they agree on a value."""

from __future__ import annotations

import atexit
import datetime
import gc
import os
import sys
import time
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from hpclaunch.training.checkpoints import random_states
from hpclaunch.training.input.shards import stream_seed
from hpclaunch.training.rank import allocator, own_place, placement, stopping, watch
from hpclaunch.training.rank.world import World

YIELD_S = 0.25

DEFAULT_TIMEOUT_S = 1800.0  # of torch.distributed, for Gloo

_own_groups: list[Any] = []
"""The groups of the library's own collectives, which no model holds, so that `_end` can destroy them at any time: one
for the main thread, and one for the thread of watch.Rounds."""


@dataclass(frozen=True)
class TorchWorld(World):
    """The place of a rank among those of torch.distributed. torch_device: of its model and its batches."""

    torch_device: Any = None

    def _gather_values(self, value: Any, name: str | None = None) -> list[Any]:
        values: list[Any] = [None] * self.size
        # Ranks agree on the order of the collectives of a group, so each thread needs a group of its own.
        dist.all_gather_object(values, value, group=_own_groups[1 if name else 0])
        return values


def start(job: str, seed: int, stall_minutes: float = 0.0) -> TorchWorld:
    """Start this rank: its threads, its GPU or the CPU, and the process group (NCCL between GPUs, else Gloo).

    seed: of all random numbers, the same on all ranks, until the loop begins. stall_minutes: end the run when it has
    not progressed for so long (rank.watch), from now to its end; 0: never.
    Raises TrainingError if a promised GPU is missing, or ranks would share one.
    """
    stopping.watch()
    place = own_place.place(os.environ, job)
    torch.set_num_threads(place["threads"])
    gpus = torch.cuda.device_count()
    own_place.check_gpus(os.environ, gpus, "PyTorch")
    bound = placement.is_bound(os.environ, place["local_rank"])
    choice = placement.choose_gpu(gpus, place["local_rank"], place["local_size"], bound)
    device = torch.device("cpu") if choice.index is None else torch.device("cuda", choice.index)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    else:
        allocator.keep_freed()
    world = TorchWorld(**place, device=choice.why, torch_device=device)
    if world.size > 1:
        _begin("gloo" if choice.index is None else "nccl", stall_minutes * 60)
    watch.begin(stall_minutes * 60)
    torch.manual_seed(seed)
    random_states.seed(stream_seed(seed, "weights"))
    world.together(lambda: os.makedirs(world.run_dir, exist_ok=True))
    return world


def _begin(backend: str, stall_s: float) -> None:
    # A rank that hangs is reported by the watch, not by a collective that is over its time.
    timeout = datetime.timedelta(seconds=max(DEFAULT_TIMEOUT_S, 2 * stall_s))
    dist.init_process_group(backend, init_method="env://", timeout=timeout)
    for _ in range(2 if stall_s else 1):  # values are gathered through the host's memory
        _own_groups.append(dist.new_group(backend="gloo", timeout=timeout))
    atexit.register(_end)


def _end() -> None:
    """Destroy the process groups while Python still runs.

    Gloo's worker threads hold the tensors of the last collective for a moment, and need Python's lock to free them. A
    thread that waits for it when the interpreter ends aborts the process: "terminate called without an active
    exception", exit code 134 (pytorch/pytorch 179291). Destroying a group waits for its threads, but for no other rank.
    """
    if hasattr(sys, "last_value"):  # this rank has failed, and ends at once
        return
    _own_groups.clear()
    gc.collect()  # a model in DistributedDataParallel may be part of a circle, and holds its group
    time.sleep(YIELD_S)  # threads of a group that a model still holds have Python's lock for this time
    dist.destroy_process_group()


def share_buffers(world: World, model: Any) -> None:
    """Give every rank rank 0's buffers, such as batch norm's running mean and variance. A collective.

    DistributedDataParallel does so before each call of the model, and then every rank changes its own. So it is done
    once more before the model is evaluated or saved: both then are the same model.
    """
    buffers = list(model.buffers())
    if world.size > 1 and buffers:
        with torch.no_grad():
            for buffer in buffers:
                dist.broadcast(buffer, src=0)
