"""A stranger's program of PyTorch: a linear model on arrays of its own."""

import torch

from hpclaunch.training import on_pytorch as training

settings = training.settings(epochs=20, batch_size_per_rank=10, learning_rate=0.1, decay="cosine")
with training.start(settings) as run:
    data = training.arrays(run, inputs="features", targets="price")
    model = torch.nn.Linear(3, 1)
    loop = training.loop(run, model, torch.optim.Adam(model.parameters(), settings.learning_rate), data)
    for inputs, targets in loop:
        loop.step(torch.nn.functional.mse_loss(loop.model(inputs)[:, 0], targets))
    training.evaluate(run, model, data)
