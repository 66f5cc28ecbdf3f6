"""Batches that are accumulated train what one large batch of one process would, under PyTorch and JAX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frameworks.test_jobs import PROGRAMS, start_program

pytestmark = pytest.mark.timeout(900)
PROGRAM = {"ddp": "equal_torch.py", "jax": "equal_jax.py"}
SAMPLES = 22
"""For training: with 2 ranks and batches of 2, three of a step, the last step of an epoch has 5 of 6 samples a rank."""


def trained(job: str, folder: Path, size: int, *arguments: str) -> tuple[dict[str, Any], list[float]]:
    """The weights at the end, perhaps with the counts of the program, and the losses of the epochs."""
    random = np.random.default_rng(5)
    features = random.normal(size=(SAMPLES + 4, 3))
    price = features @ np.array([1.0, -2.0, 0.5])
    folder.mkdir()
    split = {"features_train": features[4:], "price_train": price[4:]}
    np.savez(folder / "houses.npz", features_test=features[:4], price_test=price[:4], **split)
    own = f"--data-dir={folder / 'houses.npz'}"
    run = start_program(job, PROGRAMS / PROGRAM[job], folder, own, *arguments, size=size)
    codes, text = run.ended()
    assert codes == [0] * size, text
    with np.load(folder / "final.npz") as arrays:
        return dict(arrays), [line["loss"] for line in run.events("epoch")]


@pytest.mark.parametrize(
    ("job", "size", "own"), [("ddp", 2, ()), ("ddp", 2, ("--clipped=true",)), ("jax", 1, ()), ("jax", 2, ())]
)
def test_accumulated_batches_are_one_large_batch(job: str, size: int, own: tuple[str, ...], tmp_path: Path) -> None:
    """The mean is over the samples, so that a shorter last batch has no more weight than it has samples."""
    parts, losses = trained(job, tmp_path / "parts", size, "--batch-size-per-rank=2", "--accumulation=3", *own)
    whole, expected = trained(job, tmp_path / "whole", size, "--batch-size-per-rank=6")
    names = {name for name in whole if not name.startswith("count")}
    assert len(names) == (2 if job == "jax" else 4)
    assert max(float(abs(whole[name] - parts[name]).max()) for name in names) < 1e-12
    if job == "ddp":  # calls of the model, and those after which the ranks exchanged gradients
        assert [list(one["counts"]) for one in (parts, whole)] == [[18, 6], [6, 6]]
    assert losses == pytest.approx(expected, rel=1e-12)
