"""Results of one rank by value: each sample counts once, whatever the batches are; all kinds of outputs."""

from __future__ import annotations

import pytest

try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group training: tensorflow is not installed", allow_module_level=True)

from typing import Any

from hpclaunch.training import evaluation
from hpclaunch.training.optimization import training_step
from hpclaunch.training.program.run import program_name
from hpclaunch.training.rank.world import World

ALONE = World(0, 1, 0, 1, "here", "CPU", 1, "")
RANDOM = np.random.RandomState(5)


def as_it_is(inputs: Any, training: bool = False) -> Any:
    return inputs


def in_batches(inputs: Any, targets: Any, size: int) -> Any:
    return tf.data.Dataset.from_tensor_slices((inputs, targets)).batch(size)


@pytest.mark.parametrize("size", [1, 3, 7, 20])
def test_every_sample_of_every_batch_counts_once(size: int) -> None:
    outputs = RANDOM.dirichlet([1] * 4, 20).astype("float32")
    labels = RANDOM.randint(0, 4, 20)
    found = evaluation.evaluate(as_it_is, in_batches(outputs, labels, size), ALONE)
    assert found["test_samples"] == 20
    assert found["test_accuracy"] == pytest.approx(np.mean(outputs.argmax(1) == labels))
    assert found["test_loss"] == pytest.approx(np.mean(-np.log(outputs[np.arange(20), labels])), rel=1e-5)


@pytest.mark.parametrize("size", [1, 7, 20])
def test_top_k_and_confusion_are_counted_over_all_batches(size: int) -> None:
    outputs = RANDOM.dirichlet([1] * 5, 20).astype("float32")
    labels = RANDOM.randint(0, 4, 20)  # no sample has the last class
    found = evaluation.evaluate(as_it_is, in_batches(outputs, labels, size), ALONE, top_k=3, confusion=True)
    ranks = (outputs > outputs[np.arange(20), labels][:, None]).sum(1)
    assert found["test_top_3_accuracy"] == pytest.approx(np.mean(ranks < 3))
    expected = np.zeros((5, 5), int)
    for label, output in zip(labels, outputs, strict=True):
        expected[label, output.argmax()] += 1
    assert np.array_equal(found["test_confusion"], expected) and found["test_samples"] == 20


def test_logits_are_no_probabilities() -> None:
    logits, labels = RANDOM.normal(size=(9, 3)).astype("float32"), RANDOM.randint(0, 3, 9)
    losses = np.log(np.exp(logits).sum(1)) - logits[np.arange(9), labels]
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    found = evaluation.evaluate(as_it_is, in_batches(logits, labels, 4), ALONE, evaluation.gives_logits(loss))
    assert found["test_loss"] == pytest.approx(losses.mean(), rel=1e-5)
    assert not evaluation.gives_logits("mse") and not evaluation.gives_logits(tf.keras.losses.MeanSquaredError())


@pytest.mark.parametrize("logits", [False, True])
def test_one_output_is_the_second_of_two_classes(logits: bool) -> None:
    outputs = np.array([[0.9], [0.2], [0.6], [0.4]], "float32") - (0.5 if logits else 0)
    found = evaluation.evaluate(as_it_is, in_batches(outputs, np.array([1, 0, 0, 0]), 3), ALONE, logits)
    assert found["test_accuracy"] == 0.75
    matrix = evaluation.evaluate(
        as_it_is, in_batches(outputs, np.array([1, 0, 0, 0]), 3), ALONE, logits, confusion=True
    )
    assert matrix["test_confusion"].tolist() == [[2, 1], [0, 1]]


@pytest.mark.parametrize("shape", [(10,), (10, 1), (10, 2), (10, 2, 3)])
def test_errors_are_of_each_sample_with_its_own_target(shape: tuple[int, ...]) -> None:
    outputs, targets = RANDOM.normal(size=shape).astype("float32"), RANDOM.normal(size=shape).astype("float32")
    wide = outputs[:, None] if len(shape) == 1 else outputs  # a model gives [b, 1] for targets [b]
    found = evaluation.errors(as_it_is, in_batches(wide, targets, 4), ALONE)
    assert found["test_mae"] == pytest.approx(np.abs(outputs - targets).mean(), rel=1e-5)
    assert found["test_mse"] == pytest.approx(((outputs - targets) ** 2).mean(), rel=1e-5)


def test_a_step_in_parts_refuses_what_it_would_leave_out() -> None:
    layers = tf.keras.layers
    inputs = layers.Input((2,))
    one = layers.Dense(1)(inputs)

    class Own(tf.keras.Model):
        def train_step(self, data: Any) -> Any:
            return {}

    class Subclass(tf.keras.Model):
        def call(self, inputs: Any) -> Any:
            return inputs

    assert training_step.why_not_in_parts(tf.keras.Model(inputs, one)) == ""
    assert training_step.why_not_in_parts(tf.keras.Model([inputs, layers.Input((3,))], [one, one])) == ""
    assert "train_step: that of Own" in training_step.why_not_in_parts(Own(inputs, one))
    assert "subclass of Model" in training_step.why_not_in_parts(Subclass())


@pytest.mark.parametrize(
    ("script", "name"), [("/a/houses.py", "houses"), ("/a/cifar/train.py", "cifar"), ("/a/cats/main.py", "cats")]
)
def test_a_program_has_the_name_of_its_file_or_folder(script: str, name: str) -> None:
    assert program_name(script) == name
