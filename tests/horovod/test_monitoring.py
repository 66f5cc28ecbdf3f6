"""Validation on real ranks: by value, the same on every rank, in `fit` and in a loop of one's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group horovod: numpy is not installed (the extra `train` brings it)", allow_module_level=True)

from tests.horovod.conftest import PROGRAMS, ROOT, Ended

PROGRAM = PROGRAMS / "monitored.py"
VALIDATION = 11


def write(folder: Path, validation: int = VALIDATION) -> dict[str, Any]:
    random = np.random.RandomState(3)
    arrays = {}
    for split, count in (("train", 40), ("validation", validation), ("test", 5)):
        features = random.normal(size=(count, 6)).astype("float32")
        arrays[f"x_{split}"], arrays[f"y_{split}"] = features, (features @ np.arange(6)).astype("float32")
    np.savez(folder / "houses.npz", **arrays)
    return arrays


def errors(ended: Ended, arrays: dict[str, Any], rank: int) -> Any:
    with np.load(ended.run_dir / f"weights-{rank}.npz") as held:
        kernel, bias = held["arr_0"], held["arr_1"]
    return (arrays["x_validation"] @ kernel + bias)[:, 0] - arrays["y_validation"]


@pytest.mark.parametrize(
    ("size", "validation"),
    [
        (2, VALIDATION),  # shares of 6 and 5 samples, in batches of 4 and 2, and of 4 and 1
        (3, 2),  # one rank has none
    ],
)
def test_every_sample_of_every_rank_is_validated_once(size: int, validation: int, ranks, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    arrays = write(tmp_path, validation)
    ended = ranks(PROGRAM, f"--data-dir={tmp_path}/houses.npz", size=size)
    assert ended.code == 0, ended.text
    logs = [json.loads((ended.run_dir / f"logs-{rank}.json").read_text()) for rank in range(size)]
    assert all(one == logs[0] for one in logs) and len(logs[0]) == 3
    wrong = errors(ended, arrays, size - 1)
    assert logs[0][-1]["val_loss"] == pytest.approx((wrong**2).mean(), rel=1e-5)
    assert logs[0][-1]["val_mae"] == pytest.approx(np.abs(wrong).mean(), rel=1e-5)
    for line, told in zip(ended.events("epoch"), logs[0], strict=True):
        assert {name: line[name] for name in told} == told and line["validation_s"] > 0
    (start,) = ended.events("start")
    assert start["validation"] == {"split": "validation", "samples": validation}


def test_a_loop_of_ones_own_is_validated_too(ranks, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    arrays = write(tmp_path)
    ended = ranks(PROGRAM, f"--data-dir={tmp_path}/houses.npz", "--own-loop=true", "--validation-every=2")
    assert ended.code == 0, ended.text
    first, second, third = ended.events("epoch")
    assert "val_mse" not in first and second["val_mse"] > third["val_mse"]
    wrong = errors(ended, arrays, 1)
    assert third["val_mse"] == pytest.approx((wrong**2).mean(), rel=1e-5)
    assert third["val_mae"] == pytest.approx(np.abs(wrong).mean(), rel=1e-5)


def test_a_bundled_job_is_validated_on_a_part_of_mixed_images(ranks) -> None:  # type: ignore[no-untyped-def]
    """Mixup's labels are vectors, those of the validation are classes."""
    options = ("--synthetic=true", "--synthetic-samples=200", "--epochs=1", "--validation-part=0.25", "--mixup=0.2")
    ended = ranks(ROOT / "jobs/mnist/train.py", *options, "--accumulation=2", "--batch-size-per-rank=16")
    assert ended.code == 0, ended.text
    (line,) = ended.events("epoch")
    assert 0 <= line["val_accuracy"] <= 1 and line["val_loss"] > 0
    assert ended.events("start")[0]["validation"] == {"split": "validation", "samples": 50}


def test_a_strategy_of_tensorflow_is_validated_on_each_rank_alone(ranks) -> None:  # type: ignore[no-untyped-def]
    options = ("--synthetic=true", "--synthetic-samples=64", "--epochs=1", "--validate-on=test", "--strategy=mirrored")
    ended = ranks(ROOT / "jobs/mnist/train.py", *options, size=0)
    assert ended.code == 0, ended.text
    (line,), (end,) = ended.events("epoch"), ended.events("end")
    assert (line["val_loss"], line["val_accuracy"]) == (end["test_loss"], end["test_accuracy"])
