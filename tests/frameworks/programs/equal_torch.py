"""Trains a network in float64 on arrays, as the settings say; rank 0 writes its weights to final.npz."""

import os

import numpy as np
import torch

from hpclaunch.training import on_pytorch as training

settings = training.settings(
    epochs=3,
    learning_rate=0.05,
    clipped={"default": False, "help": "whether the program makes backward and step itself"},
)


def mean_squared_error(model, inputs, targets):
    return torch.nn.functional.mse_loss(model(inputs)[:, 0], targets)


with training.start(settings) as run:
    data = training.arrays(run, inputs="features", targets="price")
    model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
    optimizer = torch.optim.SGD(model.parameters(), settings.learning_rate, momentum=0.5)
    loop = training.loop(run, model, optimizer, data, validate=mean_squared_error)
    for inputs, targets in loop:
        loss = mean_squared_error(loop.model, inputs, targets)
        if not settings.clipped:
            loop.step(loss)
            continue
        (loss * loop.share).backward()
        if loop.ends_step:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1e6)
            optimizer.step()
            optimizer.zero_grad()
        loop.made(loss)
    training.evaluate(run, model, data)
    if run.is_root:
        weights = {name: one.detach().numpy() for name, one in model.named_parameters()}
        counts = [getattr(loop.model, name, 0) for name in ("calls", "averaging")]
        np.savez(os.path.join(run.folder, "final.npz"), counts=counts, **weights)
