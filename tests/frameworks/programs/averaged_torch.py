"""Trains a linear model of float64 and averages its weights; --stop-after=3: this attempt fails after three steps.

--astray=true: the average of rank 1 becomes another one.
"""

import os

import numpy as np
import torch

from hpclaunch.training import on_pytorch as training

settings = training.settings(
    stop_after={"default": 0, "help": "the steps of this attempt; 0: all"},
    astray={"default": False, "help": "whether the average of rank 1 changes by itself after the first step"},
)


def mean_squared_error(model, inputs, targets):
    return (model(inputs)[:, 0] - targets).square().mean()


with training.start(settings) as run:
    data = training.arrays(run)
    model = torch.nn.Linear(3, 1).double()
    with torch.no_grad():
        for one in model.parameters():
            one.zero_()
    optimizer = torch.optim.SGD(model.parameters(), settings.learning_rate)
    loop = training.loop(run, model, optimizer, data, validate=mean_squared_error)
    made = 0
    for inputs, targets in loop:
        if 0 < settings.stop_after == made:
            raise RuntimeError("the attempt ends here")
        if settings.astray and made == run.rank == 1:
            loop._average.tensors["weight"][0, 1] += 0.5
        made += loop.ends_step
        loop.step(mean_squared_error(loop.model, inputs, targets))
    training.evaluate(run, model, data)
    final = np.concatenate([one.detach().numpy().ravel() for one in model.parameters()])
    np.savez(os.path.join(run.folder, f"final-{run.rank}.npz"), final=final)
