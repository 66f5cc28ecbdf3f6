"""Results: the best trial, the best so far, importance, tables and CSV."""

from __future__ import annotations

import csv
import io

from hpclaunch.search.events import TrialBegin, TrialEnd
from hpclaunch.search.importance import importances
from hpclaunch.search.results import best_of, best_so_far, cells_of, columns_of, csv_of, json_of, ranked, summary_of
from hpclaunch.search.space import Dimension, SearchSpace
from hpclaunch.search.table import TrialTable
from hpclaunch.search.terms import SearchTerms

SPACE = SearchSpace(
    dimensions=(Dimension(name="a", low=0, high=9, whole=True), Dimension(name="note", values=("x,y", 'q"', "n")))
)
TERMS = SearchTerms(space=SPACE, metric="loss")


def searched() -> TrialTable:
    """30 trials with the value a squared; trial 7 failed, trial 29 runs."""
    table = TrialTable()
    for number in range(30):
        values = SPACE.at(number)
        table.add(TrialBegin(number, 1, float(number), values, "n1", "0", ""), 1)
        value = float(values["a"]) ** 2
        if number == 7:
            table.add(TrialEnd(number, 1, number + 2.0, "FAILED", None, 3, "it failed"), 1)
        elif number < 29:
            table.add(TrialEnd(number, 1, number + 2.0, "COMPLETED", value), 1)
    return table


def test_the_best_is_the_first_with_the_best_value_in_either_direction() -> None:
    rows = list(searched().rows())
    best, worst = best_of(rows, TERMS), best_of(rows, SearchTerms(space=SPACE, metric="loss", direction="maximize"))
    assert best is not None and worst is not None
    assert (best.number, worst.value) == (0, 81.0)
    assert best_of(rows, SearchTerms(space=SPACE)) is None


def test_the_best_so_far_only_improves() -> None:
    points = best_so_far(searched().rows(), SearchTerms(space=SPACE, metric="accuracy"))
    assert [value for _, value in points] == [float(n * n) for n in range(10)]
    assert points[0][0] == 2.0


def test_the_parameter_that_decides_has_the_importance() -> None:
    shares = importances(list(searched().rows()), SPACE)
    assert [*shares] == ["a", "note"]
    assert shares["a"] > 0.99
    assert shares["note"] < 0.1
    assert importances(list(searched().rows())[:5], SPACE) == {}


def test_the_summary_counts_states_and_time() -> None:
    summary = summary_of(searched(), TERMS, at_once=2)
    assert summary.states == {"COMPLETED": 28, "FAILED": 1, "RUNNING": 1}
    assert (summary.total, summary.waiting) == (30, 0)
    assert summary.busy is not None
    assert round(summary.busy, 3) == round(58 / (30 * 2), 3)


def test_the_table_has_the_best_first_and_what_has_no_value_last() -> None:
    rows = ranked(searched().rows(), TERMS)
    assert [row.number for row in rows[:4]] == [0, 1, 2, 3]
    assert [row.number for row in rows[-2:]] == [7, 29]
    assert len(cells_of(rows[0], TERMS)) == len(columns_of(TERMS))


def test_csv_keeps_all_digits_and_quotes_what_needs_it() -> None:
    rows = list(searched().rows())
    lines = list(csv.DictReader(io.StringIO(csv_of(rows, TERMS))))
    assert len(lines) == 30
    assert [lines[0]["note"], lines[1]["note"]] == ["x,y", 'q"']
    assert float(lines[28]["loss"]) == 81.0
    assert json_of(rows[7])["reason"] == "it failed"


def test_no_value_of_csv_is_a_formula() -> None:
    """A value of a text parameter, the name of the metric and that of a host are what others wrote."""
    space = SearchSpace(dimensions=(Dimension(name="note", values=("=1+1", "-0.5", "@SUM(A1)")),))
    terms, table = SearchTerms(space=space, metric="=loss"), TrialTable()
    for number in range(3):
        table.add(TrialBegin(number, 1, float(number), space.at(number), "=host()", "0", ""), 1)
    header, *lines = list(csv.reader(io.StringIO(csv_of(list(table.rows()), terms))))
    assert header[2] == "'=loss"
    assert [line[3] for line in lines] == ["'=1+1", "-0.5", "'@SUM(A1)"]
    assert {line[-1] for line in lines} == {"'=host()"}
