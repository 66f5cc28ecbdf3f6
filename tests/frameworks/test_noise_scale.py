"""The gradient noise scale under PyTorch, against one computed by hand from the gradients of all ranks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.frameworks.test_jobs import PROGRAMS, start_program

pytestmark = pytest.mark.timeout(900)


def test_the_noise_scale_of_two_ranks_is_that_of_their_gradients(tmp_path: Path) -> None:
    draws = np.random.default_rng(5)
    features = draws.normal(size=(64, 3))
    price = features @ np.array([1.0, -2.0, 0.5]) + draws.normal(size=64)
    path = tmp_path / "houses.npz"
    np.savez(path, features_train=features, price_train=price, features_test=features[:4], price_test=price[:4])
    words = (f"--data-dir={path}", "--accumulation=2")
    run = start_program("ddp", PROGRAMS / "noise_torch.py", tmp_path, *words, size=2)
    codes, text = run.ended()
    assert codes == [0, 0], text
    expected, found = json.loads((tmp_path / "by-hand.json").read_text()), run.events("noise_scale")
    assert [line["steps"] for line in found] == [4, 8, 12] and len(expected) == 3
    for line, one in zip(found, expected, strict=True):
        assert (line["noise"], line["squared_norm"]) == pytest.approx((one["noise"], one["norm"]), rel=1e-9)
        assert (line["noise_scale"], line["low"], line["high"]) == pytest.approx(
            (one["value"], one["low"], one["high"])
        )
    assert "gradient noise scale" in text
