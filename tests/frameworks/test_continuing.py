"""A training that is killed again and again ends with the numbers of one that was not; a full disk costs nothing."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from tests.frameworks.test_jobs import PROGRAMS, Started, start_program

pytestmark = pytest.mark.timeout(900)
PROGRAM = {"ddp": "continuing_torch.py", "jax": "continuing_jax.py"}
KILLS = 5
"""Of one training of 18 steps, each after two to four steps of an attempt; checkpoints come after every second one."""


def houses(run_dir: Path, size: int) -> str:
    """The option that names a file of 24 samples for each of `size` ranks, and 4 for the test."""
    draws = np.random.default_rng(5)
    features = draws.normal(size=(24 * size + 4, 3)).astype(np.float32)
    price = features @ np.array([1.0, -2.0, 0.5], np.float32)
    run_dir.mkdir(exist_ok=True)
    split = {"features_train": features[4:], "price_train": price[4:]}
    np.savez(run_dir / "houses.npz", features_test=features[:4], price_test=price[:4], **split)
    return f"--data-dir={run_dir / 'houses.npz'}"


def started(job: str, run_dir: Path, size: int, *arguments: str) -> Started:
    return start_program(job, PROGRAMS / PROGRAM[job], run_dir, houses(run_dir, size), *arguments, size=size)


def finals(run_dir: Path, size: int) -> list[np.ndarray]:
    found = []
    for rank in range(size):
        with np.load(run_dir / f"final-{rank}.npz") as arrays:
            found += [arrays[name] for name in arrays.files]
    return found


VALIDATED = ("--accumulation=2", "--batch-size-per-rank=2", "--validation-part=0.25", "--patience=1")
VALIDATED += ("--min-delta=100", "--restore-best=true", "--keep-checkpoints=1")
"""Epoch 1 is the best, and the last is epoch 2; an epoch has five steps."""


def killed_at_random(seed: int) -> list[str]:
    chosen = random.Random(seed)
    return [f"--die-after={chosen.randint(2, 4)}" for _ in range(KILLS)]


@pytest.mark.parametrize(
    ("job", "size", "own", "ends"),
    [
        pytest.param("ddp", 2, (), killed_at_random(5), marks=pytest.mark.long_tier),  # the third kills within steps
        ("jax", 1, (), killed_at_random(11)),
        ("ddp", 2, VALIDATED, ["--die-after=7", "--die-after=5"]),  # of batches, two in a step: within a step
        pytest.param("jax", 2, VALIDATED, ["--stop-after=2", "--die-after=4"], marks=pytest.mark.long_tier),
        *[pytest.param(job, 2, (), killed_at_random(27), marks=pytest.mark.long_tier) for job in PROGRAM],
    ],
)
def test_killed_and_resumed_is_undisturbed_to_the_last_bit(
    job: str, size: int, own: tuple[str, ...], ends: list[str], tmp_path: Path
) -> None:
    whole = started(job, tmp_path / "whole", size, *own)
    codes, text = whole.ended()
    assert codes == [0] * size, text
    for end in ends:
        codes, text = started(job, tmp_path / "parts", size, end, *own).ended()
        if end.startswith("--stop"):
            assert codes == [75] * size and text.count("asked to stop; saved at epoch 1") == 1, text
        else:
            assert -9 in codes, text
    parts = started(job, tmp_path / "parts", size, *own)
    codes, text = parts.ended()
    assert codes == [0] * size and text.count("resuming from") == 1, text
    expected, found = finals(tmp_path / "whole", size), finals(tmp_path / "parts", size)
    assert [float(abs(one - other).max()) for one, other in zip(expected, found, strict=True)] == [0.0] * len(found)
    names = ("epoch", "loss", *(("val_loss",) if own else ()))
    losses = [[[line[name] for name in names] for line in run.events("epoch")] for run in (whole, parts)]
    assert losses[0] == losses[1] and (own or len(losses[0]) == 3)
    ends_told = [run.events("end") for run in (whole, parts)]
    assert [[line[0].get(name) for name in ("epochs", "best_epoch", "best_value")] for line in ends_told] == [
        [2, 1, losses[0][0][2]] if own else [3, None, None]
    ] * 2


@pytest.mark.parametrize(("job", "size"), [("ddp", 2), ("jax", 1)])
def test_a_full_disk_ends_the_run_with_one_error_and_keeps_the_last_checkpoint(
    job: str, size: int, tmp_path: Path
) -> None:
    codes, text = started(job, tmp_path, size, "--epochs=1").ended()
    assert codes == [0] * size, text
    before = {path.name: path.read_bytes() for path in (tmp_path / "checkpoints").glob("step-00000006/*")}
    codes, text = started(job, tmp_path, size, "--full=true").ended()
    assert codes == [1] * size and text.count("the disk is full or the quota is used up") == 1, text
    assert "The last good checkpoint is" in text and "Traceback" not in text, text
    after = {path.name: path.read_bytes() for path in (tmp_path / "checkpoints").glob("step-00000006/*")}
    assert before == after and len(after) == 2 + size
    assert not list((tmp_path / "checkpoints").glob(".partial*"))
