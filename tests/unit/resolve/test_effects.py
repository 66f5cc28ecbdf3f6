"""A chosen setting without effect is refused before anything is queued, by the rule that the ranks have."""

from __future__ import annotations

from typing import Any

import pytest

from hpclaunch.search.names import idle
from hpclaunch.search.space import Dimension, SearchSpace
from tests.builders import bundled_job, planned, refused

CIFAR = bundled_job("cifar")


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"settings": (("weight_decay", "0.1"),)}, "weight_decay=0.1 has no effect with optimizer=adam"),
        ({"settings": (("decay_epochs", "3,6"),)}, "decay_epochs=3,6 has no effect with decay="),
        (
            {"settings": (("momentum_correction", "false"), ("optimizer", "lamb"))},
            "momentum_correction=false has no effect with optimizer=lamb",
        ),
        (
            {"settings": (("weight_decay", "0.1"),), "sweep": (("optimizer", "adamw,sgd"),)},
            "weight_decay=0.1 has no effect with optimizer=sgd",
        ),
        (
            {"settings": (("momentum", "0.95"), ("optimizer", "muon"))},
            "next='set muon_momentum, or leave momentum out'",
        ),
        ({"sweep": (("weight_decay", "0,0.1"),)}, "weight_decay=0.1 has no effect with optimizer=adam"),
        (
            {"settings": (("monitor", "val_accuracy"),)},
            "monitor=val_accuracy has no effect without patience, keep_best or restore_best",
        ),
        (
            {"settings": (("min_delta", "0.1"),), "sweep": (("patience", "0,3"),)},
            "min_delta=0.1 has no effect without patience, keep_best or restore_best",
        ),
        ({"settings": (("profile_rank", "1"),)}, "profile_rank=1 has no effect without profile_first"),
    ],
)
def test_a_setting_without_effect_is_refused(typed: dict[str, Any], words: str) -> None:
    assert words in str(refused(job=CIFAR, **typed))


@pytest.mark.parametrize(
    "settings",
    [
        (("weight_decay", "0"),),
        (("weight_decay", "0.1"), ("optimizer", "adamw")),
        (("decay_epochs", "3,6"), ("decay", "step")),
        (("momentum", "0.8"),),  # of an optimizer that the program gives
        (("monitor", "val_accuracy"), ("keep_best", "true")),
        (("min_delta", "0.1"), ("patience", "3")),
    ],
)
def test_one_with_an_effect_is_taken(settings: Any) -> None:
    planned(job=CIFAR, settings=settings)


def test_no_trial_of_a_search_has_a_setting_without_effect() -> None:
    decay = Dimension(name="weight_decay", mean=-9, deviation=2, log=True)
    rows = CIFAR.parameters
    (fault,) = idle(SearchSpace(dimensions=(decay,)), rows, {})
    assert "has no effect with optimizer=adam" in str(fault) and fault.where == "weight_decay"
    assert not idle(SearchSpace(dimensions=(decay,)), rows, {"optimizer": "lamb"})
    both = (decay, Dimension(name="optimizer", values=("adamw", "sgd")))
    (fault,) = idle(SearchSpace(dimensions=both), rows, {})
    assert "has no effect with optimizer=sgd" in str(fault)
    (fault,) = idle(SearchSpace(dimensions=both[1:]), rows, {"weight_decay": "0.1"})
    assert fault.where == "--set weight_decay"
