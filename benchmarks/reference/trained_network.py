"""A network of the cifar job at the end of an epoch, read from its checkpoint: its losses, accuracies and sharpness."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hessian import Eigenpair, flat, largest, product_of

ROOT = Path(__file__).resolve().parents[2]
IN_A_BATCH = 512
"""Samples of a forward pass or of a product with the Hessian, as far as memory goes; it changes no result."""


@dataclass(frozen=True, kw_only=True)
class Images:
    """uint8 [n, 32, 32, 3] with labels int64 [n]: all that the run trained on, a part of them, and all test images.

    sample: the first ones of the training images. They are in the random order of the run's seed.
    """

    training: tuple[Any, Any]
    sample: tuple[Any, Any]
    test: tuple[Any, Any]


def images_of(start: dict[str, Any], data_dir: str, sample: int) -> Images:
    """The images of a run, from the event "start" of its metrics.jsonl. Raises DataError if they are others."""
    sys.path.insert(0, str(ROOT / "jobs" / "cifar"))
    from model import CIFAR10

    from hpclaunch.training.input import datasets, shards, synthetic

    options = start["options"]
    if options["synthetic"]:
        source: Any = synthetic.Synthetic(CIFAR10, options["synthetic_samples"], options["seed"])
    else:
        source = datasets.open_dataset(data_dir, CIFAR10)
    if source.fingerprint != start["data"]["fingerprint"]:
        raise source.wrong(f"these are not the data of the run, {start['data']['fingerprint']}", source.path)
    order = shards.shuffled(source.counts["train"], options["seed"], options["train_samples"])
    images, labels = source.read("train", np.asarray(order))
    test = source.read("test", np.arange(source.counts["test"]))
    return Images(training=(images, labels), sample=(images[:sample], labels[:sample]), test=test)


class TrainedNetwork:
    """The job's mini-ResNet without batch normalization, up to its logits, with the weights of a checkpoint."""

    def __init__(self) -> None:
        sys.path.insert(0, str(ROOT / "jobs" / "cifar"))
        import tensorflow as tf
        from model import mini_resnet

        whole = mini_resnet(lambda: lambda x: x, white=255)
        whole.layers[-1].activation = tf.keras.activations.linear  # the loss is computed from logits, which is exact
        self._tf, self._model = tf, whole
        self._forward = tf.function(lambda images: whole(images, training=False), reduce_retracing=True)

    def read(self, checkpoint: Path) -> None:
        """Take the weights of a checkpoint: the arrays weight-NNN of its shared file, in the order of model.weights."""
        with np.load(checkpoint / "shared.npz") as stored:
            self._model.set_weights([stored[name] for name in sorted(stored) if name.startswith("weight-")])

    def evaluate(self, images: Any, labels: Any) -> tuple[float, float]:
        """Mean cross-entropy and accuracy (0..1)."""
        tf, loss, right = self._tf, 0.0, 0
        for start in range(0, len(labels), IN_A_BATCH):
            wanted = labels[start : start + IN_A_BATCH]
            logits = self._forward(tf.constant(images[start : start + IN_A_BATCH]))
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(wanted, logits)
            loss += float(tf.reduce_sum(losses))
            right += int(np.sum(np.argmax(logits, 1) == wanted))
        return loss / len(labels), right / len(labels)

    def sharpness(self, images: Any, labels: Any, count: int, tolerance: float, most: int) -> list[Eigenpair]:
        """The largest eigenvalues of the Hessian of the mean cross-entropy over some images, by all weights."""
        tf = self._tf

        def loss(batch: Any, wanted: Any) -> Any:
            logits = self._model(batch, training=False)
            return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(wanted, logits))

        variables = self._model.trainable_variables
        product = product_of(loss, variables, batches(images, labels))
        return largest(product, len(flat(variables)), count, tolerance=tolerance, most=most)


def batches(images: Any, labels: Any) -> Sequence[tuple[Any, Any]]:
    """The images in parts of at most IN_A_BATCH, as tensors."""
    import tensorflow as tf

    starts = range(0, len(labels), IN_A_BATCH)
    ends = [min(start + IN_A_BATCH, len(labels)) for start in starts]
    return [
        (tf.constant(images[start:end]), tf.constant(labels[start:end]))
        for start, end in zip(starts, ends, strict=True)
    ]
