"""Restores checkpoints of PyTorch: damaged ones, those of another model, optimizer or version; prints the outcomes."""

import json
import os
import sys

import torch

from hpclaunch.training.rank import torch_ranks
from hpclaunch.training.rank.failure import AgreedError

PLACE = {"local_rank": 0, "local_size": 1, "host": "n1", "device": "CPU", "threads": 1}
world = torch_ranks.TorchWorld(rank=0, size=1, run_dir=sys.argv[1], torch_device=torch.device("cpu"), **PLACE)
path = os.path.join(sys.argv[1], "checkpoints", "state.pt")


def trained(kind=torch.optim.Adam, outputs=2):
    torch.manual_seed(3)
    model = torch.nn.Linear(3, outputs)
    optimizer = kind(model.parameters(), 0.1)
    model(torch.ones(4, 3)).sum().backward()
    optimizer.step()
    return model, optimizer


def rewritten(**others):
    torch.save({**torch.load(path), **others}, path)


def without_number():
    torch.save({name: value for name, value in torch.load(path).items() if name != "format"}, path)


def truncated():
    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) // 2)


CASES = {
    "same": (lambda: None, trained),
    "newer": (lambda: rewritten(format=99), trained),
    "without a number": (
        lambda: torch.save({k: v for k, v in torch.load(path).items() if k != "format"}, path),
        trained,
    ),
    "truncated": (truncated, trained),
    "another optimizer": (lambda: None, lambda: trained(torch.optim.SGD)),
    "another model": (lambda: None, lambda: trained(outputs=5)),
}
found = {}
for name, (change, make) in CASES.items():
    torch_ranks.save(world, *trained(), 12, 4)
    change()
    with open(path, "rb") as file:
        before = file.read()
    model, optimizer = make()
    try:
        found[name] = torch_ranks.restore(world, model, optimizer, 8)
    except AgreedError as error:
        found[name] = str(error)
    with open(path, "rb") as file:
        assert (file.read(), os.listdir(os.path.dirname(path))) == (before, ["state.pt"])
print(json.dumps(found))
