"""Evaluates a model on test data that is spread over the ranks; every test sample counts once."""

from __future__ import annotations

import math
from typing import Any, Callable, Iterable

import numpy as np
import tensorflow as tf

from hpclaunch.training import language as language_of
from hpclaunch.training.rank import over_ranks, watch
from hpclaunch.training.rank.world import World

CONFUSION = "test_confusion"


def evaluate(
    model: Any, batches: Iterable[Any], world: World, logits: bool = False, top_k: int = 0, confusion: bool = False
) -> dict[str, Any]:
    """{"test_accuracy", "test_loss", "test_samples"} over all ranks' batches, with the cross-entropy. A collective.

    model: gives class probabilities (or logits) [b, classes], or [b, 1] for the second of two classes. Ranks may have
    different numbers of samples, even none. Sums are added over the ranks and divided once, because an average of
    averages would have the wrong weights. top_k: also "test_top_5_accuracy" (of 5), how often the class is among so
    many most probable ones. confusion: also "test_confusion", int64 [classes, classes]: the number of samples by their
    class (row) and the class that the model gives them (column).
    """

    @tf.function
    def sums(images: Any, labels: Any) -> Any:
        outputs = outputs_of(model, images)
        if outputs.shape[1] == 1:
            of_two = tf.cast(labels[:, None], outputs.dtype)
            losses = tf.keras.losses.binary_crossentropy(of_two, outputs, from_logits=logits)
            found = tf.cast(outputs[:, 0] > (0.0 if logits else 0.5), labels.dtype)
        else:
            losses = tf.keras.losses.sparse_categorical_crossentropy(labels, outputs, from_logits=logits)
            found = tf.argmax(outputs, axis=1, output_type=labels.dtype)
        parts = [tf.equal(found, labels), losses]
        if top_k:
            parts.append(tf.math.in_top_k(labels, tf.cast(outputs, tf.float32), top_k))
        counted = [tf.reduce_sum(tf.cast(part, tf.float64)) for part in parts]
        if not confusion:
            return tf.stack(counted)
        matrix = tf.math.confusion_matrix(labels, found, max(2, outputs.shape[1]), dtype=tf.float64)
        return tf.concat([tf.stack(counted), tf.reshape(matrix, [-1])], axis=0)

    correct, loss, *others, samples = _added_up(sums, batches, world)
    results: dict[str, Any] = {"test_accuracy": correct / samples, "test_loss": loss / samples}
    if top_k:
        results["test_top_{}_accuracy".format(top_k)] = others.pop(0) / samples
    if confusion:
        classes = math.isqrt(len(others))
        results[CONFUSION] = np.array(others).astype(np.int64).reshape(classes, classes)
    return {**results, "test_samples": int(samples)}


def outputs_of(model: Any, inputs: Any) -> Any:
    """The outputs of a model as in evaluation: all of them, also if each rank computes some of the logits."""
    outputs = model(inputs, training=False)
    join = getattr(getattr(model, "loss", None), "whole", None)
    return outputs if join is None else join(outputs)


def gives_logits(loss: Any) -> bool:
    """Whether a model that was compiled with this loss gives logits, not probabilities."""
    if hasattr(loss, "whole"):
        return True
    return isinstance(loss, tf.keras.losses.Loss) and bool(loss.get_config().get("from_logits", False))


def errors(model: Any, batches: Iterable[Any], world: World) -> dict[str, Any]:
    """{"test_mae", "test_mse", "test_samples"} of a model that gives numbers, as `evaluate`. A collective.

    The outputs have as many values as the targets, [b, ...]; the errors of a sample are averaged.
    """

    @tf.function
    def sums(inputs: Any, targets: Any) -> Any:
        outputs = outputs_of(model, inputs)
        samples = tf.shape(outputs)[0]
        # Targets [b] beside outputs [b, 1] would otherwise be subtracted as [b, b].
        wrong = tf.reshape(outputs, [samples, -1]) - tf.reshape(tf.cast(targets, outputs.dtype), [samples, -1])
        wrong = tf.cast(wrong, tf.float64)
        return tf.stack([tf.reduce_sum(tf.reduce_mean(part, axis=1)) for part in (tf.abs(wrong), tf.square(wrong))])

    absolute, squared, samples = _added_up(sums, batches, world)
    return {"test_mae": absolute / samples, "test_mse": squared / samples, "test_samples": int(samples)}


def language(model: Any, batches: Iterable[Any], world: World, token_bytes: float) -> dict[str, Any]:
    """{"test_loss", "test_perplexity", "test_bits_per_byte", "test_tokens", "test_samples"} of text. A collective.

    model: its outputs for tokens [b, context] are what its loss takes, a tf.keras.losses.Loss of each token, such as
    logits [b, context, vocabulary] of a cross-entropy. Targets are the next tokens [b, context]. test_loss: the mean
    cross-entropy of a token, in nats; the other two are made of it. token_bytes: the bytes of text of a token.
    """

    @tf.function
    def sums(tokens: Any, targets: Any) -> Any:
        losses = model.loss.call(targets, model(tokens, training=False))
        return tf.stack([tf.reduce_sum(tf.cast(losses, tf.float64)), tf.cast(tf.size(targets), tf.float64)])

    loss, tokens, samples = _added_up(sums, batches, world)
    mean = loss / tokens
    return {
        "test_loss": mean,
        "test_perplexity": language_of.perplexity(mean),
        "test_bits_per_byte": language_of.bits_per_byte(mean, token_bytes),
        "test_tokens": int(tokens),
        "test_samples": int(samples),
    }


def _added_up(sums: Callable[..., Any], batches: Iterable[Any], world: World) -> list[float]:
    """The `sums` (float64 [n]) over the batches of all ranks, and the number of samples."""
    total, count = np.zeros(0), 0
    for samples, labels in batches:
        found = sums(samples, labels).numpy()
        total = total + found if count else found
        count += int(labels.shape[0])
        watch.this_rank.mark()
    if world.data_size > 1:
        lengths = world.gather(len(total))  # a rank without samples learns from the others how many sums there are
        total = total if count else np.zeros(max(lengths))
        total = over_ranks.summed(world, [*total, count], "evaluation")
        return [float(value) for value in total]
    return [*map(float, total), float(count)]
