"""Gives the loop an optimizer that computes the loss several times in a step."""

import torch

from hpclaunch.training import on_pytorch as training

settings = training.settings(learning_rate=0.05)
with training.start(settings) as run:
    data = training.arrays(run, inputs="features", targets="price")
    model = torch.nn.Linear(3, 1)
    training.loop(run, model, torch.optim.LBFGS(model.parameters(), lr=settings.learning_rate), data)
