"""The networks of the study of sharpness: their trainings, and how their eigenvalues are found; it starts nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import store

STUDY = "sharpness"
CASES = SMALL_BATCH, LARGE_BATCH, LOSS_ABOVE, LOSS_BELOW = (
    "small-batch",
    "large-batch",
    "small-batch-loss-above",
    "small-batch-loss-below",
)
BASE_RATE, BASE_BATCH = 0.001, 512


@dataclass(frozen=True, kw_only=True)
class Setup:
    """samples: images of the training; sample: of them, those of the Hessian. most: products for one eigenvalue."""

    samples: int = 4096
    batches: tuple[int, int] = (32, 512)
    epochs: int = 100
    sample: int = 1024
    eigenvalues: int = 4
    tolerance: float = 0.05
    most: int = 20
    synthetic: bool = False


FULL = Setup()
SMALL = Setup(samples=64, batches=(8, 32), epochs=3, sample=32, eigenvalues=2, most=5, synthetic=True)


def batches(setup: Setup) -> dict[str, int]:
    """The batch size of each case."""
    small, large = setup.batches
    return {SMALL_BATCH: small, LARGE_BATCH: large, LOSS_ABOVE: small, LOSS_BELOW: small}


def with_ratio(found: Mapping[str, Sequence[store.Result]]) -> dict[str, list[store.Result]]:
    """The results; those of the large batch with `times_as_sharp`, against the seed's small batch at the nearest loss.

    That is the epoch before or after the small batch's loss comes below the large one's; absent where there is neither.
    """

    def derived(one: store.Result) -> store.Result:
        small = [other for case in (LOSS_ABOVE, LOSS_BELOW) for other in found.get(case, ()) if other.seed == one.seed]
        if not small:
            return one
        loss = one.measured["training_loss"]
        near = min(small, key=lambda other: abs(math.log(other.measured["training_loss"] / loss)))
        times = one.measured["sharpness"] / near.measured["sharpness"]
        return replace(one, measured={**one.measured, "times_as_sharp": times})

    return {case: [derived(one) if case == LARGE_BATCH else one for one in some] for case, some in found.items()}


def settings_of(setup: Setup, batch: int) -> dict[str, Any]:
    """What decides the outcome of a case, beside its seed."""
    return {
        "optimizer": "adam",
        "batch": batch,
        "learning_rate": BASE_RATE * (batch / BASE_BATCH) ** 0.5,
        "batch_norm": "none",
        "epochs": setup.epochs,
        "train_samples": setup.samples,
        "hessian_samples": setup.sample,
        "eigenvalues": setup.eigenvalues,
        "tolerance": setup.tolerance,
        "most": setup.most,
        "synthetic": setup.synthetic,
    }


def wanted(small: bool) -> dict[str, dict[str, Any]]:
    """The settings of each case."""
    setup = SMALL if small else FULL
    return {case: settings_of(setup, batch) for case, batch in batches(setup).items()}
