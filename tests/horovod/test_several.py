"""Several inputs and outputs, and weights of samples and classes, under `fit`: ranks train what formulas give."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpclaunch.training.input import shards
from tests.horovod.conftest import PROGRAMS, Ended

PROGRAM = PROGRAMS / "several.py"
TRAIN, BATCH, RATE, MOMENTUM, EPOCHS = 23, 3, 0.125, 0.5, 2
PRICE, TYPE = 0.25, 2.0
"""The weights of the two losses."""
CLASSES = np.array([0.5, 2.0, 1.0])


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    random = np.random.RandomState(3)
    made: dict[str, Any] = {}
    for split, count in (("train", 24), ("validation", 7), ("test", 5)):
        made[f"rooms_{split}"], made[f"place_{split}"] = random.normal(size=(count, 3)), random.normal(size=(count, 2))
        made[f"price_{split}"], made[f"type_{split}"] = random.uniform(1, 3, count), random.randint(0, 3, count)
        made[f"weight_{split}"] = random.randint(1, 9, count) / 4
    path = tmp_path_factory.mktemp("several") / "houses.npz"
    np.savez(path, **made)
    return f"--data-dir={path}", made


def told(ended: Ended, size: int = 2) -> dict[str, Any]:
    """The logs, the results and the weights, which all ranks must have alike."""
    assert ended.code == 0, ended.text
    found = [json.loads((ended.run_dir / f"several-{rank}.json").read_text()) for rank in range(size)]
    assert all(one == found[0] for one in found)
    return dict(found[0])


class ByHand:
    """The model of the program, its losses and its SGD, as formulas."""

    def __init__(self, arrays: dict[str, Any], only_classes: bool = False) -> None:
        self.arrays, self.only_classes = arrays, only_classes
        sizes = [3] if only_classes else [1, 3]
        self.weights = [
            np.array([[0.1 * (row - c) for c in range(n)] for row in range(5)] + [[0.0] * n]) for n in sizes
        ]
        self.velocity = [np.zeros_like(one) for one in self.weights]

    def measures(self, split: str, rows: Any) -> dict[str, Any]:
        """Of each sample: the weight, the losses and what the metrics have of it, and the gradients of the outputs."""
        of = {name: self.arrays[f"{name}_{split}"][rows] for name in ("rooms", "place", "price", "type", "weight")}
        x = np.column_stack([of["rooms"], of["place"], np.ones(len(rows))])
        logits = x @ self.weights[-1]
        chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        is_right, own = chances.argmax(axis=1) == of["type"], np.eye(3)[of["type"]]
        found = {"x": x, "type": -np.log((chances * own).sum(axis=1)), "right": is_right, "price": 0.0, "wrong": 0.0}
        found["by_type"] = chances - own
        found["weight"] = CLASSES[of["type"]] if self.only_classes else of["weight"]
        if not self.only_classes:
            wrong = (x @ self.weights[0])[:, 0] - of["price"]
            found.update(price=wrong**2, wrong=np.abs(wrong), by_price=2 * wrong[:, None], target=of["price"])
        return found

    def train(self, rows: Any) -> dict[str, Any]:
        """One step on all ranks' samples: the mean of the weighted losses over the samples, not over their weights."""
        before = self.measures("train", rows)
        parts = [(1.0, "by_type")] if self.only_classes else [(PRICE, "by_price"), (TYPE, "by_type")]
        for number, (share, name) in enumerate(parts):
            gradient = share * before["x"].T @ (before["weight"][:, None] * before[name]) / len(rows)
            self.velocity[number] = MOMENTUM * self.velocity[number] - RATE * gradient
            self.weights[number] = self.weights[number] + self.velocity[number]
        return before

    def epoch(self, ended: Ended, epoch: int) -> dict[str, Any]:
        """The measures of an epoch on two ranks, each sample by the weights of its step."""
        seed = ended.events("start")[0]["options"]["seed"]
        order = shards.shuffled(24, seed, TRAIN)
        own = []
        for rank in range(2):
            held = shards.training_shard(order, rank, 2).indices
            own.append(held[shards.epoch_order(len(held), seed, epoch, rank)])
        steps = range(0, len(own[0]), BATCH)
        found = [self.train(np.concatenate([one[step : step + BATCH] for one in own])) for step in steps]
        return {name: np.concatenate([np.atleast_1d(one[name]) for one in found]) for name in found[0]}

    def check_weights(self, weights: list[Any]) -> None:
        for number, one in enumerate(self.weights):
            assert np.allclose(weights[2 * number], one[:5], rtol=1e-12, atol=1e-12)
            assert np.allclose(weights[2 * number + 1], one[5], rtol=1e-12, atol=1e-12)


def logs_of(found: dict[str, Any]) -> dict[str, float]:
    """As Keras names them: losses are divided by the number of samples, weighted metrics by the sum of the weights."""
    weight = found["weight"]
    price, kind = (weight * found["price"]).mean(), (weight * found["type"]).mean()
    return {
        "loss": PRICE * price + TYPE * kind,
        "price_loss": price,
        "type_loss": kind,
        "price_mae": (weight * found["wrong"]).sum() / weight.sum(),
        "price_target": (weight * found["target"]).sum() / weight.sum(),
        "type_accuracy": found["right"].mean(),
        "type_weighted_accuracy": (weight * found["right"]).sum() / weight.sum(),
    }


