"""Learning-rate rules against numbers worked out by hand."""

from __future__ import annotations

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

from hpclaunch.training import learning_rate


@pytest.mark.parametrize(("rule", "rate"), [("none", 0.001), ("linear", 0.004), ("sqrt", 0.002)])
def test_scaling(rule: str, rate: float) -> None:
    assert learning_rate.scaled(0.001, 4, rule) == pytest.approx(rate)


@pytest.mark.parametrize(("epoch", "rate"), [(0, 0.001), (1.5, 0.0045), (3, 0.008), (10, 0.008)])
def test_warm_up_goes_from_the_base_rate_to_the_scaled_one(epoch: float, rate: float) -> None:
    assert learning_rate.warmed_up(0.008, 8, epoch, 3) == pytest.approx(rate)


def test_no_warm_up() -> None:
    assert learning_rate.warmed_up(0.008, 8, 0, 0) == 0.008
    assert np.isfinite(learning_rate.warmed_up(0.008, 1, 0, 3))
