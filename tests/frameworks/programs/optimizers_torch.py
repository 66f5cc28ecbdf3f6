"""Makes ten steps of each optimizer of the settings: optimizers_torch.py FOLDER, with what test_optimizers.py wrote."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

from hpclaunch.training.optimization import torch_optimizers


class Asked(SimpleNamespace):
    """Settings of which all were chosen, and none is the program's own."""

    def is_chosen(self, name):
        return hasattr(self, name)

    def is_own(self, name):
        return False


def refusals():
    """What is said of a program's own optimizer where settings were chosen."""
    weights = [torch.nn.Parameter(torch.ones(2))]
    sgd = torch.optim.SGD(weights, 0.1, momentum=0.9, weight_decay=0.01)
    asked = {
        "another": Asked(optimizer="lamb"),
        "same": Asked(optimizer="sgd", momentum=0.9, weight_decay=0.01),
        "decay": Asked(weight_decay=0.1),
    }
    found = {name: torch_optimizers.unlike(one, sgd) for name, one in asked.items()}
    return {**found, "alike": torch_optimizers.unlike(Asked(optimizer="adam"), torch.optim.NAdam(weights))}


def taken_by_muon():
    """The weights that Muon takes of a model with an embedding and a depthwise convolution."""
    layers = {
        "embedding": torch.nn.Embedding(9, 4),
        "first": torch.nn.Linear(4, 4),
        "depthwise": torch.nn.Conv2d(4, 4, 3, groups=4),
        "conv": torch.nn.Conv2d(4, 4, 3),
        "router": torch.nn.Linear(4, 4),
        "last": torch.nn.Linear(4, 2),
    }
    model = torch.nn.ModuleDict(layers)
    found = {
        "hidden": torch_optimizers.muons_names(model),
        "matrices": torch_optimizers.muons_names(model, only_hidden=False),
        "without": torch_optimizers.muons_names(model, ["router.*"]),
    }
    tied = torch.nn.ModuleDict({"embedding": torch.nn.Embedding(9, 4), "head": torch.nn.Linear(4, 9, bias=False)})
    tied["head"].weight = tied["embedding"].weight
    found["tied"] = torch_optimizers.muons_names(tied, only_hidden=False)
    try:
        torch_optimizers.muons_names(model, ["rooter.*"])
    except ValueError as error:
        found["unknown"] = str(error)
    return found


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    given, found = np.load(folder / "given.npz"), {}
    for case, asked in json.loads((folder / "cases.json").read_text()).items():
        layers = {"conv": torch.nn.Conv2d(4, 5, 3), "dense": torch.nn.Linear(6, 7), "norm": torch.nn.LayerNorm(7)}
        model = torch.nn.ModuleDict(layers).double()
        model.load_state_dict({name: torch.from_numpy(given[name]) for name in model.state_dict()})
        optimizer = torch_optimizers.make(SimpleNamespace(**asked), model)
        for step in range(10):
            for name, one in model.named_parameters():
                one.grad = torch.from_numpy(given[f"{name} {step}"])
            optimizer.step()
        found.update({f"{case} {name}": one.detach().numpy() for name, one in model.named_parameters()})
    np.savez(folder / "found.npz", **found)
    print(json.dumps({"refusals": refusals(), "muon": taken_by_muon()}))
