"""Intervals of checkpoints: the published examples, the least loss among all intervals, and what is not known."""

from __future__ import annotations

import math
import random

import pytest

from hpclaunch.guidelines.checkpoints import (
    ASSUMED,
    Saving,
    advise_interval,
    daly_interval,
    duration,
    explain_interval,
    lost_share,
    young_interval,
)

HOUR, MINUTE = 3600.0, 60.0


@pytest.mark.parametrize(
    ("mtbf_h", "minutes"),
    # Daly 2006, figures 3 to 5: dumps of 5 minutes, failures every 24 h, 6 h and 15 min.
    [(24.0, 117), (6.0, 57), (0.25, 9.1)],
)
def test_the_intervals_are_those_that_daly_prints(mtbf_h: float, minutes: float) -> None:
    found = daly_interval(5 * MINUTE, mtbf_h * HOUR) / MINUTE
    assert found == pytest.approx(minutes, abs=0.5 if minutes > 10 else 0.05)


def test_the_first_order_is_youngs() -> None:
    assert young_interval(5 * MINUTE, 24 * HOUR) == pytest.approx(120 * MINUTE)  # sqrt(2 * 5 * 1440)


@pytest.mark.parametrize(("save_s", "mtbf_s"), [(1.0, HOUR), (30.0, HOUR), (300.0, 24 * HOUR), (300.0, 6 * HOUR)])
def test_no_other_interval_loses_noticeably_less(save_s: float, mtbf_s: float) -> None:
    best = daly_interval(save_s, mtbf_s)
    least = min(lost_share(best * 2 ** (step / 50), save_s, mtbf_s) for step in range(-200, 201))
    assert lost_share(best, save_s, mtbf_s) == pytest.approx(least, rel=0.01)


def test_the_loss_is_that_of_simulated_failures() -> None:
    """Segments of training and saving, each repeated from its beginning after a failure, and a restart after each."""
    chance, interval, save, mtbf, restart = random.Random(1), 600.0, 60.0, 3000.0, 120.0
    clock, segments = 0.0, 20_000
    for _ in range(segments):
        while (failure := chance.expovariate(1 / mtbf)) < interval + save:
            clock += failure
            while (again := chance.expovariate(1 / mtbf)) < restart:
                clock += again
            clock += restart
        clock += interval + save
    assert lost_share(interval, save, mtbf, restart) == pytest.approx(clock / (segments * interval) - 1, rel=0.05)


def test_saving_that_takes_as_long_as_training_between_failures() -> None:
    assert daly_interval(200.0, 100.0) == 100.0
    assert lost_share(1e9, 1.0, 1.0) == math.inf


@pytest.mark.parametrize(("save_s", "mtbf_s"), [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (math.nan, 1.0), (1.0, math.inf)])
def test_times_are_above_zero(save_s: float, mtbf_s: float) -> None:
    with pytest.raises(ValueError, match="above zero"):
        daly_interval(save_s, mtbf_s)


def test_more_nodes_fail_more_often_and_save_more_often() -> None:
    saving = Saving(save_s=60.0, used_s=900.0, restart_s=30.0)
    one, many = (advise_interval(saving, nodes, mtbf_days=100.0) for nodes in (1, 64))
    assert one.mtbf_s == 100 * 86400 and many.mtbf_s == one.mtbf_s / 64
    assert many.interval_s == pytest.approx(one.interval_s / 8, rel=0.05) and many.lost > one.lost
    assert many.used_lost is not None and many.used_lost > many.lost
    assert not one.assumed and "assumed" not in explain_interval(one).verdict


def test_without_a_figure_of_the_site_the_assumption_is_named() -> None:
    advice = advise_interval(Saving(save_s=10.0), 4, mtbf_days=None)
    reason = explain_interval(advice)
    assert advice.assumed and advice.used_lost is None
    assert ASSUMED in reason.verdict
    assert [number.origin for number in reason.numbers if "of a node" in number.name] == ["default"]
    assert "as now" not in advice.words and advice.words.startswith("save every ")


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.5, "0.5 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172_800, "2 days")]
)
def test_a_time_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words
