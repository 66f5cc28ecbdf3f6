"""An epoch that several numbers of ranks read in turns has every sample once, under TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.horovod.conftest import PROGRAMS, Ended

WORLDS = [(2, 2), (3, 1), (0, 0)]
"""Numbers of ranks (0: without a launcher), and the steps of each in the first epoch: they leave 16, 10 and none."""


@pytest.mark.parametrize("reshuffle", ["shard", "global"])
def test_the_metrics_of_an_epoch_are_those_of_all_samples(
    ranks: Callable[..., Ended], reshuffle: str, tmp_path: Path
) -> None:
    # The metric is the mean of the targets: powers of the root of two, whose sum tells how often each was read.
    y = 2.0 ** (np.arange(26) / 2)
    arrays = {"x_train": y[:24, None] * 0, "y_train": y[:24], "x_test": y[24:, None], "y_test": y[24:]}
    np.savez(tmp_path / "own.npz", **{name: array.astype(np.float32) for name, array in arrays.items()})
    for size, steps in WORLDS:
        own = (f"--data-dir={tmp_path / 'own.npz'}", f"--reshuffle={reshuffle}", f"--stop-after={steps}")
        kept = {"HPCLAUNCH_CHECKPOINT_DIR": str(tmp_path / "checkpoints")}
        ended = ranks(PROGRAMS / "other_ranks.py", *own, size=size, **kept)
        assert (ended.code == 0) == (steps == 0), ended.text
        assert ("the attempt ends here" in ended.text) == (steps > 0), ended.text
        assert ("in this epoch of the samples that it has left" in ended.text) == (size != 2), ended.text
    assert [line["target"] for line in ended.events("epoch")] == pytest.approx([y[:24].mean()] * 2, rel=1e-6)
