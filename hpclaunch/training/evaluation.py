"""Evaluates a model on test data that is spread over the ranks; every test sample counts once."""

from __future__ import annotations

from typing import Any, Callable, Iterable

import horovod.tensorflow as hvd
import tensorflow as tf

from hpclaunch.training.rank.world import World


def evaluate(model: Any, batches: Iterable[Any], world: World) -> dict[str, Any]:
    """{"test_accuracy", "test_loss", "test_samples"} over all ranks' batches. A collective.

    model: gives class probabilities. Ranks may have different numbers of samples, even none. Sums are added over the
    ranks and divided once, because an average of averages would have the wrong weights.
    """

    @tf.function
    def sums(images: Any, labels: Any) -> Any:
        probabilities = model(images, training=False)
        losses = tf.keras.losses.sparse_categorical_crossentropy(labels, probabilities)
        correct = tf.equal(tf.argmax(probabilities, axis=1), labels)
        return tf.stack([tf.reduce_sum(tf.cast(correct, tf.float64)), tf.reduce_sum(tf.cast(losses, tf.float64))])

    correct, loss, samples = _added_up(sums, batches, world)
    return {"test_accuracy": correct / samples, "test_loss": loss / samples, "test_samples": int(samples)}


def errors(model: Any, batches: Iterable[Any], world: World) -> dict[str, Any]:
    """{"test_mae", "test_mse", "test_samples"} of a model that gives numbers [b, k], as `evaluate`. A collective."""

    @tf.function
    def sums(inputs: Any, targets: Any) -> Any:
        wrong = tf.cast(model(inputs, training=False) - targets, tf.float64)
        return tf.stack([tf.reduce_sum(tf.reduce_mean(part, axis=1)) for part in (tf.abs(wrong), tf.square(wrong))])

    absolute, squared, samples = _added_up(sums, batches, world)
    return {"test_mae": absolute / samples, "test_mse": squared / samples, "test_samples": int(samples)}


def _added_up(sums: Callable[..., Any], batches: Iterable[Any], world: World) -> list[float]:
    """The two `sums` (float64 [2]) over the batches of all ranks, and the number of samples."""
    total, count = tf.zeros(2, tf.float64), 0
    for samples, labels in batches:
        total += sums(samples, labels)
        count += int(labels.shape[0])
    together = tf.concat([total, [float(count)]], axis=0)
    if world.size > 1:
        together = hvd.allreduce(together, op=hvd.Sum, name="evaluation")
    return [float(value) for value in together]
