"""Settings that a TensorFlow strategy does not have are refused before anything is queued, the same as by the ranks."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from hpclaunch.resolve.program.compatible_settings import ONLY_HOROVOD
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
ONLY_HOROVODS = {
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
@pytest.mark.parametrize(("name", "text"), [*ONLY_HOROVODS.items(), ("batch_norm", "synchronized")])
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


def changed(name: str, value: Any) -> Any:
    """The job with another default of a parameter."""
    row = CIFAR.parameters[name].with_default(value)
    return replace(CIFAR, parameters={**CIFAR.parameters, name: row})


def test_values_of_the_job_file_and_of_a_recipe_are_refused_too() -> None:
    error = str(refused(job=changed("gradient_lag", True), strategy="mirrored"))
    assert "the job cifar: parameters.gradient_lag" in error and "gradient_lag=true works with Horovod only" in error
    recipe = replace(CIFAR.recipes["recommended"], settings={"batch_norm": "ghost"})
    job = replace(CIFAR, recipes={"recommended": recipe})
    error = str(refused(job=job, strategy="mirrored", recipe="recommended"))
    assert "--recipe recommended" in error and "batch_norm=ghost works with Horovod only" in error
    typed = planned(job=job, strategy="mirrored", recipe="recommended", settings=(("batch_norm", "local"),))
    assert typed.strategy == "mirrored"


def test_the_last_of_two_settings_counts() -> None:
    twice = (("batch_norm", "ghost"), ("batch_norm", "local"))
    assert planned(job=CIFAR, strategy="mirrored", settings=twice).strategy == "mirrored"


@pytest.mark.parametrize("name", sorted(CIFAR.parameters))
def test_the_launcher_refuses_what_the_ranks_refuse(name: str) -> None:
    """Each value that a parameter may have, if it has few, and a number above its default."""
    row = CIFAR.parameters[name]
    values = row.choices or (
        (False, True) if row.value_type == "bool" else (row.default, 2) if row.default == 1 else ()
    )
    for value in values:
        ranks = strategies.faults(SimpleNamespace(strategy="mirrored", **{**AS_THEY_ARE, name: value}))
        assert bool(ranks) == (name in ONLY_HOROVOD and ONLY_HOROVOD[name](value)), (name, value)


def test_every_parameter_of_the_table_is_tried() -> None:
    assert {*ONLY_HOROVOD} == {*ONLY_HOROVODS} <= {*CIFAR.parameters}


def test_horovod_takes_them_all_and_other_values_go_with_every_strategy() -> None:
    assert planned(job=CIFAR, strategy="horovod", settings=(("adasum", "true"),)).strategy == "horovod"
    harmless = (("adasum", "false"), ("accumulation", "1"), ("batch_norm", "local"))
    assert planned(job=CIFAR, strategy="mirrored", settings=harmless).strategy == "mirrored"
