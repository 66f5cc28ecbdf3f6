"""An epoch that several numbers of ranks read in turns has every sample once, under PyTorch and JAX."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.frameworks.test_jobs import PROGRAMS, start_program

pytestmark = pytest.mark.timeout(900)
PROGRAM = {"ddp": "other_ranks_torch.py", "jax": "other_ranks_jax.py"}
WORLDS = [(2, 2), (3, 1), (1, 0)]
"""Numbers of ranks, and the steps of each in the first epoch: of 24 samples, they leave 16, 10 and none."""


@pytest.mark.parametrize(
    ("job", "reshuffle"),
    [("ddp", "shard"), pytest.param("ddp", "global", marks=pytest.mark.long_tier), ("jax", "shard")],
)
def test_the_losses_of_an_epoch_are_those_of_all_samples(job: str, reshuffle: str, tmp_path: Path) -> None:
    # The loss of a batch is the mean of its targets: powers of two, whose sum tells how often each was read.
    y = 2.0 ** np.arange(26)
    arrays = {"x_train": y[:24, None] * 0, "y_train": y[:24], "x_test": y[24:, None], "y_test": y[24:]}
    np.savez(tmp_path / "own.npz", **{name: array.astype(np.float32) for name, array in arrays.items()})
    for size, steps in WORLDS:
        own = (f"--data-dir={tmp_path / 'own.npz'}", f"--reshuffle={reshuffle}", f"--stop-after={steps}")
        run = start_program(job, PROGRAMS / PROGRAM[job], tmp_path, *own, size=size)
        codes, text = run.ended()
        assert all(codes) if steps else codes == [0], text
        assert ("the attempt ends here" in text) == (steps > 0), text
        assert ("in this epoch of the samples that it has left" in text) == (size != 2), text
    assert [line["loss"] * 24 for line in run.events("epoch")] == pytest.approx([2**24 - 1] * 2, rel=1e-8)
