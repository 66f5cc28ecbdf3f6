"""The configuration of Comet's optimizer: that of the article word for word, and what it cannot mean."""

from __future__ import annotations

import json

import pytest

from hpclaunch.core.errors import Fault
from hpclaunch.search.comet import plain_json, terms_in
from hpclaunch.search.terms import SearchTerms, faults_of

ARTICLE = """{
# We pick the Bayes algorithm:
"algorithm": "random",
# Declare your hyperparameters in the Vizier-inspired format:
"parameters": {
"batch_size": {
"type": "discrete",
"values": [8, 32, 128, 512]
},
},
# Declare what we will be optimizing, and how:
"spec": {
"metric": "val_loss",
"objective": "minimize",
},
}
"""


def read(text: str) -> tuple[SearchTerms, list[Fault]]:
    faults: list[Fault] = []
    return terms_in(text, "comet.json", faults), faults


def configuration(parameters: object, algorithm: str = "random", **spec: object) -> str:
    return json.dumps({"algorithm": algorithm, "parameters": parameters, "spec": {"metric": "loss", **spec}})


def test_the_articles_configuration_is_four_trials() -> None:
    terms, faults = read(ARTICLE)
    assert not faults
    assert faults_of(terms) == []
    assert (terms.sampler, terms.metric, terms.is_minimized, terms.total) == ("random", "val_loss", True, 4)
    assert terms.space.dimensions[0].values == (8, 32, 128, 512)


def test_signs_of_comments_in_a_text_are_part_of_it() -> None:
    assert json.loads(plain_json('{"a": "# no // comment, }",  // one\n "b": [1, 2, # two\n ], }')) == {
        "a": "# no // comment, }",
        "b": [1, 2],
    }


def test_every_kind_of_parameter_is_read() -> None:
    terms, faults = read(
        configuration(
            {
                "n": {"type": "integer", "min": 1, "max": 100},
                "lr": {"type": "float", "scalingType": "loguniform", "min": 0.001, "max": 0.1},
                "w": {"type": "double", "scaling_type": "normal", "mu": 5, "sigma": 2},
                "v": {"type": "float", "scalingType": "lognormal", "mu": 0, "sigma": 1, "min": 0.5, "max": 4},
                "o": {"type": "categorical", "values": ["adam", "sgd"]},
            },
            maxCombo=20,
            seed=3,
            gridSize=5,
            objective="maximize",
            minSampleSize=100,
            retryLimit=20,
        )
    )
    assert not faults
    assert (terms.trials, terms.seed, terms.is_minimized) == (20, 3, False)
    n, lr, w, v, o = terms.space.dimensions
    assert n.whole and n.grid() == (1, 26, 51, 75, 100)
    assert lr.log and len(lr.grid()) == 5
    assert (w.mean, w.deviation, v.log, v.low, o.values) == (5, 2, True, 0.5, ("adam", "sgd"))


def test_bayes_is_tpe_and_a_randomized_grid_draws_the_points_of_the_grid() -> None:
    assert read(configuration({"x": {"type": "integer", "min": 1, "max": 3}}, "bayes"))[0].sampler == "tpe"
    terms, _ = read(configuration({"x": {"type": "float", "min": 0, "max": 1}}, "grid", randomize=True, gridSize=3))
    assert (terms.sampler, terms.total) == ("random", 3)


def test_every_mistake_is_named_at_once_with_its_place() -> None:
    _, faults = read(
        configuration(
            {
                "a": {"type": "integer", "min": 5, "max": 1},
                "b": {"type": "float", "scalingType": "loguniform", "min": 0, "max": 1},
                "c": {"type": "discrete", "values": ["x"]},
                "d": {"type": "float", "scalingType": "normal", "mu": 1},
                "e": {"type": "intger", "min": 1, "max": 2},
                "f": {"type": "integer", "min": 1},
                "g": {"type": "categorical", "values": ["x", "x"]},
                "h": {"type": "float", "min": 0, "max": 1, "log": True},
            },
            "bayse",
            maxcombo=3,
        )
    )
    text = "\n".join(map(str, faults))
    for name in "abcdefgh":
        assert f"parameters.{name}" in text
    assert "did you mean 'bayes'" in text
    assert "did you mean 'maxCombo'" in text
    assert "did you mean 'integer'" in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not valid JSON"),
        ("[]", "must be a mapping"),
        ('{"algorithm": "grid"}', "parameters: must be a mapping"),
        ('{"algorithm": "grid", "parameters": {}}', "no parameter"),
        ('{"parameters": {"a": {"type": "discrete", "values": [1]}}}', "the algorithm is missing"),
        ('{"algorithm": "grid", "parameters": {"a": 3}}', "must be a mapping"),
    ],
)
def test_what_is_no_configuration_is_refused(text: str, words: str) -> None:
    assert words in "\n".join(map(str, read(text)[1]))


def test_bayes_over_a_range_needs_a_number_of_trials() -> None:
    terms, faults = read(configuration({"x": {"type": "float", "min": 0, "max": 1}}, "bayes"))
    assert not faults
    assert "no end" in str(faults_of(terms)[0])
