"""Trains a linear model, measures its gradient noise scale, and computes it once more by hand: RUN/by-hand.json."""

import dataclasses
import json
import os

import numpy as np
import torch

from hpclaunch.training import on_pytorch as training
from hpclaunch.training.optimization.noise_estimate import estimate


def train(run):
    """What is expected of each epoch, from the gradients of all ranks in NumPy."""
    data = training.arrays(run, inputs="features", targets="price")
    model = torch.nn.Linear(3, 1, bias=False).double()
    torch.nn.init.constant_(model.weight, 0.5)
    loop = training.loop(run, model, torch.optim.SGD(model.parameters(), run.settings.learning_rate), data)
    keep, sums, own, found = 0.999, np.zeros(7), [], []
    for inputs, targets in loop:
        own.append((inputs.numpy(), targets.numpy()))
        if loop.ends_step:
            weights = model.weight.detach().numpy()[0].copy()
            batches = [tuple(map(np.concatenate, zip(*parts, strict=True))) for parts in run.world.gather(own)]
            slopes = [2 / len(y) * x.T @ (x @ weights - y) for x, y in batches]
            one, both = np.mean([slope @ slope for slope in slopes]), np.mean(slopes, axis=0) @ np.mean(slopes, axis=0)
            noise, norm = (one - both) * 2 * sum(len(y) for _, y in own), 2 * both - one
            now = np.array([1, 1, noise, norm, noise**2, norm**2, noise * norm])
            sums = np.array([keep, keep**2, *[keep] * 5]) * sums + now
            own = []
            found.append(estimate(sums))
        loop.step(torch.nn.functional.mse_loss(loop.model(inputs)[:, 0], targets))
    return [dataclasses.asdict(found[step]) for step in range(data.steps - 1, len(found), data.steps)]


if __name__ == "__main__":
    asked = training.settings(epochs=3, batch_size_per_rank=4, learning_rate=0.05, noise_scale=True)
    with training.start(asked) as this_run:
        expected = train(this_run)
        if this_run.is_root:
            with open(os.path.join(this_run.folder, "by-hand.json"), "w") as file:
                json.dump(expected, file)
