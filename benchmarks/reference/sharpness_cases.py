"""The networks of the study of sharpness: their trainings, and how their eigenvalues are found; it starts nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
