"""Scaling, warm-up and decay of the learning rate, and the choice of optimizer."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hpclaunch
from hpclaunch.guidelines.efficiency import CriticalBatch
from hpclaunch.guidelines.optimizers import choose_optimizer
from hpclaunch.guidelines.published import PUBLISHED, TaskFacts
from hpclaunch.guidelines.rates import (
    DECAYS,
    SOURCES,
    BaseRate,
    choose_decay,
    decay_factor,
    factor,
    lars_rate,
    rule_for,
    rule_named,
    scale_rate,
    warm_up,
)


@pytest.mark.parametrize(
    ("rule", "growth", "expected"),
    [("none", 8, 1), ("linear", 8, 8), ("sqrt", 16, 4), ("power23", 8, 4), ("linear", 0.5, 0.5)],
)
def test_factors(rule: str, growth: float, expected: float) -> None:
    assert factor(rule, growth) == pytest.approx(expected)  # type: ignore[arg-type]


def test_adascale_is_linear_for_a_noisy_gradient_and_saturates_for_a_clear_one() -> None:
    assert factor("adascale", 8, noise_to_base=1e9) == pytest.approx(8)
    assert factor("adascale", 1e12, noise_to_base=3) == pytest.approx(4)
    with pytest.raises(ValueError, match="noise scale"):
        factor("adascale", 8)


@pytest.mark.parametrize(
    ("optimizer", "rule"),
    [
        ("SGD", "linear"),
        ("momentum", "linear"),
        ("Adam", "sqrt"),
        ("AdamW", "sqrt"),
        ("LARS", "sqrt"),
        ("LAMB", "sqrt"),
    ],
)
def test_the_usual_rule(optimizer: str, rule: str) -> None:
    assert rule_for(optimizer) == rule


@pytest.mark.parametrize(("batch", "rate"), [(64, 0.001), (256, 0.004), (512, 0.008), (1024, 0.016)])
def test_cosmoflows_rates_are_linear(batch: int, rate: float) -> None:
    assert scale_rate(BaseRate(rate=0.001, batch=64), batch, "sgd").scaled == pytest.approx(rate)


def critical(samples: float | None) -> TaskFacts:
    return TaskFacts(critical=CriticalBatch(samples=samples))


def test_linear_scaling_stops_at_the_critical_batch() -> None:
    found = scale_rate(BaseRate(rate=0.1, batch=256), 8192, "sgd", facts=critical(1024))
    assert found.factor == 4 and "stops at B_crit = 1024" in found.reason.verdict
    # The base is beyond it already.
    assert scale_rate(BaseRate(rate=0.1, batch=256), 512, "sgd", facts=critical(100)).factor == 1
    assert scale_rate(BaseRate(rate=0.1, batch=256), 128, "sgd", facts=critical(100)).factor == 0.5


@pytest.mark.parametrize(("batch", "rate"), [(512, 0.008), (1024, 0.016), (4096, 0.016)])
def test_or_at_the_published_batch_of_the_task(batch: int, rate: float) -> None:
    facts = TaskFacts(name="cosmoflow", critical=CriticalBatch(samples=384))
    found = scale_rate(BaseRate(rate=0.001, batch=64), batch, "momentum", facts=facts)
    assert found.scaled == pytest.approx(rate)
    assert ("stops at the published 1024 samples" in found.reason.verdict) == (batch > 1024)


def test_a_typed_rule_wins() -> None:
    found = scale_rate(BaseRate(rate=0.1, batch=256), 2048, "adam", rule="power23")
    assert (found.scaled, found.origin) == (pytest.approx(0.4), "typed")
    assert found.reason.verdict.endswith("(power 2/3 scaling)")


def test_rules_and_decays_have_the_names_of_the_parameters() -> None:
    file = Path(hpclaunch.__file__).parent / "training" / "parameters.json"
    row = json.loads(file.read_text())["groups"]["learning_rate"]
    assert [rule_named(name) for name in row["scale_learning_rate"]["choices"]] == [*SOURCES]
    assert {"constant", *DECAYS} == {*row["decay"]["choices"]}
    assert rule_named("power 2/3") is None


def test_adascale_uses_the_measured_noise_scale() -> None:
    found = scale_rate(BaseRate(rate=0.1, batch=256), 2048, "sgd", rule="adascale", facts=TaskFacts(noise=768))
    assert found.factor == pytest.approx(4 / (1 + 768 / 2048))


@given(st.floats(1, 1e4), st.floats(1, 1e4), st.sampled_from(["none", "sqrt", "power23", "linear", "adascale"]))
def test_a_larger_batch_never_has_a_smaller_rate_and_never_more_than_linear(
    one: float, other: float, rule: str
) -> None:
    small, large = sorted((one, other))
    factors = [factor(rule, growth, noise_to_base=5.0) for growth in (small, large)]  # type: ignore[arg-type]
    assert factors[0] <= factors[1] <= large * (1 + 1e-9)


@pytest.mark.parametrize(
    ("optimizer", "batch", "epochs"),
    [
        ("sgd", 256, 0),
        ("sgd", 257, 2),
        ("sgd", 2048, 2),
        ("sgd", 2049, 5),
        ("lamb", 2048, 2),
        ("lamb", 2304, 5),  # 2.25 of LEGW, which was shorter than that of SGD
        ("lars", 4096, 5),
        ("lamb", 8192, 8),
        ("lars", 65_536, 10),
    ],
)
def test_warm_up(optimizer: str, batch: int, epochs: float) -> None:
    assert warm_up(batch / 256, optimizer).epochs == epochs


@pytest.mark.parametrize(("own", "epochs"), [(1.0, 1), (4.0, 4), (30.0, 10)])
def test_the_jobs_own_warm_up_is_kept_up_to_10_epochs(own: float, epochs: float) -> None:
    assert warm_up(16, "sgd", epochs=60, own=own).epochs == epochs


@pytest.mark.parametrize(
    ("own", "run", "epochs"),
    [(5.0, 1.0, 0.2), (5.0, 5.0, 1.0), (5.0, 6.0, 5.0), (80.0, 60.0, 10)],
)
def test_the_jobs_own_warm_up_never_fills_the_run(own: float, run: float, epochs: float) -> None:
    assert warm_up(16, "sgd", epochs=run, own=own).epochs == pytest.approx(epochs)


def test_a_typed_warm_up_is_kept_and_one_that_fills_the_run_is_warned_of() -> None:
    long = warm_up(16, "sgd", epochs=3, own=30, typed=True)
    assert long.epochs == 30
    assert long.reason.warning == "warm-up of 30 epochs kept as typed: the run of 3 epochs ends in it"
    short = warm_up(16, "sgd", epochs=90, own=30, typed=True)
    assert (short.epochs, short.reason.warning) == (30, "")


@given(
    st.floats(1, 1e5),
    st.floats(1, 1e6),
    st.sampled_from(["sgd", "adam", "lars", "lamb"]),
    st.floats(1, 1e4),
    st.floats(0, 100),
)
def test_no_warm_up_is_longer_than_10_epochs(base: float, batch: float, name: str, epochs: float, own: float) -> None:
    assert 0 <= warm_up(batch / base, name, epochs=epochs, own=own).epochs <= 10


def test_warm_up_is_never_most_of_the_run() -> None:
    assert warm_up(256, "lars", epochs=40).epochs == 8


@pytest.mark.parametrize(
    ("name", "epoch", "expected"),
    [
        ("cosine", 0, 1),
        ("cosine", 45, 0.5),
        ("cosine", 90, 0),
        ("polynomial", 45, 0.25),
        ("exponential", 10, math.exp(-1)),
        ("inverse", 10, 0.5),
        ("step", 29, 1),
        ("step", 30, 0.1),
        ("step", 60, 0.01),
        ("step", 90, 0.01),
    ],
)
def test_decay(name: str, epoch: float, expected: float) -> None:
    assert decay_factor(name, epoch, 90, power=2, rate=0.1) == pytest.approx(expected)


@given(st.sampled_from(list(DECAYS)), st.floats(0, 100), st.floats(0, 100))
def test_decay_never_rises(name: str, one: float, other: float) -> None:
    early, late = sorted((one, other))
    assert 1 >= decay_factor(name, early, 90, rate=0.1) >= decay_factor(name, late, 90, rate=0.1) >= 0


@pytest.mark.parametrize(("own", "words"), [("step", "step: "), ("inverse", "1/t: "), ("own", "own, ")])
def test_the_jobs_own_decay_is_kept(own: str, words: str) -> None:
    found = choose_decay("sgd", own=own)
    assert found.name == own and own not in found.others
    assert found.reason.verdict.startswith(words)
    assert found.reason.verdict.endswith("the job's own schedule")


def test_an_unknown_decay_lists_the_five() -> None:
    with pytest.raises(ValueError, match="step, exponential, inverse, polynomial, cosine"):
        decay_factor("linear", 1, 2)


@pytest.mark.parametrize(
    ("optimizer", "name", "power"), [("LARS", "polynomial", 2), ("lamb", "polynomial", 1), ("sgd", "cosine", 0)]
)
def test_the_decay_to_try_first(optimizer: str, name: str, power: float) -> None:
    found = choose_decay(optimizer)
    assert (found.name, found.power) == (name, power)
    assert {found.name, *found.others} == set(DECAYS)


@pytest.mark.parametrize(
    ("batch", "low", "high"), [(1664, 7, 8), (3264, 10, 11), (8192, 16, 17), (32_768, 21, 29), (65_536, 23, 25)]
)
def test_lars_own_rate_is_near_those_of_mlperf(batch: int, low: float, high: float) -> None:
    assert low <= lars_rate(batch).scaled <= high


@pytest.mark.parametrize(
    ("current", "batch", "limit", "name"),
    [
        ("sgd", 8192, None, "sgd"),
        ("sgd", 8193, None, "lars"),
        ("momentum", 401, 100, "lars"),
        ("Adam", 8193, None, "Adam"),
        ("Adam", 400, 100, "Adam"),
        ("Adam", 401, 100, "lamb"),
        ("lamb", 10**6, 100, "lamb"),
    ],
)
def test_the_optimizer_changes_only_for_an_extreme_batch(current: str, batch: int, limit: float, name: str) -> None:
    found = choose_optimizer(current, batch, facts=TaskFacts(critical=CriticalBatch(samples=limit)))
    assert (found.name, found.changed) == (name, name != current)


@pytest.mark.parametrize(
    ("task", "current", "batch", "name"),
    [
        ("cifar-10", "adam", 4096, "adam"),
        ("cifar-10", "adam", 8192, "adam"),  # LAMB was not published for a larger batch
        ("cifar-10", "sgd", 8192, "lars"),  # nothing was published for SGD
        ("imagenet", "momentum", 8192, "momentum"),
        ("imagenet", "momentum", 8193, "lars"),  # LARS was published for 65,536
        ("cosmoflow", "sgd", 2048, "sgd"),
    ],
)
def test_an_optimizer_is_kept_up_to_published_batches(task: str, current: str, batch: int, name: str) -> None:
    facts = TaskFacts(name=task, bound=200, critical=CriticalBatch(samples=300))
    found = choose_optimizer(current, batch, facts=facts)
    assert found.name == name
    rows = [row for row in PUBLISHED if (row.task, row.optimizer) == (task, found.name.replace("momentum", "sgd"))]
    is_beyond = any(batch > row.batch for row in rows)
    assert found.reason.warning.startswith(f"B = {batch} is beyond what was measured") == is_beyond


def test_a_batch_within_the_bound_of_a_large_data_set_is_not_extreme() -> None:
    assert choose_optimizer("sgd", 30_000, facts=TaskFacts(bound=31_622)).name == "sgd"
    assert choose_optimizer("sgd", 32_000, facts=TaskFacts(bound=31_622)).name == "lars"


def test_a_typed_optimizer_is_kept_with_a_warning() -> None:
    found = choose_optimizer("sgd", 32768, typed=True)
    assert (found.name, found.changed) == ("sgd", False)
    assert "lars is made for it" in found.reason.warning
    assert any("Nado" in caution for caution in found.cautions)


@pytest.mark.parametrize(
    ("offered", "name"), [(None, "lars"), (("sgd", "lars"), "lars"), (("sgd", "adam"), "sgd"), ((), "sgd")]
)
def test_only_an_optimizer_that_the_job_can_be_told_takes_its_place(offered: tuple[str, ...] | None, name: str) -> None:
    found = choose_optimizer("sgd", 32768, offered=offered)
    assert found.name == name
    assert ("because the job does not offer lars" in found.reason.warning) == (name == "sgd")
