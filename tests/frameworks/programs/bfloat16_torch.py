"""Trains weights of bfloat16, and keeps them after each step, with their average and what the model has at the end.

--stop-after=3: this attempt fails after three steps. All arithmetic but that of the average is in float64.
"""

import os

import numpy as np
import torch

from hpclaunch.training import on_pytorch as training

settings = training.settings(stop_after={"default": 0, "help": "the steps of this attempt; 0: all"})


def mean_squared_error(model, inputs, targets):
    return (inputs @ model.weight[0].double() + model.bias[0].double() - targets).square().mean()


def flat(tensors):
    return np.concatenate([one.detach().double().numpy().ravel() for one in tensors])


with training.start(settings) as run:
    data = training.arrays(run)
    model = torch.nn.Linear(3, 1).bfloat16()
    with torch.no_grad():
        for one in model.parameters():
            one.fill_(1.0)
    optimizer = torch.optim.SGD(model.parameters(), settings.learning_rate)
    loop = training.loop(run, model, optimizer, data, validate=mean_squared_error)
    weights = [flat(model.parameters())]
    for inputs, targets in loop:
        if 0 < settings.stop_after < len(weights):
            raise RuntimeError("the attempt ends here")
        loop.step(mean_squared_error(model, inputs, targets))
        weights.append(flat(model.parameters()))
    assert {one.dtype for one in model.parameters()} == {torch.bfloat16}
    path = os.path.join(run.folder, "made.npz")
    np.savez(path, weights=weights, mean=flat(loop._average.tensors.values()), final=flat(model.parameters()))
