"""Trains with PyTorch, --case: norm (batch norm), binary (one score for two classes), diverging (NaN in epoch 2)."""

import json
import os

import numpy as np
import torch

from hpclaunch.training import on_pytorch as training
from hpclaunch.training.checkpoints import folders

settings = training.settings(
    epochs=2,
    batch_size_per_rank=8,
    learning_rate=0.05,
    case={"default": "norm", "help": "norm, binary or diverging"},
)


def network():
    layers = [torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1)]
    return torch.nn.Sequential(*layers) if settings.case == "norm" else torch.nn.Linear(3, 1)


def loss_of(scores, targets):
    if settings.case == "binary":
        return torch.nn.functional.binary_cross_entropy_with_logits(scores[:, 0], targets.float())
    return torch.nn.functional.mse_loss(scores[:, 0], targets)


def of_checkpoint(path):
    """The mean absolute error of the saved model on all test samples, in one process."""
    model = network()
    named = folders.facts_of(path)["content"]["arrays"]
    with np.load(os.path.join(path, folders.SHARED)) as arrays:
        held = {name: torch.from_numpy(arrays[f"array-{number:05d}"]) for number, (name, _, _) in enumerate(named)}
    model.load_state_dict({name: held["model." + name] for name in model.state_dict()})
    model.eval()
    with np.load(settings.data_dir) as file:
        inputs, targets = torch.from_numpy(file["features_test"]), file["price_test"]
    with torch.no_grad():
        return float(np.abs(model(inputs)[:, 0].numpy() - targets).mean())


with training.start(settings) as run:
    data = training.arrays(run, inputs="features", targets="price")
    model = network()
    model_in_eval = torch.nn.Dropout(0.5).eval()  # a part that the program itself has set so
    model.add_module("own", model_in_eval)
    loop = training.loop(run, model, torch.optim.SGD(model.parameters(), settings.learning_rate), data)
    sums = [0.0, 0]
    for made, (inputs, targets) in enumerate(loop):
        loss = loss_of(loop.model(inputs), targets)
        if settings.case == "diverging" and made >= data.steps and run.rank == run.size - 1:
            loss = loss * float("nan")
        if made < data.steps:  # the first epoch
            sums[0] += float(loss) * len(targets)
            sums[1] += len(targets)
        loop.step(loss)
    training.evaluate(run, loop.model, data)
    modes = [model.training, model[0].training if settings.case == "norm" else True, model_in_eval.training]
    found = {"sums": run.world.gather(sums), "modes": modes}
    if run.is_root:
        folder = os.path.join(run.folder, "checkpoints")
        name = max(os.listdir(folder))
        if settings.case == "norm":
            found["saved"] = of_checkpoint(os.path.join(folder, name))
        with open(os.path.join(run.folder, "found.json"), "w") as file:
            json.dump(found, file)
