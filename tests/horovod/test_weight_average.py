"""The average of the weights with TensorFlow: by hand, on two ranks, and after an attempt that failed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import weight_averages
from tests.horovod.conftest import PROGRAMS, Ended


def final_of(ended: Ended, rank: int = 0) -> Any:
    assert ended.code == 0, ended.text
    with np.load(ended.run_dir / f"final-{rank}.npz") as held:
        return held["final"]


def test_the_average_is_validated_evaluated_exported_and_resumed(ranks: Callable[..., Ended], tmp_path: Path) -> None:
    arrays = weight_averages.write(tmp_path / "own.npz")
    means, losses = weight_averages.by_hand(arrays)
    own = (PROGRAMS / "averaged.py", f"--data-dir={tmp_path / 'own.npz'}", *weight_averages.ASKED)
    whole = ranks(*own, *weight_averages.IN_PARTS)
    assert np.allclose(final_of(whole), means[-1], rtol=1e-12, atol=1e-13)
    assert [line["val_loss"] for line in whole.events("epoch")] == pytest.approx(losses, rel=2e-6)
    wrong = arrays["x_test"] @ means[-1][:3] + means[-1][3] - arrays["y_test"]
    assert whole.events("end")[0]["test_mse"] == pytest.approx((wrong**2).mean(), rel=1e-6)
    with np.load(whole.run_dir / "model" / "weights.npz") as exported:
        assert np.array_equal(np.concatenate([exported[name].ravel() for name in exported]), final_of(whole))
    kept = {"HPCLAUNCH_CHECKPOINT_DIR": str(tmp_path / "checkpoints")}
    killed = ranks(*own, *weight_averages.IN_PARTS, "--stop-after=3", **kept)
    assert killed.code != 0 and "the attempt ends here" in killed.text
    resumed = ranks(*own, *weight_averages.IN_PARTS, **kept)
    for rank in (0, 1):
        assert np.array_equal(final_of(resumed, rank), final_of(whole))
    losses = [line["val_loss"] for line in whole.events("epoch")]
    assert [line["val_loss"] for line in resumed.events("epoch")] == losses[-2:]


@pytest.mark.parametrize("loop", ["--own-loop=true", "--own-loop=false"])
def test_the_best_epoch_is_that_of_the_average(loop: str, ranks: Callable[..., Ended], tmp_path: Path) -> None:
    means, losses = weight_averages.by_hand(weight_averages.write(tmp_path / "own.npz"))
    own = (PROGRAMS / "averaged.py", f"--data-dir={tmp_path / 'own.npz'}", *weight_averages.ASKED)
    ended = ranks(*own, loop, "--batch-size-per-rank=16", "--restore-best=true", size=0)
    best = int(np.argmin(losses))
    assert best + 1 < weight_averages.EPOCHS and ended.events("end")[0]["best_epoch"] == best + 1
    assert np.allclose(final_of(ended), means[best], rtol=1e-12, atol=1e-13)
    metric = "val_mse" if loop == "--own-loop=true" else "val_loss"
    assert [line[metric] for line in ended.events("epoch")] == pytest.approx(losses, rel=2e-6)
