"""Learning-rate rules against numbers worked out by hand, and what holds for every world size."""

from __future__ import annotations

import argparse
import itertools
import math

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

from hpclaunch.training import options
from hpclaunch.training.optimization import learning_rate
from hpclaunch.training.optimization.learning_rate import Schedule


def asked(*arguments: str) -> argparse.Namespace:
    given = {"from": ["images", "batch_norm"], "epochs": 12, "batch_size_per_rank": 64}
    return options.parse(options.parser("a job", given), arguments)[0]


@pytest.mark.parametrize(
    ("rule", "rate"), [("none", 0.001), ("linear", 0.008), ("sqrt", 0.001 * math.sqrt(8)), ("power23", 0.004)]
)
def test_scaling(rule: str, rate: float) -> None:
    assert learning_rate.scaled(0.001, 8, rule) == pytest.approx(rate)


@pytest.mark.parametrize(("epoch", "rate"), [(0, 0.001), (1.5, 0.0045), (3, 0.008), (10, 0.008)])
def test_warm_up_goes_from_the_base_rate_to_the_scaled_one(epoch: float, rate: float) -> None:
    assert learning_rate.warmed_up(0.008, 0.001, epoch, 3) == pytest.approx(rate)


def test_no_warm_up() -> None:
    assert learning_rate.warmed_up(0.008, 0.001, 0, 0) == 0.008
    assert learning_rate.warmed_up(0.008, 0.008, 0, 3) == 0.008


@pytest.mark.parametrize(("rule", "start"), [("linear", 0.001), ("sqrt", 0.001), ("power23", 0.001), ("none", 0.00025)])
def test_a_warm_up_begins_at_the_rate_of_one_batch(rule: str, start: float) -> None:
    """The guidelines: start with the rate of a single rank. Unscaled, the rate is that of the whole batch already."""
    made = learning_rate.schedule(asked("--warmup-epochs=3", f"--scale-learning-rate={rule}"), 4, steps_per_epoch=20)
    assert made.at(0) == pytest.approx(start)
    assert made.at(1.5) == pytest.approx((start + made.rate) / 2)


def test_a_warm_up_without_effect_is_reported() -> None:
    scaled = ("--scale-learning-rate=sqrt", "--warmup-steps=50")
    words = learning_rate.schedule(asked(*scaled), 1, steps_per_epoch=20).why_no_warm_up()
    assert words.startswith(
        "the warm-up of 2.5 epochs has no effect: a step is one batch, so the learning rate is 0.001"
    )
    assert learning_rate.schedule(asked(*scaled, "--accumulation=2"), 1, 20).why_no_warm_up() == ""
    assert learning_rate.schedule(asked(*scaled), 2, 20).why_no_warm_up() == ""
    assert learning_rate.schedule(asked("--scale-learning-rate=sqrt"), 1, 20).why_no_warm_up() == ""


@pytest.mark.parametrize(
    ("decay", "expected"),  # at the end of the warm-up (epoch 2), at 4, 7 and 12
    [
        ("constant", [1, 1, 1, 1]),
        ("step", [1, 0.5, 0.25, 0.25]),
        ("exponential", [1, 0.5**2, 0.5**5, 0.5**10]),
        ("inverse", [1, 1 / 2, 1 / 3.5, 1 / 6]),
        ("polynomial", [1, 0.8**2, 0.5**2, 0]),
        ("cosine", [1, (1 + math.cos(math.pi * 0.2)) / 2, 0.5, 0]),
    ],
)
def test_decay(decay: str, expected: list[float]) -> None:
    schedule = Schedule(
        0.8, start=0.1, epochs=12, warmup_epochs=2, decay=decay, factor=0.5, power=2.0, boundaries=(4.0, 7.0)
    )
    assert [schedule.at(epoch) for epoch in (2, 4, 7, 12)] == pytest.approx([0.8 * part for part in expected])
    assert schedule.at(0) == pytest.approx(0.1) and schedule.at(1) == pytest.approx(0.45)


@pytest.mark.parametrize("decay", learning_rate.DECAYS)
def test_a_schedule_is_the_same_at_every_world_size_but_for_the_scale(decay: str) -> None:
    epochs = np.linspace(3, 12, 19)
    for rule in ("none", "linear", "sqrt", "power23"):
        rates = {}
        for size in (1, 2, 7, 64):
            made = learning_rate.schedule(
                asked(
                    "--warmup-epochs=3",
                    f"--decay={decay}",
                    f"--scale-learning-rate={rule}",
                    *(["--decay-epochs=6,9"] if decay == "step" else []),
                ),
                size,
                steps_per_epoch=100 // size,
            )
            assert made.at(0) == pytest.approx(0.001 / size if rule == "none" else 0.001)
            rates[size] = [made.at(epoch) / learning_rate.scaled(0.001, size, rule) for epoch in epochs]
            assert all(later <= earlier * 1.0000001 for earlier, later in itertools.pairwise(rates[size]))
        assert all(np.allclose(found, rates[1]) for found in rates.values())


def test_warm_up_in_steps_and_accumulated_batches() -> None:
    made = learning_rate.schedule(asked("--warmup-steps=50", "--accumulation=3", "--scale-learning-rate=linear"), 2, 20)
    assert made.warmup_epochs == 2.5
    assert (made.start, made.rate) == (0.001, pytest.approx(0.006))


def test_a_run_that_is_all_warm_up_ends_at_the_full_rate() -> None:
    for decay in learning_rate.DECAYS:
        assert Schedule(0.4, start=0.1, epochs=1, warmup_epochs=1, decay=decay).at(1) == pytest.approx(0.4)


@pytest.mark.parametrize("text", ["6,3", "3,3", "0,3", "-1", "x", "3,,6", "nan", "inf"])
def test_epochs_that_are_not_ascending(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        learning_rate.epochs_of(text)


def test_adascale_lies_between_one_rank_and_all() -> None:
    assert learning_rate.adascale_gain(variance=0, norm=3, size=8) == 1  # no noise: more ranks add nothing
    assert learning_rate.adascale_gain(variance=3, norm=0, size=8) == pytest.approx(8)  # nothing but noise: linear
    assert learning_rate.adascale_gain(variance=1, norm=1, size=4) == pytest.approx(2 / 1.25)
    assert learning_rate.adascale_gain(variance=0, norm=0, size=8) == 1
    for variance, norm in np.random.RandomState(1).lognormal(0, 5, (50, 2)):
        assert 1 <= learning_rate.adascale_gain(variance, norm, 16) <= 16.0000001


def test_noise_is_found_from_norms_on_one_rank_and_on_all() -> None:
    size, steps, true = 4, 4000, np.array([0.6, -0.8, 0.0])
    ranks = true + np.random.RandomState(2).normal(0, [1.0, 2.0, 0.5], (steps, size, 3))
    one = (ranks**2).sum(-1).mean()
    both = (ranks.mean(1) ** 2).sum(-1).mean()
    variance, norm = learning_rate.gradient_noise(one, both, size)
    assert (variance, norm) == (pytest.approx(5.25, rel=0.05), pytest.approx(1.0, rel=0.15))
