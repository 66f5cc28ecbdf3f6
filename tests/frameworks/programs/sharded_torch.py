"""Trains small models whose weights, or whose optimizer's state, ranks share; RUN/sharded.json tells what each came to.

A case is OPTIMIZER-DTYPE[-FEATURE]; a job of --jobs is CASE:LAYOUT:FOLDER:STOP: how it is divided, the folder of its
checkpoints, and the step after which it is broken off (0: at the end).
"""

import dataclasses
import json
import os

import torch

from hpclaunch.training import on_pytorch as training
from hpclaunch.training.model_parallel import torch_shards

FIXED = ("--learning-rate=0.01", "--epochs=10", "--checkpoint-steps=1", "--validation-part=0.2", "--export-model=true")
LAYOUTS = {"none": (), "zero1": ("--shard-optimizer=true",), "fsdp": ("--shard-weights=true",)}
FEATURES = {
    "": (),
    "accumulated": ("--accumulation=2",),
    "averaged": ("--ema-decay=0.5",),
    "best": ("--restore-best=true", "--monitor=loss", "--monitor-mode=max"),  # the first epoch
    "decayed": ("--weight-decay=0.1",),
}


class Network(torch.nn.Module):
    """Seven values a block, so that ranks have unequal parts; of the parameters of one value all but one have none."""

    def __init__(self, dtype):
        super().__init__()
        self.first = torch.nn.Linear(3, 7)
        self.blocks = torch.nn.ModuleList([torch.nn.Linear(7, 7) for _ in range(2)])
        self.last = torch.nn.Linear(7, 1)
        self.spare = torch.nn.Parameter(torch.ones(1))
        self.register_buffer("shift", torch.full((7,), 0.25))
        draws = torch.Generator().manual_seed(3)
        self.to(dtype)
        with torch.no_grad():
            for one in self.parameters():
                one.copy_(torch.randn(one.shape, generator=draws, dtype=torch.float64) / 2)

    def forward(self, inputs):
        found = torch.tanh(self.first(inputs.to(self.shift.dtype))) + self.shift
        for block in self.blocks:
            found = found + torch.tanh(block(found))
        return (self.last(found) * self.spare)[:, 0]


def squared(model, inputs, targets):
    found = model(inputs)
    return (found - targets.to(found.dtype)).square().mean()


def train(run, case, stop):
    data = training.arrays(run, inputs="features", targets="price")
    model = Network(getattr(torch, case.split("-")[1]))
    optimizer = training.optimizer(run, model)
    loop = training.loop(run, model, optimizer, data, validate=squared)
    losses, own = [], 0.0
    for inputs, targets in loop:
        loss = squared(loop.model, inputs, targets)
        own += float(loss.detach()) * loop.share
        if loop.ends_step:
            losses.append(sum(run.world.gather(own)) / run.size)
            own = 0.0
        loop.step(loss)
        if stop and len(losses) == stop:
            break
    held = sum(torch_shards.own_part(one).numel() for one in model.parameters())
    kept = [value for one in torch_shards.own_optimizer(optimizer).state.values() for value in one.values()]
    kept = sum(torch_shards.own_part(one).numel() for one in kept if torch.is_tensor(one) and one.dim())
    weights = {name: one.tolist() for name, one in torch_shards.whole_state(model, keep=True).items()}
    tested = {} if stop else training.evaluate(run, model, data)
    return {
        "losses": losses,
        "weights": weights,
        "tested": tested,
        "held": run.world.gather(held),
        "kept": run.world.gather(kept),
    }


def run_all(run):
    found = {}
    for job in run.settings.jobs.split(","):
        case, layout, folder, stop = job.split(":")
        name, _, feature = (*case.split("-"), "")[:3]
        batch = run.settings.samples // run.size // (2 if feature == "accumulated" else 1)
        words = [*FIXED, *LAYOUTS[layout], *FEATURES[feature], f"--optimizer={name}", f"--batch-size-per-rank={batch}"]
        words.append(f"--data-dir={run.settings.data_dir}")
        os.environ["HPCLAUNCH_CHECKPOINT_DIR"] = os.path.join(run.settings.folders, folder)
        found[job] = train(dataclasses.replace(run, settings=training.settings(words=words)), case, int(stop))
    if run.is_root:
        with open(os.path.join(run.folder, "sharded.json"), "w") as file:
            json.dump(found, file)


if __name__ == "__main__":
    asked = training.settings(
        jobs={"default": "", "help": "what is trained, with commas between"},
        folders={"default": "", "help": "the folder of the folders of checkpoints"},
        samples={"default": 12, "help": "samples that are trained on, in each epoch's one step"},
    )
    with training.start(asked) as this_run:
        run_all(this_run)