@pytest.fixture(scope="module")
def undisturbed(ranks: Callable[..., Ended], arrays: tuple[str, dict[str, Any]]) -> Ended:
    return ranks(PROGRAM, arrays[0], f"--train-samples={TRAIN}")


def test_two_ranks_train_and_measure_what_formulas_give(undisturbed: Ended, arrays: tuple[str, dict[str, Any]]) -> None:
    found, model = told(undisturbed), ByHand(arrays[1])
    for epoch in range(EPOCHS):
        logs = logs_of(model.epoch(undisturbed, epoch))
        validated = logs_of(model.measures("validation", np.arange(7)))
        logs.update((f"val_{name}", value) for name, value in validated.items())
        assert found["logs"][epoch] == pytest.approx(logs, rel=2e-6)
    model.check_weights(found["weights"])
    tested = logs_of(model.measures("test", np.arange(5)))
    expected = {**{f"test_{name}": value for name, value in tested.items()}, "test_samples": 5}
    assert found["results"] == pytest.approx(expected, rel=2e-6)
    assert undisturbed.events("end")[0]["test_price_loss"] == found["results"]["test_price_loss"]


def test_the_exported_model_has_the_names_of_inputs_and_outputs(
    undisturbed: Ended, arrays: tuple[str, dict[str, Any]]
) -> None:
    import tensorflow as tf

    found, made, folder = told(undisturbed), arrays[1], undisturbed.run_dir / "model"
    about = json.loads((folder / "model.json").read_text())
    assert (about["missing"], about["inputs"]["rooms"]) == ({}, {"shape": [None, 3], "type": "float64"})
    inputs = {name: tf.constant(made[f"{name}_test"]) for name in ("rooms", "place")}
    served = tf.saved_model.load(str(folder / "saved_model")).signatures["serving_default"](**inputs)
    again = tf.keras.models.load_model(folder / "model.keras", compile=False)(inputs)
    kernel, bias = (np.array(one) for one in found["weights"][:2])
    price = np.column_stack([made["rooms_test"], made["place_test"]]) @ kernel + bias
    for outputs in (served, again):
        assert sorted(outputs) == ["price", "type"] and np.allclose(outputs["price"], price, atol=1e-12)


def test_a_killed_run_goes_on_as_if_undisturbed(
    ranks: Callable[..., Ended], undisturbed: Ended, arrays: tuple[str, dict[str, Any]], tmp_path: Path
) -> None:
    own = (arrays[0], f"--train-samples={TRAIN}", "--as-samples=true", "--input=memory")
    kept = {"HPCLAUNCH_CHECKPOINT_DIR": str(tmp_path)}
    killed = ranks(PROGRAM, *own, "--stop-after=3", **kept)
    assert killed.code != 0 and "the attempt ends here" in killed.text
    resumed, whole = told(ranks(PROGRAM, *own, **kept)), told(undisturbed)
    assert resumed["weights"] == whole["weights"] and resumed["results"] == whole["results"]
    assert resumed["logs"] == whole["logs"]


@pytest.mark.long_tier  # test_other_ranks.py has the same of two ranks and of one
def test_other_numbers_of_ranks_measure_every_sample_of_an_epoch_once(
    ranks: Callable[..., Ended], arrays: tuple[str, dict[str, Any]], tmp_path: Path
) -> None:
    kept = {"HPCLAUNCH_CHECKPOINT_DIR": str(tmp_path)}
    for size, steps in ((2, 2), (3, 1), (0, 0)):
        ended = ranks(PROGRAM, arrays[0], "--export-model=false", f"--stop-after={steps}", size=size, **kept)
        assert (ended.code == 0) == (steps == 0), ended.text
    price, weight = arrays[1]["price_train"], arrays[1]["weight_train"]
    means = [line["price_target"] for line in ended.events("epoch")]
    assert means == pytest.approx([(price * weight).sum() / weight.sum()] * EPOCHS, rel=2e-6)


def test_parts_of_a_batch_are_weighted_as_the_whole(
    ranks: Callable[..., Ended], undisturbed: Ended, arrays: tuple[str, dict[str, Any]]
) -> None:
    ended = ranks(PROGRAM, arrays[0], f"--train-samples={TRAIN}", "--accumulation=3", "--batch-size-per-rank=1")
    for one, whole in zip(told(ended)["weights"], told(undisturbed)["weights"], strict=True):
        assert np.allclose(one, whole, rtol=1e-12, atol=1e-12)


def test_class_weights_are_those_of_the_loss_and_of_weighted_metrics(
    ranks: Callable[..., Ended], arrays: tuple[str, dict[str, Any]]
) -> None:
    ended = ranks(PROGRAM, arrays[0], f"--train-samples={TRAIN}", "--classes=true", "--export-model=false")
    found, model = told(ended), ByHand(arrays[1], only_classes=True)
    for epoch in range(EPOCHS):
        measured = model.epoch(ended, epoch)
        weight, logs = measured["weight"], found["logs"][epoch]
        assert logs["loss"] == pytest.approx((weight * measured["type"]).mean(), rel=2e-6)
        assert logs["accuracy"] == pytest.approx(measured["right"].mean(), rel=2e-6)
        of_weights = (weight * measured["right"]).sum() / weight.sum()
        assert logs["weighted_accuracy"] == pytest.approx(of_weights, rel=2e-6)
        validated = model.measures("validation", np.arange(7))  # where Keras has no class weights
        assert logs["val_loss"] == pytest.approx(validated["type"].mean(), rel=2e-6)
    model.check_weights(found["weights"])
