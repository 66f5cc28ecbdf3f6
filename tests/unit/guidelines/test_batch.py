"""Caps on global batch size and nodes, how a batch is shared out, and that what a person types wins."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.guidelines.batch import (
    Batch,
    KnownBatches,
    batch_cap,
    below_square_root,
    bound_of,
    node_cap,
    possible_batches,
    smallest_efficient_batch,
    typed_batch,
)
from hpclaunch.guidelines.efficiency import CriticalBatch, NoiseScale
from hpclaunch.guidelines.published import published_for

NOISE = NoiseScale(value=900, low=700, high=1200, steps=1000)


@pytest.mark.parametrize(("samples", "root"), [(50_000, 223), (262_144, 511), (262_145, 512), (1, 1), (2, 1), (5, 2)])
def test_the_batch_stays_below_the_square_root(samples: int, root: int) -> None:
    assert below_square_root(samples) == root


@given(st.integers(2, 10**15))
def test_it_is_the_largest_that_does(samples: int) -> None:
    root = below_square_root(samples)
    assert root**2 < samples <= (root + 1) ** 2


def test_an_automatic_batch_obeys_the_square_root() -> None:
    cap = batch_cap(50_000, KnownBatches(critical=CriticalBatch(samples=900)))
    assert (cap.batch, cap.origin, cap.reason.warning) == (223, "computed", "")
    assert [number.name for number in cap.reason.numbers] == ["B", "sqrt(N)", "B_crit"]


def test_a_larger_trustworthy_noise_scale_takes_its_place() -> None:
    cap = batch_cap(50_000, KnownBatches(noise=NOISE))
    assert (cap.batch, cap.origin) == (900, "profile")
    assert "224" in cap.reason.verdict


GOYAL = published_for("imagenet", "sgd")


@pytest.mark.parametrize(
    ("samples", "known", "batch", "origin"),
    [
        (1_281_167, KnownBatches(), 1131, "computed"),
        (1_281_167, KnownBatches(tuned=256), 1131, "computed"),
        (1_281_167, KnownBatches(tuned=2048), 2048, "given"),
        (1_281_167, KnownBatches(tuned=2048, published=GOYAL), 8192, "default"),
        (
            1_281_167,
            KnownBatches(published=GOYAL, noise=replace(NOISE, value=9000, low=8000, high=10_000)),
            9000,
            "profile",
        ),
        (1_281_167, KnownBatches(noise=NOISE), 1131, "computed"),
        (5000, KnownBatches(published=GOYAL), 5000, "default"),
    ],
)
def test_the_largest_of_rule_and_evidence_bounds_the_batch(
    samples: int, known: KnownBatches, batch: int, origin: str
) -> None:
    bound, cap = bound_of(samples, known), batch_cap(samples, known)
    assert (bound.batch, bound.origin) == (cap.batch, cap.origin) == (batch, origin)
    assert ("in place of sqrt(N)" in cap.reason.verdict) == (origin != "computed")
    assert not batch_cap(samples, known, typed=batch).reason.warning
    assert bound.what in batch_cap(samples, known, typed=batch + 1).reason.warning or origin == "computed"


@pytest.mark.parametrize(
    "noise",
    [
        NoiseScale(value=900, low=700, high=1200, steps=999),
        NoiseScale(value=900, low=449, high=1200, steps=5000),
        NoiseScale(value=900, low=700, high=1801, steps=5000),
    ],
)
def test_an_uncertain_one_does_not(noise: NoiseScale) -> None:
    assert batch_cap(50_000, KnownBatches(noise=noise)).batch == 223


def test_a_typed_batch_wins_with_one_line_that_shows_the_numbers() -> None:
    cap = batch_cap(50_000, KnownBatches(critical=CriticalBatch(samples=900)), typed=4096)
    assert (cap.batch, cap.origin) == (4096, "typed")
    words = "the global batch size B = 4096 is above the recommended sqrt(N) = 224 (B_crit = 900)"
    assert cap.reason.warning == f"{words}: a larger batch gains less from each sample"
    assert "B_crit = not known" in batch_cap(50_000, typed=4096).reason.warning


def test_beside_a_measured_noise_scale_a_larger_batch_is_compared_with_it() -> None:
    noise = NoiseScale(value=900, low=700, high=1100, steps=2000)
    known = KnownBatches(noise=noise, critical=CriticalBatch(samples=900))
    warning = batch_cap(50_000, known, typed=4096).reason.warning
    assert "is above 900 samples, the measured noise scale (sqrt(N) = 224, B_crit = 900)" in warning


@pytest.mark.parametrize(("typed", "more"), [(50_000, False), (50_001, True)])
def test_a_batch_of_more_than_all_samples_is_said_so(typed: int, more: bool) -> None:
    assert ("the data set has only 50000 samples" in batch_cap(50_000, typed=typed).reason.warning) == more


@pytest.mark.parametrize(("typed", "noise"), [(223, None), (900, NOISE)])
def test_a_typed_batch_within_the_rule_has_no_warning(typed: int, noise: NoiseScale | None) -> None:
    assert not batch_cap(50_000, KnownBatches(noise=noise), typed=typed).reason.warning


@pytest.mark.parametrize(
    ("fixed", "per_sample", "batch"), [(0.01, 0.01, 4), (0.02, 0.001, 80), (0, 0.01, 1), (0.0101, 0.01, 5)]
)
def test_a_batch_per_rank_is_large_enough_when_fixed_time_is_a_fifth(
    fixed: float, per_sample: float, batch: int
) -> None:
    assert smallest_efficient_batch(fixed, per_sample) == batch


def test_where_the_host_works_ahead_samples_are_work_for_four_fifths_of_its_launches() -> None:
    # 16 samples of 1 ms in a step of 20 ms, which the launches take
    assert smallest_efficient_batch(0.02, 0.001, launches_ahead=True) == 16


@pytest.mark.parametrize(
    ("cap", "ranks", "largest", "per_rank"),
    [
        (223, 4, 512, [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 54]),
        (223, 4, 40, [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40]),  # memory
        (223, 112, 512, [1]),
        (223, 224, 512, []),  # strong scaling ends
    ],
)
def test_possible_batches(cap: int, ranks: int, largest: int, per_rank: list[int]) -> None:
    found = possible_batches(cap, ranks, largest)
    assert found == [Batch(per_rank=size, replicas=ranks) for size in per_rank]


def test_more_samples_than_fit_are_micro_batches() -> None:
    found = possible_batches(223, 4, 20, accumulates=True)
    assert [(batch.per_rank, batch.accumulation) for batch in found[-5:]] == [
        (16, 1),
        (12, 2),
        (16, 2),
        (16, 3),
        (18, 3),
    ]


@given(st.integers(1, 10**6), st.integers(1, 4096), st.integers(1, 1024), st.booleans())
def test_no_automatic_batch_breaks_cap_or_memory(cap: int, ranks: int, largest: int, accumulates: bool) -> None:
    found = possible_batches(cap, ranks, largest, accumulates=accumulates)
    assert bool(found) == (ranks <= cap)
    for batch in found:
        assert ranks <= batch.total <= cap and batch.per_rank <= largest
        assert accumulates or batch.accumulation == 1


def test_a_typed_batch_is_made_exactly() -> None:
    assert typed_batch(4096, 8, largest=512) == Batch(per_rank=512, replicas=8)
    assert typed_batch(4096, 8, largest=200) == Batch(per_rank=128, replicas=8, accumulation=4)
    with pytest.raises(ValueError, match="evenly among 3 replicas"):
        typed_batch(4096, 3, largest=512)


@given(st.integers(1, 64), st.integers(1, 5000), st.integers(1, 600))
def test_it_always_fits(ranks: int, each: int, largest: int) -> None:
    found = typed_batch(ranks * each, ranks, largest=largest)
    assert found.total == ranks * each and found.per_rank <= largest


@pytest.mark.parametrize(
    ("available", "nodes", "origin"), [(None, 64, "default"), (1000, 64, "default"), (8, 8, "site")]
)
def test_automatic_nodes_are_at_most_64(available: int | None, nodes: int, origin: str) -> None:
    cap = node_cap(available)
    assert (cap.nodes, cap.origin, cap.reason.warning) == (nodes, origin, "")


@pytest.mark.parametrize(("typed", "warned"), [(64, False), (65, True)])
def test_typed_nodes_win(typed: int, warned: bool) -> None:
    cap = node_cap(8, typed=typed)
    assert (cap.nodes, cap.origin, bool(cap.reason.warning)) == (typed, "typed", warned)


@pytest.mark.parametrize("wrong", [0, -1, math.nan])
def test_nonsense_is_named(wrong: float) -> None:
    with pytest.raises(ValueError, match="samples = "):
        below_square_root(wrong)  # type: ignore[arg-type]
