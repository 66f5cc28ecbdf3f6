from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.core.units import format_memory, format_walltime, parse_memory, parse_walltime


@given(st.integers(min_value=1, max_value=10**9))
def test_a_walltime_is_read_back_as_it_was_written(seconds: int) -> None:
    assert parse_walltime(format_walltime(seconds)) == seconds


@given(st.integers(min_value=1, max_value=10**12))
def test_memory_is_read_back_as_it_was_written(megabytes: int) -> None:
    assert parse_memory(format_memory(megabytes)) == megabytes


@given(st.floats(min_value=0.001, max_value=10**6, allow_nan=False), st.sampled_from("KMGT"))
def test_memory_is_never_rounded_down(number: float, unit: str) -> None:
    exact = float(f"{number:.3f}") * {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}[unit]
    with contextlib.suppress(ValueError):
        assert exact <= parse_memory(f"{number:.3f}{unit}") < exact + 1


@given(st.text())
def test_any_text_is_a_walltime_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert parse_walltime(text) > 0


@given(st.text())
def test_any_text_is_memory_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert parse_memory(text) > 0
