"""Several ranks, and batches that are accumulated, train and validate what one process with one large batch would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frameworks.test_jobs import PROGRAMS, start_program

pytestmark = pytest.mark.timeout(900)
PROGRAM = {"ddp": "equal_torch.py", "jax": "equal_jax.py"}
Trained = tuple[dict[str, Any], list[dict[str, Any]]]


def trained(job: str, folder: Path, size: int, samples: int, *arguments: str) -> Trained:
    """The weights at the end, perhaps with the counts of the program; the lines of the epochs, and of the end."""
    random = np.random.default_rng(5)
    features = random.normal(size=(samples + 4, 3))
    price = features @ np.array([1.0, -2.0, 0.5])
    folder.mkdir()
    split = {"features_train": features[4:], "price_train": price[4:]}
    np.savez(folder / "houses.npz", features_test=features[:4], price_test=price[:4], **split)
    own = f"--data-dir={folder / 'houses.npz'}"
    run = start_program(job, PROGRAMS / PROGRAM[job], folder, own, *arguments, size=size)
    codes, text = run.ended()
    assert codes == [0] * size, text
    with np.load(folder / "final.npz") as arrays:
        return dict(arrays), [*run.events("epoch"), *run.events("end")]


def difference(one: Trained, other: Trained) -> float:
    """The largest difference of a weight."""
    names = [name for name in one[0] if not name.startswith("count")]
    return max(float(abs(one[0][name] - other[0][name]).max()) for name in names)


@pytest.mark.parametrize(
    ("job", "size", "own"), [("ddp", 2, ()), ("ddp", 2, ("--clipped=true",)), ("jax", 1, ()), ("jax", 2, ())]
)
def test_accumulated_batches_are_one_large_batch(job: str, size: int, own: tuple[str, ...], tmp_path: Path) -> None:
    """The mean is over the samples, so that a shorter last batch has no more weight than it has samples."""
    samples = 11 * size  # in steps of 2 + 2 + 2 and 2 + 2 + 1 of each rank
    parts = trained(job, tmp_path / "parts", size, samples, "--batch-size-per-rank=2", "--accumulation=3", *own)
    whole = trained(job, tmp_path / "whole", size, samples, "--batch-size-per-rank=6")
    assert difference(whole, parts) < 1e-12
    if job == "ddp":  # calls of the model, and those after which the ranks exchanged gradients
        assert [list(one["counts"]) for one, _ in (parts, whole)] == [[18, 6], [6, 6]]
    losses = [[line["loss"] for line in lines if "loss" in line] for _, lines in (parts, whole)]
    assert losses[1] and losses[0] == pytest.approx(losses[1], rel=1e-12)


BLIND = """
import numpy as np, torch
from hpclaunch.training import on_pytorch as training

settings = training.settings(epochs=1, batch_size_per_rank=2)
with training.start(settings) as run:
    data = training.arrays(run, "numbers.npz")
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), settings.learning_rate)
    loop = training.loop(run, model, optimizer, data)
    for made, (inputs, targets) in enumerate(loop):
        optimizer.zero_grad()
        loss = (loop.model(inputs) - targets).square().mean()
        loss.backward()
        optimizer.step()
        loop.made(loss)
"""


@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_program_that_makes_a_step_of_every_accumulated_batch_is_refused(accumulation: int, tmp_path: Path) -> None:
    program = tmp_path / "blind.py"
    numbers = np.arange(12, dtype=np.float32)[:, None] / 12
    np.savez(tmp_path / "numbers.npz", x=numbers, y=numbers)
    program.write_text(BLIND.replace("numbers.npz", str(tmp_path / "numbers.npz")))
    run = start_program("ddp", program, tmp_path, f"--accumulation={accumulation}", size=1)
    codes, text = run.ended()
    told = text.count("--accumulation=2: a program that calls loop.made must read loop.ends_step for each batch")
    assert (codes, told) == (([0], 0) if accumulation == 1 else ([1], 1)), text


@pytest.mark.parametrize("job", ["ddp", "jax"])
def test_two_ranks_validate_and_find_the_best_epoch_as_one_process_does(job: str, tmp_path: Path) -> None:
    """Of 23 samples seven are for the validation, four on one rank; a step has the other sixteen."""
    own = ("--validation-part=0.3", "--restore-best=true", "--patience=2", "--epochs=30", "--learning-rate=0.3")
    alone = trained(job, tmp_path / "alone", 1, 23, "--batch-size-per-rank=16", *own)
    both = trained(job, tmp_path / "both", 2, 23, "--batch-size-per-rank=8", *own)
    assert difference(alone, both) < 1e-12
    *epochs, end = alone[1]
    assert len(epochs) == end["epochs"] == end["best_epoch"] + 2 < 30
    assert end["best_value"] == min(line["val_loss"] for line in epochs)
    for name in ("loss", "val_loss", "epochs", "best_epoch", "best_value", "test_mse"):
        one, other = ([line[name] for line in lines if name in line] for _, lines in (alone, both))
        assert one and other == pytest.approx(one, rel=1e-12), name
