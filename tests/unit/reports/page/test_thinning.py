"""Series with fewer points keep their extremes, their ends and their gaps."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.reports.page.amounts import bytes_in_words, duration, readable, time_axis
from hpclaunch.reports.page.thinning import MOST_HEAT_ROWS, MOST_POINTS, kept, pooled, thin_rows, thin_series


@given(st.lists(st.floats(allow_nan=True, allow_infinity=False), min_size=1, max_size=3000))
def test_ends_extremes_and_order_are_kept(values: list[float]) -> None:
    places = kept(values)
    assert places == sorted(set(places))
    assert len(places) <= MOST_POINTS
    assert (places[0], places[-1]) == (0, len(values) - 1)
    finite = [value for value in values if math.isfinite(value)]
    drawn = [values[place] for place in places if math.isfinite(values[place])]
    assert (not finite) or (min(drawn), max(drawn)) == (min(finite), max(finite))


def test_the_last_point_is_drawn_although_it_is_no_extreme() -> None:
    values = [float(place % 7) for place in range(5000)]
    values[-3:] = [0.0, 6.0, 3.0]
    series = thin_series("x", list(range(5000)), values)
    assert (series.x[0], series.x[-1], series.y[-1]) == (0, 4999, 3.0)


def test_a_peak_is_drawn_wherever_it_is() -> None:
    for peak in (1, 2500, 4998):
        values = [0.0] * 5000
        values[peak] = 9.0
        assert peak in kept(values)


def test_a_gap_stays_a_gap() -> None:
    values = [1.0] * 5000
    values[2500] = math.nan
    series = thin_series("x", list(range(5000)), values)
    assert any(isinstance(value, float) and math.isnan(value) for value in series.y)


def test_rows_of_many_ranks_show_the_largest_of_neighbours() -> None:
    values = [[0.1, None] for _ in range(1024)]
    values[777][0] = 9.0
    labels, rows = pooled([str(rank) for rank in range(1024)], values)
    assert len(rows) == MOST_HEAT_ROWS
    assert labels[0] == "0-7"
    assert max(row[0] for row in rows if row[0] is not None) == 9.0
    assert all(row[1] is None for row in rows)


def test_the_rows_of_a_table_reach_from_the_first_to_the_last() -> None:
    rows = thin_rows([(place,) for place in range(1000)], 7)
    assert (len(rows), rows[0], rows[-1]) == (7, (0,), (999,))


def test_amounts_in_words() -> None:
    assert [duration(value) for value in (0.314, 45.2, 61, 3600, 90061, None, math.inf)] == [
        *("0.31 s", "45 s", "1 min 1 s", "1 h", "1 d 1 h", "not known", "not known")
    ]
    assert [bytes_in_words(value) for value in (0, 999, 1500, 2e15)] == ["0 B", "999 B", "1.5 kB", "2 PB"]
    assert [time_axis([0, span]).unit for span in (10, 1000, 10_000, 1e6)] == ["s", "min", "h", "days"]
    assert readable("a\x1b[31m\u202eb\nc") == "a�[31m�b\nc"
