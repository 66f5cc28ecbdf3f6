"""Trains on a Dataset of its own, with augmentation that draws from Python, NumPy and PyTorch, and with dropout.

loading_torch.py --workers=N --die-after=N: the batch of this attempt after which the last rank dies (0: never). Every
rank writes the numbers of its samples by epoch to read-RANK.json, and its weights to final-RANK.npz.
"""

import json
import os
import random
import signal

import numpy as np
import torch

from hpclaunch.training import on_pytorch as training

settings = training.settings(
    epochs=3,
    batch_size_per_rank=3,
    learning_rate=0.05,
    checkpoint_steps=2,
    count={"default": 31, "help": "samples for the training"},
    workers={"default": 0, "help": "processes that read"},
    die_after={"default": 0, "help": "the batch of this attempt after which the last rank dies"},
)


class Houses(torch.utils.data.Dataset):
    """Samples with their number as the last input; those for the test are never changed."""

    def __init__(self, count, changes):
        draw = np.random.default_rng(5)
        self.features, self.changes = draw.normal(size=(count, 3)).astype(np.float32), changes
        self.price = self.features @ np.array([1.0, -2.0, 0.5], np.float32)

    def __len__(self):
        return len(self.price)

    def __getitem__(self, number):
        noise = (random.random() + np.random.rand() + float(torch.rand(1)) - 1.5) * self.changes
        return {"features": self.features[number] + np.float32(noise), "number": number}, self.price[number]


def mean_squared_error(model, inputs, targets):
    return (model(inputs["features"])[:, 0] - targets).square().mean()


with training.start(settings) as run:
    data = training.loader(run, Houses(settings.count, 0.1), test=Houses(7, 0.0), workers=settings.workers)
    model = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), settings.learning_rate)
    loop = training.loop(run, model, optimizer, data, validate=mean_squared_error)
    read = []
    for made, (inputs, targets) in enumerate(loop, 1):
        read.append((inputs["number"].tolist(), inputs["features"].sum().item()))
        loop.step(mean_squared_error(loop.model, inputs, targets))
        if made == settings.die_after and run.rank == run.size - 1:
            os.kill(os.getpid(), signal.SIGKILL)
    with open(os.path.join(run.folder, f"read-{run.rank}.json"), "w") as file:
        json.dump(read, file)
    np.savez(os.path.join(run.folder, f"final-{run.rank}.npz"), *[one.detach().numpy() for one in model.parameters()])

    class Features(torch.nn.Module):
        def forward(self, inputs):
            return model(inputs["features"])

    training.evaluate(run, Features(), data)
