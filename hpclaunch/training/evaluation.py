"""Evaluates a model on test data that is spread over the ranks; every test sample counts once."""

from __future__ import annotations

from typing import Any, Callable, Iterable

import horovod.tensorflow as hvd
import tensorflow as tf

from hpclaunch.training.rank import watch
from hpclaunch.training.rank.world import World


def evaluate(model: Any, batches: Iterable[Any], world: World, logits: bool = False) -> dict[str, Any]:
    """{"test_accuracy", "test_loss", "test_samples"} over all ranks' batches, with the cross-entropy. A collective.

    model: gives class probabilities (or logits) [b, classes], or [b, 1] for the second of two classes. Ranks may have
    different numbers of samples, even none. Sums are added over the ranks and divided once, because an average of
    averages would have the wrong weights.
    """

    @tf.function
    def sums(images: Any, labels: Any) -> Any:
        outputs = model(images, training=False)
        if outputs.shape[1] == 1:
            of_two = tf.cast(labels[:, None], outputs.dtype)
            losses = tf.keras.losses.binary_crossentropy(of_two, outputs, from_logits=logits)
            found = tf.cast(outputs[:, 0] > (0.0 if logits else 0.5), labels.dtype)
        else:
            losses = tf.keras.losses.sparse_categorical_crossentropy(labels, outputs, from_logits=logits)
            found = tf.argmax(outputs, axis=1, output_type=labels.dtype)
        correct = tf.equal(found, labels)
        return tf.stack([tf.reduce_sum(tf.cast(correct, tf.float64)), tf.reduce_sum(tf.cast(losses, tf.float64))])

    correct, loss, samples = _added_up(sums, batches, world)
    return {"test_accuracy": correct / samples, "test_loss": loss / samples, "test_samples": int(samples)}


def gives_logits(loss: Any) -> bool:
    """Whether a model that was compiled with this loss gives logits, not probabilities."""
    return isinstance(loss, tf.keras.losses.Loss) and bool(loss.get_config().get("from_logits", False))


def errors(model: Any, batches: Iterable[Any], world: World) -> dict[str, Any]:
    """{"test_mae", "test_mse", "test_samples"} of a model that gives numbers, as `evaluate`. A collective.

    The outputs have as many values as the targets, [b, ...]; the errors of a sample are averaged.
    """

    @tf.function
    def sums(inputs: Any, targets: Any) -> Any:
        outputs = model(inputs, training=False)
        samples = tf.shape(outputs)[0]
        # Targets [b] beside outputs [b, 1] would otherwise be subtracted as [b, b].
        wrong = tf.reshape(outputs, [samples, -1]) - tf.reshape(tf.cast(targets, outputs.dtype), [samples, -1])
        wrong = tf.cast(wrong, tf.float64)
        return tf.stack([tf.reduce_sum(tf.reduce_mean(part, axis=1)) for part in (tf.abs(wrong), tf.square(wrong))])

    absolute, squared, samples = _added_up(sums, batches, world)
    return {"test_mae": absolute / samples, "test_mse": squared / samples, "test_samples": int(samples)}


def _added_up(sums: Callable[..., Any], batches: Iterable[Any], world: World) -> list[float]:
    """The two `sums` (float64 [2]) over the batches of all ranks, and the number of samples."""
    total, count = tf.zeros(2, tf.float64), 0
    for samples, labels in batches:
        total += sums(samples, labels)
        count += int(labels.shape[0])
        watch.this_rank.mark()
    together = tf.concat([total, [float(count)]], axis=0)
    if world.size > 1:
        together = hvd.allreduce(together, op=hvd.Sum, name="evaluation")
    return [float(value) for value in together]
