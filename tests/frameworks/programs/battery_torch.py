"""Trains the cases of battery.py with PyTorch on two ranks and in one process, there mostly by hand, in NumPy."""

import functools

import numpy as np
import torch

from hpclaunch.training import on_pytorch as training
from tests.frameworks.programs import battery, formulas

OPTIMIZERS = {
    "sgd": torch.optim.SGD,
    "momentum": functools.partial(torch.optim.SGD, momentum=0.9),
    "nesterov": functools.partial(torch.optim.SGD, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": torch.optim.Adam,
    "adamw": functools.partial(torch.optim.AdamW, weight_decay=0.1),
    "amsgrad": functools.partial(torch.optim.Adam, amsgrad=True),
    "adamax": torch.optim.Adamax,
    "adagrad": torch.optim.Adagrad,
    "adadelta": torch.optim.Adadelta,
    "rmsprop": functools.partial(torch.optim.RMSprop, centered=True, momentum=0.5),
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
    "rprop": torch.optim.Rprop,
    "asgd": torch.optim.ASGD,
}
OF_SETTINGS = {
    "lamb": ("--optimizer=lamb", "--weight-decay=0.01"),
    "lars": ("--optimizer=lars", "--weight-decay=0.01"),
    "muon": ("--optimizer=muon", "--weight-decay=0.1", "--muon-weights=matrices"),
}


class Network(torch.nn.Module):
    """tanh(inputs @ first) @ last; `spare` is in no loss, or in those of some batches alone."""

    def __init__(self, case):
        super().__init__()
        self.first, self.last = torch.nn.Linear(3, 8, bias=False), torch.nn.Linear(8, 1, bias=False)
        self.case = case
        if case in ("unused", "sometimes"):
            self.spare = torch.nn.Linear(3, 1)
            torch.nn.init.constant_(self.spare.weight, 0.5)
            torch.nn.init.constant_(self.spare.bias, 0.5)
        self.to(getattr(torch, battery.parts_of(case)[2]))
        with torch.no_grad():
            for name, one in formulas.begin(np.float64).items():
                getattr(self, name).weight.copy_(torch.from_numpy(one.T))
        self.first.requires_grad_(case != "frozen")

    def forward(self, inputs):
        found = self.last(torch.tanh(self.first(inputs)))
        if self.case == "sometimes" and inputs[0, 0] > 0:
            found = found + self.spare(inputs)
        return found[:, 0]

    def optimizer(self):
        return OPTIMIZERS[battery.parts_of(self.case)[0]](self.parameters(), formulas.BASE)

    def arrays(self):
        return {name.replace(".weight", ""): one.detach().numpy().T.copy() for name, one in self.named_parameters()}


def loss_of(model, inputs, targets):
    dtype = next(iter(model.parameters())).dtype
    return (model(inputs.to(dtype)) - targets.to(dtype)).square().mean()


def train(run, case, stop):
    data = training.arrays(run, inputs="features", targets="price")
    model = Network(case)
    some = case in ("unused", "sometimes")
    ours = battery.parts_of(case)[0] in OF_SETTINGS
    optimizer = training.optimizer(run, model) if ours else model.optimizer()
    loop = training.loop(run, model, optimizer, data, find_unused_parameters=some)
    batches, rates, parts = [], [], []
    for inputs, targets in loop:
        parts.append((inputs.numpy(), targets.numpy()))
        if loop.ends_step:  # with accumulation, after several batches
            batches.append(battery.joined(parts))
            rates.append(loop.learning_rate)
            parts = []
        loop.step(loss_of(loop.model, inputs, targets))
        if stop and len(batches) == stop:
            break
    return model.arrays(), batches, rates


def alone(case, steps):
    """One process: by hand where there is a formula, else PyTorch's own optimizer on the mean of the ranks' losses."""
    name, decay, *_ = battery.parts_of(case)
    if name in formulas.OPTIMIZERS and case not in ("unused", "sometimes"):
        frozen = ["first"] if case == "frozen" else []
        return formulas.trained(name, decay, [battery.joined(of_ranks) for of_ranks in steps], frozen)
    model = Network(case)
    optimizer = model.optimizer()
    for made, of_ranks in enumerate(steps):
        for group in optimizer.param_groups:
            group["lr"] = formulas.rate(decay, made)
        losses = [loss_of(model, *map(torch.from_numpy, batch)) for batch in of_ranks]
        optimizer.zero_grad()
        (sum(losses) / len(losses)).backward()
        optimizer.step()
    return model.arrays()


if __name__ == "__main__":
    with training.start(training.settings(**battery.SETTINGS)) as this_run:
        battery.run_all(this_run, training.settings, train, alone, OF_SETTINGS)
