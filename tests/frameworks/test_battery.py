"""Two ranks of PyTorch or JAX train what a training by hand does, with every optimizer and decay; resumed, to 0.0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frameworks.programs import battery, formulas
from tests.frameworks.test_jobs import PROGRAMS, start_program
from tests.tiers import LONG

pytestmark = pytest.mark.timeout(900)
DECAYED = ["nesterov-step", "adamw-exponential", "rmsprop-inverse", "momentum-polynomial"]
SPECIAL = list(battery.SPECIAL)
OF_PYTORCH = ["nadam", "radam", "rprop", "asgd"]
"""Compared with PyTorch's own optimizer in one process; all others with formulas written by hand."""
OPTIMIZERS = ["sgd", "momentum", "adam", "amsgrad", "adamax", "adagrad", "adadelta"]
OF_SETTINGS = ["lamb-cosine", "lars", "muon"]
OF_JAX = ["frozen", "unused", "accumulated"]
"""Fewer, as each compiles its step. In float32, Adam's correction 1 - 0.999 ** t alone has an error of 6e-5."""
CASES = {
    "ddp": [*OPTIMIZERS, *OF_PYTORCH, *OF_SETTINGS, *DECAYED, "adam-cosine-float32", *SPECIAL],
    "jax": ["lamb", *DECAYED, "momentum-cosine-float32", *OF_JAX],
}
if LONG:
    every = [f"{name}-{decay}" for name in ("adam", "momentum") for decay in formulas.DECAYS]
    every = [case for case in every if case not in DECAYED]  # a case has one folder of checkpoints
    CASES["ddp"] += every
    CASES["jax"] += [*OPTIMIZERS, "lion", "global", "whole", "single", *every]


def found(job: str, folder: Path) -> dict[str, Any]:
    """What all cases have come to, in one launch of two ranks."""
    draws = np.random.default_rng(5)
    features = draws.normal(size=(formulas.SAMPLES + 4, 3))
    price = features @ np.array([1.0, -2.0, 0.5])
    parts = {"features_train": features[4:], "price_train": price[4:]}
    np.savez(folder / "houses.npz", features_test=features[:4], price_test=price[:4], **parts)
    program = PROGRAMS / ("battery_torch.py" if job == "ddp" else "battery_jax.py")
    own = (f"--data-dir={folder / 'houses.npz'}", "--cases=" + ",".join(CASES[job]))
    codes, text = start_program(job, program, folder, *own, size=formulas.RANKS).ended()
    assert codes == [0] * formulas.RANKS, text
    return json.loads((folder / "battery.json").read_text())  # type: ignore[no-any-return]


def wrong(case: str, one: dict[str, Any]) -> list[str]:
    """What of a case is not as it must be."""
    _, decay, dtype, _ = battery.parts_of(case)
    rates = [formulas.rate(decay, made) for made in range(len(one["rates"]))]
    far = max(abs(rate / expected - 1) for rate, expected in zip(one["rates"], rates, strict=True))
    near = 1e-12 if dtype == "float64" else 1e-6
    holds = {
        "difference": one["difference"] < near < 1e-4 < one["moved"],
        "resumed": one["resumed"] == 0.0 and one["resumed_after"] == (1 if case == "whole" else 4),
        "same_batches": one["same_batches"],
        "samples": one["samples"] == [[formulas.SAMPLES + 1, formulas.SAMPLES]] * formulas.EPOCHS,
        "rates": far < near,
    }
    return [f"{case}: {name} {one[name]}" for name, held in holds.items() if not held]


@pytest.mark.parametrize("job", ["ddp", pytest.param("jax", marks=pytest.mark.long_tier)])
def test_every_optimizer_and_decay_trains_as_by_hand_and_resumes_to_the_last_bit(job: str, tmp_path: Path) -> None:
    cases = found(job, tmp_path)
    assert list(cases) == CASES[job]
    assert not [text for case, one in cases.items() for text in wrong(case, one)]
