"""What battery_torch.py and battery_jax.py share: cases of one launch of ranks, each compared with a training by hand.

A case is OPTIMIZER[-DECAY][-float32], or one of SPECIAL with an optimizer of its own.
"""

import dataclasses
import json
import os

import numpy as np

from tests.frameworks.programs import formulas

SPECIAL = {
    "frozen": ("momentum", ()),
    "unused": ("adam", ()),
    "sometimes": ("adam", ()),
    "global": ("adam", ("--reshuffle=global",)),
    "accumulated": ("adam", ("--accumulation=2",)),
    "whole": ("momentum", ("--batch-size-per-rank=50",)),
    "single": ("momentum", ("--batch-size-per-rank=1",)),
}
"""More cases: their optimizers and settings."""
SETTINGS = {"cases": {"default": "", "help": "names of cases, with commas between"}}


def parts_of(case):
    """The optimizer, the decay, the type of the weights and the settings of a case."""
    if case in SPECIAL:
        name, words = SPECIAL[case]
        return name, "constant", "float64", words
    name, *more = case.split("-")
    decay = next((word for word in more if word in formulas.DECAYS), "constant")
    return name, decay, "float32" if "float32" in more else "float64", formulas.DECAYS[decay]


def run_all(run, settings_of, train, alone, of_settings=None):
    """Train each case undisturbed, and broken off and resumed; RUN/battery.json tells the differences.

    settings_of: training.settings of the framework. train: train(run, case, stop) trains a case, up to the step `stop`
    if it is not 0; gives the weights by name, the batches of this rank (inputs, targets) and the rates of the steps.
    of_settings: of optimizers that the library makes, the settings.
    alone: alone(case, steps) gives the weights that one process comes to with the batches of each rank in each step.
    """
    found = {}
    for case in run.settings.cases.split(","):
        name, *_, words = parts_of(case)
        words = (*words, *(of_settings or {}).get(name, ()))
        fixed = [f"--learning-rate={formulas.BASE}", f"--epochs={formulas.EPOCHS}", "--export-model=false"]
        fixed += ["--batch-size-per-rank=5", "--checkpoint-steps=4", f"--data-dir={run.settings.data_dir}"]
        this = dataclasses.replace(run, settings=settings_of(words=[*fixed, *words]))
        weights, batches, rates = _in_folder(run, case, train, this, case, 0)
        _, before, _ = _in_folder(run, case + "-parts", train, this, case, 2 if case == "whole" else 5)  # in mid-epoch
        resumed, after, _ = _in_folder(run, case + "-parts", train, this, case, 0)
        again = before[: len(batches) - len(after)] + after
        steps = list(zip(*run.world.gather(batches), strict=True))
        expected = alone(case, steps)
        found[case] = {
            "difference": max(float(abs(weights[key] - expected[key]).max()) for key in weights),
            "moved": float(abs(weights["last"] - formulas.begin(np.float64)["last"]).max()),
            "resumed": max(float(abs(weights[key] - resumed[key]).max()) for key in weights),
            "resumed_after": len(batches) - len(after),
            "same_batches": [_sum(one) for one in batches] == [_sum(one) for one in again],
            "rates": [float(one) for one in rates],
            "samples": [_count(steps, epoch) for epoch in range(formulas.EPOCHS)],
        }
    if run.is_root:
        with open(os.path.join(run.folder, "battery.json"), "w") as file:
            json.dump(found, file)


def joined(of_ranks):
    """The batches of all ranks in a step as one."""
    return tuple(np.concatenate(parts) for parts in zip(*of_ranks, strict=True))


def _in_folder(run, name, train, *arguments):
    os.environ["HPCLAUNCH_CHECKPOINT_DIR"] = os.path.join(run.folder, "checkpoints-" + name)
    return train(*arguments)


def _sum(batch):
    return [part.sum() for part in batch]


def _count(steps, epoch):
    """The numbers of samples, and of different ones, that all ranks have read in an epoch."""
    each = len(steps) // formulas.EPOCHS
    read = np.concatenate([joined(one)[1] for one in steps[epoch * each : (epoch + 1) * each]])
    return [len(read), len(np.unique(read))]
