"""Settings without effect, or that exclude others, are refused before anything is queued, as the ranks refuse them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.search.names import idle
from hpclaunch.search.space import Dimension, SearchSpace
from tests.builders import bundled_job, planned, refused

CIFAR, DDP = bundled_job("cifar"), bundled_job("ddp")


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


# --- settings that exclude others

SHARED = ("shard_weights", "true")


def with_default(name: str, value: Any) -> Any:
    """The job ddp with another default of a parameter."""
    return replace(DDP, parameters={**DDP.parameters, name: DDP.parameters[name].with_default(value)})


@pytest.mark.parametrize(
    ("typed", "where", "words"),
    [
        (
            {"settings": (SHARED, ("optimizer", "lamb"))},
            "--set shard_weights, --set optimizer",
            "shard_weights=true cannot be combined with optimizer=lamb, which needs whole weights",
        ),
        ({"settings": (SHARED, ("shard_optimizer", "true"))}, "--set shard_optimizer", "which it includes"),
        ({"settings": (SHARED, ("noise_scale", "true"))}, "--set noise_scale", "which needs whole gradients"),
        ({"settings": (SHARED, ("channels_last", "true"))}, "--set channels_last", "which needs whole weights"),
        (
            {"settings": (SHARED,), "sweep": (("optimizer", "adam,muon"),)},
            "--set shard_weights, --sweep optimizer",
            "optimizer=muon",
        ),
        (
            {"settings": (("optimizer", "lars"),), "job": with_default("shard_weights", True)},
            "the job ddp: parameters.shard_weights, --set optimizer",
            "optimizer=lars",
        ),
        (
            {"settings": (SHARED,), "job": with_default("channels_last", True)},
            "--set shard_weights, the job ddp: parameters.channels_last",
            "channels_last=true",
        ),
    ],
)
def test_settings_that_exclude_each_other_are_refused(typed: dict[str, Any], where: str, words: str) -> None:
    (fault,) = refused(**{"job": DDP, **typed})
    assert fault.where.endswith(where) and words in fault.what and "shard_weights" in str(fault)
    step = "set shard_optimizer=true in place of shard_weights" if "optimizer=l" in words else fault.next
    assert fault.next == step


def test_a_default_that_gives_way_and_what_goes_together_are_taken() -> None:
    assert DDP.parameters["noise_scale"].default is True
    for settings in (
        (SHARED,),
        (SHARED, ("noise_scale", "false"), ("optimizer", "adamw")),
        (("shard_optimizer", "true"), ("noise_scale", "true"), ("optimizer", "lamb")),
    ):
        planned(job=DDP, settings=settings)


def test_no_trial_of_a_search_has_settings_that_exclude_each_other() -> None:
    space = SearchSpace(dimensions=(Dimension(name="optimizer", values=("adam", "lamb")),))
    (fault,) = idle(space, DDP.parameters, {"shard_weights": "true"})
    assert "cannot be combined with optimizer=lamb" in fault.what and fault.where == "optimizer"
    assert not idle(space, DDP.parameters, {"shard_optimizer": "true"})
