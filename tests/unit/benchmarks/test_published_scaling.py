"""Predictions against published tables: every bar of the benchmark holds, and no row is told twice."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[3] / "benchmarks"
if not FOLDER.exists():
    pytest.skip("group checkout: an sdist holds no benchmarks", allow_module_level=True)


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        patch.delitem(sys.modules, "published_scaling", raising=False)
        import published_scaling

        return published_scaling


def test_every_bar_holds(benchmark: ModuleType) -> None:
    bars = benchmark.held(benchmark.measure(), benchmark.guesses())
    assert len(bars) == 16
    assert [bar for bar, held in bars.items() if not held] == []


def test_a_series_of_two_sizes_is_calibrated_on_the_smallest_alone(benchmark: ModuleType) -> None:
    for series in benchmark.tables.SERIES:
        assert series.calibrating == (1 if len(series.ranks) == 2 else 2)
        assert len(series.ranks) == len(series.measured)
        assert list(series.ranks) == sorted(set(series.ranks))
    names = [(series.table, series.name) for series in benchmark.tables.SERIES]
    assert len(names) == len(set(names))


def test_the_script_says_which_constants_were_chosen_in_sight_of_what(benchmark: ModuleType) -> None:
    assert len(benchmark.CHOSEN) >= 7
    assert all(":" in text for text in benchmark.CHOSEN)
