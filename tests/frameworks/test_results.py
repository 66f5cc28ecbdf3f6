"""What a training with PyTorch or JAX reports is true of the model that it saves, and of nothing that is not finite."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frameworks.test_jobs import PROGRAMS, Started, start_program

pytestmark = pytest.mark.timeout(900)


def started(
    job: str, program: str, folder: Path, *arguments: str, size: int = 2, classes: bool = False, **extra: str
) -> Started:
    """Ranks on 52 samples, of which 10 are for the test: steps of an epoch differ in length, ranks in test batches."""
    random = np.random.default_rng(5)
    features = random.normal(size=(62, 3)).astype(np.float32)
    price = features @ np.array([1.0, -2.0, 0.5], np.float32)
    targets: Any = (price > 0).astype(np.int64) if classes else price
    parts = {"features_train": features[:45], "price_train": targets[:45]}
    parts.update(features_test=features[45:], price_test=targets[45:])
    np.savez(folder / "houses.npz", **parts)
    own = f"--data-dir={folder / 'houses.npz'}"
    return start_program(job, PROGRAMS / program, folder, own, *arguments, size=size, **extra)


def found_by(run: Started, size: int = 2) -> dict[str, Any]:
    codes, text = run.ended()
    assert codes == [0] * size, text
    return json.loads((run.run_dir / "found.json").read_text())  # type: ignore[no-any-return]


def test_the_figure_of_batch_norm_is_that_of_the_saved_model(tmp_path: Path) -> None:
    run = started("ddp", "results_torch.py", tmp_path, "--case=norm")
    found = found_by(run)
    (end,) = run.events("end")
    assert end["test_mae"] == pytest.approx(found["saved"], rel=1e-6) and end["test_samples"] == 17
    assert found["modes"] == [True, True, False]  # as they were before the evaluation
    epoch = run.events("epoch")[0]
    loss = sum(one for one, _ in found["sums"]) / sum(count for _, count in found["sums"])
    assert epoch["loss"] == pytest.approx(loss, rel=1e-6)  # of the samples: the last batch is shorter


def test_one_score_of_pytorch_tells_two_classes(tmp_path: Path) -> None:
    run = started(
        "ddp", "results_torch.py", tmp_path, "--case=binary", "--epochs=200", "--learning-rate=0.5", classes=True
    )
    found_by(run)
    (end,) = run.events("end")
    assert (end["test_accuracy"], end["test_samples"]) == (1.0, 17)


@pytest.mark.parametrize(
    ("job", "program", "size", "kept"),
    [("ddp", "results_torch.py", 2, 1), ("jax", "diverging_jax.py", 1, 1)],
)
def test_what_is_not_finite_ends_the_run_and_is_never_saved(
    job: str, program: str, size: int, kept: int, tmp_path: Path
) -> None:
    arguments = ["--case=diverging"] if job == "ddp" else []
    run = started(job, program, tmp_path, *arguments, size=size)
    codes, text = run.ended()
    assert codes == [1] * size and text.count("training has diverged") == 1 and "Traceback" not in text, text
    assert [line["epoch"] for line in run.events("epoch")] == [kept] and not run.events("end")
    assert not {"NaN", "Infinity"} & set((tmp_path / "metrics.jsonl").read_text().replace(":", " ").split())
    (state,) = (tmp_path / "checkpoints").iterdir()
    with np.load(state / "shared.npz") as arrays:
        assert all(np.isfinite(arrays[name]).all() for name in arrays.files if arrays[name].ndim)
