"""A tf.data pipeline of one's own: each rank takes its share of the samples."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import tensorflow as tf

from hpclaunch.training.input.order import Order
from hpclaunch.training.input.shards import Shard, runs
from hpclaunch.training.input.source import VALIDATION, DataError, ImageSet, Kind, Source
from hpclaunch.training.program.run import Run
from hpclaunch.training.program.sharded_data import Data, data, refuse_settings
from hpclaunch.training.rank.failure import AgreedError

WINDOW = 2048  # samples of which the next one is chosen


class Pipeline(Source):
    """Samples (input, target), perhaps with a weight, of tf.data.Datasets, by split."""

    layout = "tf.data"
    streams = streams_tests = True
    has_images = False

    def __init__(self, name: str, splits: dict[str, Any]) -> None:
        train = splits["train"]
        sample, target, *weights = _one_sample(train)
        shape = () if tf.nest.is_nested(sample) else tuple(sample.shape)
        super().__init__(ImageSet(name, shape, classes=0, job=name), "the tf.data pipeline")
        self._splits, self.is_weighted = splits, bool(weights)
        if tf.nest.is_nested(sample):
            self.several_inputs = tf.nest.map_structure(_kind, sample)
        else:
            self.sample_type = sample.dtype.as_numpy_dtype
            self.has_images = self.sample_type == np.uint8 and len(sample.shape) == 3
        if tf.nest.is_nested(target):
            self.several_targets = tf.nest.map_structure(_kind, target)
        else:
            self.label_type, self.label_shape = target.dtype.as_numpy_dtype, tuple(target.shape)
        for split, dataset in splits.items():
            if split != "train" and dataset.element_spec != train.element_spec:
                raise self.wrong("the samples of {} differ: {}".format(split, dataset.element_spec), self.path)
            self.counts[split] = int(dataset.cardinality())
            if self.counts[split] < 1:
                raise self.wrong(
                    "the number of samples of {} is not known, infinite or 0".format(split), "tf.data.Dataset"
                )
        text = repr((train.element_spec, sorted(self.counts.items())))
        self.fingerprint = "pipeline-" + hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]

    def files(self) -> list[str]:
        return []

    def fingerprint_here(self) -> str:
        return self.fingerprint

    def read(self, split: str, indices: Any) -> tuple[Any, ...]:
        """The samples at `indices` of one pass; the whole pipeline is run once."""
        positions = np.asarray(indices, np.int64)
        kinds = self._splits["train"].element_spec
        samples: tuple[Any, ...] = tf.nest.map_structure(
            lambda kind: np.empty((len(positions), *kind.shape), kind.dtype.as_numpy_dtype), kinds
        )
        arrays = tf.nest.flatten(samples)
        wanted = np.zeros(self.counts[split], bool)
        wanted[positions] = True
        chosen = tf.data.Dataset.zip((self._splits[split], tf.data.Dataset.from_tensor_slices(wanted)))
        found = chosen.filter(lambda sample, take: take).map(lambda sample, take: sample)
        order, place = np.argsort(positions, kind="stable"), 0
        ranked = positions[order]
        for position, sample in zip(np.unique(positions), found.as_numpy_iterator()):
            while place < len(order) and ranked[place] == position:
                for array, part in zip(arrays, tf.nest.flatten(sample)):
                    array[order[place]] = part
                place += 1
        return samples

    def samples(self, split: str, shard: Shard, order: Order, skip: Any, threads: int) -> Any:
        count = self.counts[split]
        own = runs(shard.indices[: shard.samples], [count])[0]
        found = self._splits[split].skip(own.first).shard(own.stride, 0).take(own.samples)
        for padding in runs(shard.indices[shard.samples :], [count]):
            found = found.concatenate(self._splits[split].skip(padding.first).take(1))
        return order.shuffle(found, WINDOW).skip(skip)

    def stream_shard(self, order: Any, seed: int, rank: int, size: int) -> Shard:
        """Every size-th sample of one pass: a pipeline has no other order."""
        if len(order) != self.counts["train"]:
            raise self.wrong("--train-samples and --validation-part need --input=memory", self.path)
        return super().stream_shard(np.arange(len(order)), seed, rank, size)

    def wrong(self, what: str, where: str) -> DataError:
        return DataError(
            "{}: {}\n  expected: a tf.data.Dataset of single samples, (input, target) or (input, target, weight), "
            "each of the same shape, with a known number of samples\n  next: leave out batch and repeat; if the number "
            "is not known, say it with tf.data.experimental.assert_cardinality".format(where, what)
        )


def samples(run: Run, dataset: Any, test: Any = None, validation: Any = None) -> Data:
    """The samples of a tf.data pipeline, divided among the ranks: rank r takes sample r, r + size, ... A collective.

    dataset, test, validation: tf.data.Datasets of single samples (input, target) or (input, target, weight), as Keras
    takes them: for several inputs or outputs each part may be a tuple or dictionary. They are neither batched
    nor repeated nor shuffled without a seed: each must give the same samples in the same order on every rank. With the
    setting input=memory the pipeline runs once, and every epoch has another order of all samples; with input=stream it
    runs in every epoch, and the next sample is one of 2048, by chance. Raises AgreedError if shapes or the number of
    samples are not known.
    """
    refuse_settings(run, run.settings.synthetic, "--synthetic=true", "this program has no synthetic data")
    refuse_settings(run, bool(run.settings.stage_to), "--stage-to", "a tf.data pipeline has no files to copy")
    named = {"train": dataset, "test": test, VALIDATION: validation}
    splits = {split: one for split, one in named.items() if one is not None}
    try:
        source = Pipeline(run.name, splits)
    except DataError as error:  # the same on every rank
        raise AgreedError(str(error), speaks=run.is_root) from None
    return data(run, source)


def _one_sample(dataset: Any) -> tuple[Any, ...]:
    spec = dataset.element_spec
    parts = tf.nest.flatten(spec)
    if (
        not isinstance(spec, tuple)
        or len(spec) not in (2, 3)
        or not all(isinstance(one, tf.TensorSpec) for one in parts)
    ):
        raise _element_error("an element is {}".format(spec))
    if not all(one.shape.is_fully_defined() for one in parts):
        raise _element_error("the shape of a sample is not known: {}".format(spec))
    return spec


def _kind(spec: tf.TensorSpec) -> Kind:
    return Kind(tuple(spec.shape), spec.dtype.as_numpy_dtype)


def _element_error(what: str) -> DataError:
    return DataError(
        "tf.data.Dataset: {}\n  expected: single samples, (input, target) or (input, target, weight), each of the same "
        "shape\n  next: leave out batch, or fix the shapes with tf.ensure_shape".format(what)
    )
