"""Restores checkpoints of PyTorch: damaged ones, those of another model, optimizer or version; prints the outcomes."""

import json
import sys

import torch

from hpclaunch.training.checkpoints.torch_state import TorchState
from hpclaunch.training.rank import torch_ranks
from tests.frameworks.programs import damages

PLACE = {"local_rank": 0, "local_size": 1, "host": "n1", "device": "CPU", "threads": 1}
world = torch_ranks.TorchWorld(rank=0, size=1, run_dir=sys.argv[1], torch_device=torch.device("cpu"), **PLACE)


class Network(torch.nn.Module):
    """Tensors of several types, one of them without dimensions, and a state that is no tensor."""

    def __init__(self, outputs=2, low=torch.bfloat16, name="dense", seed=3):
        super().__init__()
        torch.manual_seed(seed)
        self.add_module(name, torch.nn.Linear(3, outputs))
        self.scale = torch.nn.Parameter(torch.tensor(1.5))
        self.register_buffer("low", torch.full([2], 1.5, dtype=low))
        self.register_buffer("counts", torch.arange(3))
        self.dense_of_input = getattr(self, name)

    def get_extra_state(self):
        return {"rate": 0.1, "names": ["a", "b"], "none": None}

    def set_extra_state(self, state):
        assert state == self.get_extra_state()

    def forward(self, inputs):
        return self.dense_of_input(inputs).sum() * self.scale


def trained(make=torch.optim.Adam, model=None, **options):
    model = model or Network()
    temperature = torch.nn.Parameter(torch.tensor([2.0]))  # of the loss: no module has it
    optimizer = make([*model.parameters(), temperature], 0.1, **options)
    (model(torch.ones(4, 3)) * temperature).sum().backward()
    optimizer.step()
    return TorchState(world, 3, model, optimizer, torch.device("cpu"))


def save(step):
    state = trained()
    state.begin_random()
    torch.rand(step)
    return damages.save_plain(world, state, step)


def restore(state):
    place = damages.restore_plain(world, state)
    return place, damages.arrays(state)


OTHERS = {
    "another optimizer": lambda: trained(torch.optim.SGD),
    "another option": lambda: trained(amsgrad=True),
    "another shape": lambda: trained(model=Network(outputs=5)),
    "another name": lambda: trained(model=Network(name="other")),
    "another type": lambda: trained(model=Network(low=torch.float16)),
}
print(
    json.dumps(
        damages.outcomes(sys.argv, save, restore, damages.arrays, lambda: trained(model=Network(seed=4)), OTHERS)
    )
)
