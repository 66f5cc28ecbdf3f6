"""Evaluates a classifier on test data that is spread over the ranks; every test image counts once."""

from __future__ import annotations

from typing import Any

import horovod.tensorflow as hvd
import tensorflow as tf

from hpclaunch.training.start import World


def evaluate(model: Any, batches: tf.data.Dataset, world: World) -> dict[str, Any]:
    """{"test_accuracy", "test_loss", "test_samples"} over all ranks' batches. A collective.

    model: gives class probabilities. Ranks may hold different numbers of samples, even none: sums are added over the
    ranks and divided once, as an average of averages would weigh them wrongly.
    """

    @tf.function
    def sums(images: Any, labels: Any) -> Any:
        probabilities = model(images, training=False)
        losses = tf.keras.losses.sparse_categorical_crossentropy(labels, probabilities)
        correct = tf.equal(tf.argmax(probabilities, axis=1), labels)
        return tf.stack([tf.reduce_sum(tf.cast(correct, tf.float64)), tf.reduce_sum(tf.cast(losses, tf.float64))])

    total, count = tf.zeros(2, tf.float64), 0
    for images, labels in batches:
        total += sums(images, labels)
        count += int(labels.shape[0])
    together = tf.concat([total, [float(count)]], axis=0)
    if world.size > 1:
        together = hvd.allreduce(together, op=hvd.Sum, name="evaluation")
    correct, loss, samples = [float(value) for value in together]
    return {"test_accuracy": correct / samples, "test_loss": loss / samples, "test_samples": int(samples)}
