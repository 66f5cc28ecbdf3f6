"""Measures the gradient noise scale of a training with PyTorch, from the buckets that DistributedDataParallel sends."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from hpclaunch.training.metrics import MetricsLog
from hpclaunch.training.optimization import noise_estimate
from hpclaunch.training.optimization.learning_rate import gradient_noise
from hpclaunch.training.optimization.noise_estimate import SPAN
from hpclaunch.training.rank.world import World


class TorchNoise:
    """Estimates B_simple = tr(Sigma) / |G|^2 as noise_scale.NoiseScale does (McCandlish 2018, arXiv 1812.06162).

    The small batch is what a rank has in a step of the optimizer, the big one that of all ranks. A loss that the
    program itself scales would change both norms.
    """

    def __init__(self, world: World, log: MetricsLog, replica: Any) -> None:
        self._world, self._log = world, log
        keep = 1 - 1 / SPAN
        device = world.torch_device  # type: ignore[attr-defined]
        self._keep = torch.tensor([keep, keep**2, *[keep] * 5, 1.0], dtype=torch.float64, device=device)
        # Of a step's weight w, noise n and norm g: w, w^2, w n, w g, w n^2, w g^2, w n g, and the number of steps.
        self._sums = torch.zeros(8, dtype=torch.float64, device=device)
        self._own: list[Any] = []  # squared norms of this step's buckets, before and after the average
        self._both: list[Any] = []
        # Without annotations, which DistributedDataParallel would compare with its own.
        replica.register_comm_hook(None, lambda state, bucket: self._average(bucket))

    def _average(self, bucket: Any) -> Any:
        """Average a bucket over the ranks, as DistributedDataParallel does without a hook."""
        gradients = bucket.buffer()
        self._own.append(_squared_norm(gradients))
        gradients.div_(self._world.size)

        def ended(future: Any) -> Any:
            (average,) = future.value()
            self._both.append(_squared_norm(average))
            return average

        return dist.all_reduce(gradients, async_op=True).get_future().then(ended)

    def step_ended(self, samples: int) -> None:
        """Count a step, after its last backward pass, with so many samples of this rank. A collective."""
        if not self._own:  # the program has not called loop.model, of which the proof of one model will tell
            return
        one = torch.stack(self._own).sum()
        dist.all_reduce(one)
        size = self._world.size
        noise, norm = gradient_noise(one / size, torch.stack(self._both).sum(), size)
        noise = noise * samples
        weight = torch.ones_like(norm)
        now = torch.stack([weight, weight, noise, norm, noise**2, norm**2, noise * norm, weight])
        self._sums = torch.where(torch.isfinite(now).all(), self._keep * self._sums + now, self._sums)
        self._own, self._both = [], []

    def report(self, epoch: int) -> None:
        """Write a line to metrics.jsonl after an epoch (from 0), and print one, on rank 0."""
        *sums, steps = self._sums.tolist()
        found = noise_estimate.estimate(sums)
        if found is not None and self._world.is_root:
            self._log.write("noise_scale", **noise_estimate.line(found, epoch + 1, int(steps)))
            print(noise_estimate.in_words(found, epoch + 1, int(steps)), flush=True)


def _squared_norm(gradients: Any) -> Any:
    # Without a copy of the bucket in float64.
    return torch.linalg.vector_norm(gradients.detach(), dtype=torch.float64) ** 2
