"""Epochs by batch size: flat up to published batches, then the law, with the range of an unknown critical batch."""

from __future__ import annotations

import math
from statistics import mean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.guidelines.efficiency import TASKS, CriticalBatch
from hpclaunch.guidelines.epochs import (
    PRESUMED_RATIO,
    PRESUMED_SPREAD,
    EpochsModel,
    fixed_epochs,
    presumed_critical_batch,
)
from hpclaunch.guidelines.intervals import Z90
from hpclaunch.guidelines.published import PUBLISHED, published_for

SAMPLES = {
    "mnist": 60_000,
    "svhn": 73_257,
    "cifar-10": 50_000,
    "imagenet": 1_281_167,
    "cosmoflow": 262_144,
    "deepcam": 121_266,
    "oc20": 2_000_000,
}
MORE = ((524_288, 831), (1_281_167, 43_500))  # CosmoFlow v1.0; ImageNet with LARS


def a_law(**more: object) -> EpochsModel:
    return EpochsModel(**{"epochs": 50, "flat": 64, "critical": CriticalBatch(samples=384), **more})  # type: ignore[arg-type]


def test_flat_and_then_the_law() -> None:
    law = a_law(flat=512)
    assert [law.at(batch).middle for batch in (1, 64, 512)] == [50, 50, 50]
    assert law.at(1024).middle == pytest.approx(50 * (1 + 1024 / 384) / (1 + 512 / 384))


def test_cosmoflows_logs() -> None:
    # Median epochs of MLPerf HPC v0.7: 50 at 64, 69 at 256, 102 at 512, 161 at 1024.
    assert [a_law().at(batch).middle for batch in (256, 512, 1024)] == pytest.approx([69, 102, 161], rel=0.05)


def test_an_uncertain_critical_batch_makes_a_range() -> None:
    found = a_law(critical=CriticalBatch(samples=400, origin="default", spread=2.0)).at(1024)
    certain = [a_law(critical=CriticalBatch(samples=samples)).at(1024).middle for samples in (800, 400, 200)]
    assert [found.low, found.middle, found.high] == pytest.approx(certain)
    assert a_law(critical=CriticalBatch(samples=400, spread=2.0)).at(64).low == 50


def test_what_is_presumed_of_an_unknown_task_is_what_is_known_of_the_others() -> None:
    known = [(SAMPLES[task], critical) for task, critical in TASKS.items()] + list(MORE)
    ratios = [math.log(critical / math.sqrt(samples)) for samples, critical in known]
    assert math.exp(mean(ratios)) == pytest.approx(PRESUMED_RATIO, rel=0.03)
    assert math.exp(Z90 * stdev(ratios)) == pytest.approx(PRESUMED_SPREAD, rel=0.03)
    assert presumed_critical_batch(1_000_000).samples == pytest.approx(2800)


@given(
    st.floats(1, 1e4),
    st.floats(1, 1e5),
    st.floats(10, 1e6),
    st.floats(1, 10),
    st.floats(1, 1e6),
    st.floats(1, 1e6),
)
def test_a_larger_batch_never_takes_fewer_epochs(
    epochs: float, flat: float, critical: float, spread: float, one: float, other: float
) -> None:
    law = EpochsModel(epochs=epochs, flat=flat, critical=CriticalBatch(samples=critical, spread=spread))
    small, large = (law.at(batch) for batch in sorted((one, other)))
    assert epochs <= small.low <= small.middle <= small.high
    assert small.middle <= large.middle * (1 + 1e-9)


def test_fixed_epochs_do_not_depend_on_the_batch() -> None:
    assert fixed_epochs(7).at(1e9).high == 7
    assert fixed_epochs(7).pareto is None and a_law().pareto is not None


def test_the_reasoning_names_the_publication() -> None:
    row = published_for("imagenet", "momentum")
    assert row is not None and row.batch == 8192
    law = a_law(flat=row.batch, row=row)
    assert law.explain(4096).verdict == "50 epochs, as with the job's own batch size"
    assert law.explain(9000).verdict == "54.7 epochs to the target"
    assert "Goyal et al. 2017" in law.explain(4096).source


def test_every_row_of_the_table_has_a_source_and_a_known_task() -> None:
    assert all(row.source and row.task in TASKS for row in PUBLISHED)
    assert len({(row.task, row.optimizer) for row in PUBLISHED}) == len(PUBLISHED)
