"""A linear model whose steps see all samples, and the average of its weights by hand: the same for every framework."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

RATE, DECAY, EPOCHS = 0.125, 0.75, 5
ASKED = (f"--ema-decay={DECAY}", f"--learning-rate={RATE}", f"--epochs={EPOCHS}", "--scale-learning-rate=none")
IN_PARTS = ("--batch-size-per-rank=4", "--accumulation=2")
"""The 16 samples are one step of two ranks, each with two batches."""


def write(path: Path) -> dict[str, Any]:
    """Arrays x and y of 16 samples to train on, five for the validation and three for the test."""
    random = np.random.RandomState(3)
    made = {}
    for split, samples in (("train", 16), ("validation", 5), ("test", 3)):
        made[f"x_{split}"] = random.normal(size=(samples, 3))
        made[f"y_{split}"] = random.normal(size=samples)
    np.savez(path, **made)
    return made


def by_hand(made: dict[str, Any]) -> tuple[list[Any], list[float]]:
    """The averages after each step, [4] with the bias last, and the mean squared error of the validation with each."""
    x, y = np.column_stack([made["x_train"], np.ones(16)]), made["y_train"]
    other = np.column_stack([made["x_validation"], np.ones(5)])
    weights = mean = np.zeros(4)
    means, losses = [], []
    for _ in range(EPOCHS):
        weights = weights - RATE * 2 * x.T @ (x @ weights - y) / 16
        mean = DECAY * mean + (1 - DECAY) * weights
        means.append(mean)
        losses.append(float(((other @ mean - made["y_validation"]) ** 2).mean()))
    return means, losses
