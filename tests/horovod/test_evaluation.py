"""Results of real ranks by value: they change if a rank, a batch of any size or a single sample is left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group horovod: numpy is not installed (the extra `train` brings it)", allow_module_level=True)

from tests.horovod.conftest import PROGRAMS, Ended
from tests.tiers import LONG

SAMPLES = 23
RANDOM = np.random.RandomState(11)


def data(folder: Path, samples: int) -> dict[str, dict[str, float]]:
    """Write the data, and return the results that they should give."""
    probabilities = RANDOM.dirichlet([1] * 3, samples).astype("float32")
    labels = probabilities.argmax(1)
    labels[::3] = (labels[::3] + 1) % 3  # every third is wrong
    outputs, targets = RANDOM.normal(size=(2, samples, 2)).astype("float32")
    train = {"x_train": np.zeros((30, 3), "float32"), "y_train": np.arange(30) % 3}
    np.savez(folder / "classes.npz", x_test=probabilities, y_test=labels, **train)
    train = {"x_train": np.zeros((30, 2), "float32"), "y_train": np.zeros((30, 2), "float32")}
    np.savez(folder / "numbers.npz", x_test=outputs, y_test=targets, **train)
    return {
        "classes": {
            "test_accuracy": np.mean(probabilities.argmax(1) == labels),
            "test_top_2_accuracy": np.mean(probabilities.argsort(1)[np.arange(samples), :1].ravel() != labels),
            "test_loss": np.mean(-np.log(probabilities[np.arange(samples), labels].astype("float64"))),
            "test_samples": samples,
        },
        "numbers": {
            "test_mae": np.abs(outputs - targets).mean(dtype="float64"),
            "test_mse": ((outputs - targets) ** 2).mean(dtype="float64"),
            "test_samples": samples,
        },
    }


def results(ended: Ended, rank: int) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, Any]] = json.loads((ended.run_dir / f"results-{rank}.json").read_text())
    return found


@pytest.mark.parametrize(
    ("size", "batch_size", "samples"),
    [
        (2, 4, SAMPLES),  # batches of 4, 4, 4 samples, and of 4, 4, 3
        pytest.param(3, 5, 2, marks=pytest.mark.long_tier),  # one rank has none
        *([(3, 5, SAMPLES)] if LONG else []),  # of 5, 3 samples, 5, 3, and 5, 2
    ],
)
def test_every_sample_of_every_rank_counts_once(
    size: int, batch_size: int, samples: int, ranks: Callable[..., Ended], tmp_path: Path
) -> None:
    expected = data(tmp_path, samples)
    options = (f"--data-dir={tmp_path}", f"--batch-size-per-rank={batch_size}")
    ended = ranks(PROGRAMS / "evaluations.py", *options, size=size)
    assert ended.code == 0, ended.text
    with np.load(tmp_path / "classes.npz") as held:
        matrix = np.zeros((3, 3), int)
        np.add.at(matrix, (held["y_test"], held["x_test"].argmax(1)), 1)
    rows = [line.split(",") for line in (ended.run_dir / "confusion-test.csv").read_text().splitlines()]
    assert rows[0] == ["class", "0", "1", "2"]
    assert [[int(cell) for cell in row] for row in rows[1:]] == [[n, *row] for n, row in enumerate(matrix.tolist())]
    for rank in range(size):
        found = results(ended, rank)
        mean = (size - 1) / 2  # of the ranks' numbers
        assert found.pop("averaged metrics") == pytest.approx({"loss": 1.5 + mean, "accuracy": 0.25 * mean}, rel=1e-12)
        assert found["classes, public"].pop("test_confusion") == "confusion-test.csv"
        assert len(found) == 6
        for how, values in found.items():
            assert values == pytest.approx(expected[how.split(",")[0]], rel=1e-5), f"rank {rank}: {how}"
