"""The space file: its short and its long forms, and what is wrong with one."""

from __future__ import annotations

from typing import Any

from hpclaunch.core.errors import Fault
from hpclaunch.search.space_file import terms_of
from hpclaunch.search.terms import SearchTerms, faults_of


def read(**content: Any) -> tuple[SearchTerms, list[Fault]]:
    faults: list[Fault] = []
    return terms_of(content, "space.yaml", {"learning_rate", "dropout"}, faults), faults


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


def test_a_range_of_a_number_with_a_fraction_is_not_a_range_of_whole_numbers() -> None:
    terms, _ = read(parameters={"dropout": {"min": 0, "max": 1}, "layers": {"min": 1, "max": 4}})
    assert [one.whole for one in terms.space.dimensions] == [False, True]


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
        },
        sampler="gird",
        metrc="x",
        trials=0,
    )
    text = "\n".join(map(str, faults))
    for name in "abcdefgh":
        assert f"parameters.{name}" in text
    assert "did you mean 'grid'" in text
    assert "did you mean 'metric'" in text
    assert "'trials'" in text or "trials" in text


def test_terms_that_cannot_be_met_are_refused() -> None:
    terms, _ = read(parameters={"dropout": {"min": 0, "max": 1}})
    assert "how many values" in str(faults_of(terms)[0])
    terms, _ = read(parameters={"n": {"mean": 0, "deviation": 1}}, sampler="tpe", metric="loss", trials=3)
    assert "no normal distributions" in str(faults_of(terms)[0])
    terms, _ = read(parameters={"n": [1, 2]}, sampler="tpe")
    assert "name of a metric" in str(faults_of(terms)[0])
    terms, _ = read(parameters={"n": [1, 2]}, sampler="tpe", metric="loss", repeats=2)
    assert "every combination once" in str(faults_of(terms)[0])
    terms, _ = read(parameters={f"n{number}": {"min": 1, "max": 1000} for number in range(3)})
    assert "1000000000 trials" in str(faults_of(terms)[0])
