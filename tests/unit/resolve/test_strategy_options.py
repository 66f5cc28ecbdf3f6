"""Settings that a TensorFlow strategy does not have are refused before anything is queued, the same as by the ranks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hpclaunch.training.rank import strategies
from tests.builders import bundled_job, planned, refused

CIFAR = bundled_job("cifar")
AS_THEY_ARE = {
    "accumulation": 1,
    "update_groups": 1,
    "xla": False,
    "adasum": False,
    "shard_optimizer": False,
    "gradient_lag": False,
    "compression": "none",
    "scale_learning_rate": "linear",
    "batch_norm": "local",
    "precision": "float32",
}
HORVODS = {
    "accumulation": "2",
    "update_groups": "2",
    "xla": "true",
    "adasum": "true",
    "shard_optimizer": "true",
    "gradient_lag": "true",
    "compression": "fp16",
    "scale_learning_rate": "adascale",
    "batch_norm": "ghost",
}


def asked_of_rank(strategy: str, name: str, text: str) -> list[str]:
    """What a rank says of this option; the parameter's own type reads its text, as the rank's parser does."""
    given = {**AS_THEY_ARE, name: CIFAR.parameters[name].parse(text)}
    return strategies.faults(SimpleNamespace(strategy=strategy, **given))


@pytest.mark.parametrize("strategy", ["mirrored", "multiworker", "central-storage", "one-device"])
@pytest.mark.parametrize(("name", "text"), [*HORVODS.items(), ("batch_norm", "synchronized")])
def test_what_only_horovod_has_is_refused_with_each_strategy(strategy: str, name: str, text: str) -> None:
    nodes = {"nodes": 2} if strategy == "multiworker" else {}
    error = str(refused(job=CIFAR, strategy=strategy, settings=((name, text),), **nodes))
    assert f"{name}={text} works with Horovod only, not with {strategy}" in error and f"--set {name}" in error
    assert asked_of_rank(strategy, name, text)
    assert not strategies.faults(SimpleNamespace(strategy=strategy, **AS_THEY_ARE))


@pytest.mark.parametrize("strategy", ["mirrored", "multiworker", "central-storage", "one-device"])
def test_mixed_precision_is_refused_where_keras_has_none(strategy: str) -> None:
    nodes = {"nodes": 2} if strategy == "multiworker" else {}
    typed: dict[str, Any] = {"job": CIFAR, "strategy": strategy, "settings": (("precision", "float16"),), **nodes}
    if strategy != "central-storage":
        assert planned(**typed).strategy == strategy and not asked_of_rank(strategy, "precision", "float16")
        return
    assert "Keras has no mixed precision for central-storage" in str(refused(**typed))
    assert asked_of_rank(strategy, "precision", "float16")


def test_a_value_of_a_sweep_is_refused_too() -> None:
    error = str(refused(job=CIFAR, strategy="mirrored", sweep=(("scale_learning_rate", "none,adascale"),)))
    assert "--sweep scale_learning_rate" in error and "adascale works with Horovod only" in error


def test_horovod_takes_them_all_and_other_values_go_with_every_strategy() -> None:
    assert planned(job=CIFAR, strategy="horovod", settings=(("adasum", "true"),)).strategy == "horovod"
    harmless = (("adasum", "false"), ("accumulation", "1"), ("batch_norm", "local"))
    assert planned(job=CIFAR, strategy="mirrored", settings=harmless).strategy == "mirrored"
