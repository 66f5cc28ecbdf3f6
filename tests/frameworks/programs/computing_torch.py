"""Trains a small network of convolutions, and asserts in which number format each part of a step is computed."""

import os

import numpy as np
import torch

from hpclaunch.training import on_pytorch as training

settings = training.settings(epochs=3, batch_size_per_rank=4, learning_rate=0.05)
expected = torch.bfloat16 if settings.precision == "bfloat16" else torch.float32


def mean_squared_error(model, inputs, targets):
    found = model(inputs)
    assert found.dtype == expected
    return torch.nn.functional.mse_loss(found[:, 0], targets)


with training.start(settings) as run:
    data = training.arrays(run, inputs="features", targets="price")
    layers = [torch.nn.Unflatten(1, (3, 1, 1)), torch.nn.Conv2d(3, 8, 1), torch.nn.Flatten(), torch.nn.Linear(8, 1)]
    model = torch.nn.Linear(3, 1) if os.environ.get("LINEAR") else torch.nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters(), settings.learning_rate)
    loop = training.loop(run, model, optimizer, data, validate=mean_squared_error)
    begins_step, one = True, torch.ones(1, 1)
    for inputs, targets in loop:
        if begins_step:  # what the step before has left is gone before the forward pass
            assert all(one.grad is None or not one.grad.any() for one in model.parameters())
        assert (one @ one).dtype == expected
        loss = mean_squared_error(loop.model, inputs, targets)
        if os.environ.get("PENALTY"):
            penalty = 0.1 * sum(each.square().sum() for each in model.parameters())
            if os.environ["PENALTY"] == "apart":
                penalty.backward()
            else:
                loss = loss + penalty
        assert loss.dtype == torch.float32
        loop.step(loss)
        begins_step = loop.ends_step
        assert (one @ one).dtype == torch.float32
        assert all(one.dtype == one.grad.dtype == torch.float32 and one.grad.any() for one in model.parameters())
    training.evaluate(run, model, data)
    np.savez(os.path.join(run.folder, f"final-{run.rank}.npz"), *[one.detach().numpy() for one in model.parameters()])
