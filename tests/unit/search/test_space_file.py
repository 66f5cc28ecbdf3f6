"""The space file: its short and its long forms, and what is wrong with one."""

from __future__ import annotations

from typing import Any

import pytest

from hpclaunch.core.errors import Fault
from hpclaunch.search.sampling import values_by_number
from hpclaunch.search.space_file import terms_of, unsaid_ranges
from hpclaunch.search.terms import SearchTerms, faults_of


def read(**content: Any) -> tuple[SearchTerms, list[Fault]]:
    faults: list[Fault] = []
    return terms_of(content, "space.yaml", {"layers"}, faults), faults


def test_lists_ranges_and_scales_are_read() -> None:
    terms, faults = read(
        parameters={
            "batch": [8, 32],
            "seed": "1..5",
            "learning_rate": {"min": 0.001, "max": 0.1, "scale": "log", "points": 3},
            "momentum": {"min": 0.8, "max": 1.0, "step": 0.1},
            "noise": {"mean": 0, "deviation": 2},
        },
        metric="val_accuracy",
        sampler="random",
        trials=30,
    )
    assert not faults
    assert [one.count for one in terms.space.dimensions] == [2, 5, None, 3, None]
    assert not terms.is_minimized
    assert terms.total == 30


@pytest.mark.parametrize(
    ("name", "row", "is_whole"),
    [
        ("x", {"min": 0, "max": 1}, False),
        ("x", {"min": 1, "max": 64, "scale": "log"}, False),
        ("x", {"min": 0, "max": 1, "int": True}, True),
        ("x", {"min": 0, "max": 1, "int": False}, False),
        ("x", {"min": 0, "max": 10, "step": 2}, True),
        ("x", {"min": 0, "max": 10, "step": 2, "int": False}, False),
        ("x", {"min": 0, "max": 1, "step": 0.5}, False),
        ("layers", {"min": 1, "max": 4}, True),
        ("layers", {"min": 1, "max": 4.5}, False),
        ("x", "1..4", True),
        ("x", {"min": 0, "max": 1, "type": "int"}, True),
        ("x", {"min": 0, "max": 1, "type": "float"}, False),
        ("x", {"mean": 3, "deviation": 1, "int": True}, True),
        ("x", {"mean": 3, "deviation": 1}, False),
    ],
)
def test_a_range_has_whole_numbers_only_if_it_or_the_job_says_so(name: str, row: Any, is_whole: bool) -> None:
    terms, faults = read(parameters={name: row})
    assert not faults
    assert terms.space.dimensions[0].whole == is_whole


def test_a_range_between_whole_ends_has_all_numbers_between_them() -> None:
    terms, _ = read(parameters={"x": {"min": 0, "max": 1}}, sampler="random", trials=50)
    values = [value["x"] for number in range(50) if (value := values_by_number(terms.space, "random", 3)(number))]
    assert len(set(values)) == 50
    assert all(isinstance(value, float) and 0 < value < 1 for value in values)


def test_ranges_that_could_mean_whole_numbers_are_known() -> None:
    rows = {
        "a": {"min": 0, "max": 1},
        "b": {"min": 1, "max": 8, "scale": "log", "points": 3},
        "c": {"min": 0, "max": 1, "int": False},
        "d": {"min": 0.0, "max": 1},
        "e": {"min": 0, "max": 4, "step": 1},
        "f": [0, 1],
        "g": "0..3",
    }
    assert unsaid_ranges({"parameters": rows}) == ["a", "b"]
    assert unsaid_ranges({"parameters": 3}) == []


def test_every_mistake_is_named() -> None:
    _, faults = read(
        parameters={
            "a": {"min": 3},
            "b": {"values": [1], "min": 2},
            "c": {"min": 0, "max": 1, "scale": "log"},
            "d": {"minimum": 1, "max": 2},
            "e": 3,
            "f": {"mean": 1},
            "g": {"min": 1, "max": 2.5, "type": "int"},
            "h": {"min": 1, "max": 2, "step": -1},
            "i": {"min": 1, "max": 2, "int": "yes"},
            "j": {"min": 1, "max": 2.5, "int": True},
        },
        sampler="gird",
        metrc="x",
        trials=0,
    )
    text = "\n".join(map(str, faults))
    for name in "abcdefghij":
        assert f"parameters.{name}" in text
    assert "did you mean 'grid'" in text
    assert "did you mean 'metric'" in text
    assert "'trials'" in text or "trials" in text


def test_terms_that_cannot_be_met_are_refused() -> None:
    terms, _ = read(parameters={"dropout": {"min": 0, "max": 1}})
    assert "how many values" in str(faults_of(terms)[0])
    assert faults_of(terms)[0].next.startswith("one of: int: true; points: 5; step: 0.1 (")
    terms, _ = read(parameters={"dropout": {"min": 0, "max": 0.5}})
    assert faults_of(terms)[0].next.startswith("one of: points: 5; step: 0.1 (")
    terms, _ = read(parameters={"n": {"mean": 0, "deviation": 1}}, sampler="tpe", metric="loss", trials=3)
    assert "no normal distributions" in str(faults_of(terms)[0])
    terms, _ = read(parameters={"n": [1, 2]}, sampler="tpe")
    assert "name of a metric" in str(faults_of(terms)[0])
    terms, _ = read(parameters={"n": [1, 2]}, sampler="tpe", metric="loss", repeats=2)
    assert "every combination once" in str(faults_of(terms)[0])
    terms, _ = read(parameters={f"n{number}": "1..1000" for number in range(3)})
    assert "1000000000 trials" in str(faults_of(terms)[0])
