"""Trials that Optuna proposes or ends: with its real samplers, pruners and journal file."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean

import pytest

from hpclaunch.core.errors import Refused
from hpclaunch.search.adaptive import Study, missing_optuna
from hpclaunch.search.space import Dimension, SearchSpace, Values
from hpclaunch.search.terms import ADAPTIVE, SearchTerms

SPACE = SearchSpace(
    dimensions=(
        Dimension(name="x", low=-5, high=5),
        Dimension(name="n", low=1, high=64, whole=True, log=True),
        Dimension(name="kind", values=("a", "b")),
    )
)

needs_optuna = pytest.mark.skipif(find_spec("optuna") is None, reason="group search: needs the extra 'search'")


def value_of(values: Values) -> float:
    x, n = values["x"], values["n"]
    assert isinstance(x, float) and isinstance(n, int)
    return (x - 2) ** 2 + abs(n - 8) / 8 + (values["kind"] == "b")


@needs_optuna
@pytest.mark.parametrize("sampler", ["tpe", "cmaes"])
def test_a_sampler_finds_better_values_than_its_first_ones(sampler: str, tmp_path: Path) -> None:
    study = Study(SearchTerms(space=SPACE, metric="loss", sampler=sampler, seed=3), tmp_path / "journal", 1)
    found = []
    for _ in range(40):
        values, number = study.ask(None)
        found.append(value_of(values))
        study.tell(number, "COMPLETED", found[-1])
    assert fmean(found[-15:]) < fmean(found[:10])


@needs_optuna
@pytest.mark.parametrize("sampler", ADAPTIVE)
def test_every_sampler_proposes_values_of_the_space(sampler: str, tmp_path: Path) -> None:
    values, number = Study(SearchTerms(space=SPACE, metric="loss", sampler=sampler), tmp_path / "journal", 1).ask(None)
    assert number == 0
    assert isinstance(values["x"], float) and -5 <= values["x"] <= 5
    assert isinstance(values["n"], int) and 1 <= values["n"] <= 64
    assert values["kind"] in ("a", "b")


@needs_optuna
def test_two_workers_share_one_journal(tmp_path: Path) -> None:
    terms = SearchTerms(space=SPACE, metric="loss", sampler="tpe")
    one, two = (Study(terms, tmp_path / "journal", worker) for worker in (1, 2))
    asked = [study.ask(None) for study in (one, two, one, two)]
    assert [number for _, number in asked] == [0, 1, 2, 3]
    assert len({str(values) for values, _ in asked}) == 4


@needs_optuna
def test_a_finite_space_is_tried_once(tmp_path: Path) -> None:
    space = SearchSpace(dimensions=(Dimension(name="b", values=(1, 2, 3)), Dimension(name="c", values=("x", "y"))))
    study = Study(SearchTerms(space=space, metric="loss", sampler="tpe"), tmp_path / "journal", 1)
    tried = []
    for _ in range(6):
        values, number = study.ask(None)
        tried.append(tuple(values.values()))
        study.tell(number, "COMPLETED", float(str(values["b"])))
    assert len(set(tried)) == 6


@needs_optuna
def test_a_pruner_ends_a_trial_that_is_worse_than_the_median(tmp_path: Path) -> None:
    terms = SearchTerms(space=SPACE, metric="loss", sampler="random", pruner="median")
    study = Study(terms, tmp_path / "journal", 1)
    for _ in range(6):
        _, number = study.ask({"x": 0.5, "n": 4, "kind": "a"})
        assert [study.report(number, step, 1.0) for step in range(3)] == [False] * 3
        study.tell(number, "COMPLETED", 1.0)
    _, number = study.ask({"x": 0.6, "n": 4, "kind": "a"})
    assert True in [study.report(number, step, 9.0) for step in range(3)]
    study.tell(number, "PRUNED", 9.0)


def test_without_optuna_there_is_one_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    terms = SearchTerms(space=SPACE, metric="loss", sampler="tpe", trials=3)
    (fault,) = missing_optuna(terms)
    assert "tpe" in fault.what
    assert "pip install 'hpclaunch[search]'" in fault.next
    with pytest.raises(Refused, match="hpclaunch\\[search\\]"):
        Study(terms, tmp_path / "journal", 1)
    assert missing_optuna(SearchTerms(space=SPACE, sampler="random")) == []
    assert "median" in missing_optuna(SearchTerms(space=SPACE, sampler="random", pruner="median"))[0].what
