"""Trains with DistributedDataParallel, --case: in_step, in_own_step (with unused parameters), options (that work)."""

import contextlib
import json
import os
import shutil

import torch

from hpclaunch.training import on_pytorch as training

settings = training.settings(
    epochs=1, batch_size_per_rank=8, learning_rate=0.05, case={"default": "options", "help": "see the program"}
)


class Network(torch.nn.Module):
    def __init__(self, spare):
        super().__init__()
        torch.manual_seed(1)
        self.used = torch.nn.Linear(3, 1)
        if spare:
            self.spare = torch.nn.Linear(3, 1)

    def forward(self, inputs):
        return self.used(inputs)[:, 0]


def train(spare=False, parts=0, **options):
    """The weights after training. parts: of a batch, whose gradients are added; 0: `step` makes the step."""
    model = Network(spare)
    optimizer = torch.optim.SGD(model.parameters(), settings.learning_rate)
    loop = training.loop(run, model, optimizer, data, **options)
    for inputs, targets in loop:
        if not parts:
            loop.step(torch.nn.functional.mse_loss(loop.model(inputs), targets))
            continue
        optimizer.zero_grad()
        pieces = list(zip(inputs.chunk(parts), targets.chunk(parts), strict=True))
        for number, (some, wanted) in enumerate(pieces, 1):
            waits = loop.model.no_sync() if number < len(pieces) else contextlib.nullcontext()
            with waits:
                loss = ((loop.model(some) - wanted) ** 2).sum() / len(targets)
                loss.backward()
        optimizer.step()
        loop.made(loss)
    return [value for name, one in model.named_parameters() if "spare" not in name for value in one.flatten().tolist()]


class Apart:
    """The run directory of one training, so that the next begins anew."""

    def __enter__(self):
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            if run.is_root:
                shutil.rmtree(os.path.join(folder, name))
        run.world.gather(None)

    def __exit__(self, *error):
        run.world.gather(None)


with training.start(settings) as run:
    folder = os.path.join(run.folder, "checkpoints")
    data = training.arrays(run, inputs="features", targets="price")
    if settings.case != "options":
        train(spare=True, parts=1 if settings.case == "in_own_step" else 0)
    ways = {
        "usual": {},
        "view": {"gradient_as_bucket_view": True},
        "static": {"static_graph": True},
        "unused": {"spare": True, "find_unused_parameters": True},
        "whole": {"parts": 1},
        "accumulated": {"parts": 3},
    }
    found = {}
    for name, options in ways.items():
        with Apart():
            found[name] = train(**options)
    if run.is_root:
        with open(os.path.join(run.folder, "found.json"), "w") as file:
            json.dump(found, file)
