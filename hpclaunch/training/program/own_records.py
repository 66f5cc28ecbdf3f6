"""One's own TFRecord files, with features of any names and types."""

from __future__ import annotations

import os
from typing import Any, Callable, Mapping

import numpy as np

from hpclaunch.training.input.source import DataError, ImageSet
from hpclaunch.training.input.tfrecords import TFRecords
from hpclaunch.training.program.run import Run
from hpclaunch.training.program.sharded_data import Data, data, own_path, source

Parse = Callable[[Mapping[str, Any]], "tuple[Any, Any]"]


class OwnRecords(TFRecords):
    """TFRecords of tf.train.Example with the features of a program: train*.tfrecord*, test*.tfrecord*."""

    layout = "TFRecords of one's own"
    has_images = False

    def __init__(self, name: str, path: str, features: Mapping[str, Any], parse: Parse) -> None:
        self._schema, self._own = dict(features), parse
        super().__init__(ImageSet(name, (), classes=0, job=name), path)

    def wrong(self, what: str, where: str) -> DataError:
        return DataError(
            "{}: {}\n  expected: TFRecords of tf.train.Example, not compressed, called train*.tfrecord* and "
            "test*.tfrecord* (or validation*), with the features {}\n"
            "  next: name other features, or another folder".format(where, what, ", ".join(sorted(self._schema)))
        )

    def _features(self, split: str) -> Any:
        """Learn types and shapes from the first record of a split."""
        import tensorflow as tf

        name = next(n for n, count in zip(self._names[split], self.file_counts[split]) if count)
        path = os.path.join(self.path, name)
        try:
            content = next(iter(tf.data.TFRecordDataset(path).take(1)))
            sample, target = self.decode(split, content)
        except (tf.errors.OpError, UnicodeDecodeError) as error:
            raise self.wrong(str(error).split("\n")[0][:300], path) from None
        if self.wanted.shape and tuple(sample.shape) != self.wanted.shape:
            raise self.wrong("a sample is {}, and another one {}".format(sample.shape, self.wanted.shape), path)
        self.wanted = ImageSet(self.wanted.name, tuple(sample.shape), classes=0, job=self.wanted.job)
        self.sample_type, self.label_type = sample.dtype.as_numpy_dtype, target.dtype.as_numpy_dtype
        if self.has_classes and not target.shape:
            self.label_type = np.int64
        self.label_shape = tuple(target.shape)
        self.has_images = self.sample_type == np.uint8 and len(self.wanted.shape) == 3
        return None

    def decode(self, split: str, content: Any) -> tuple[Any, Any]:
        import tensorflow as tf

        sample, target = self._own(tf.io.parse_single_example(content, self._schema))
        if target.dtype.is_integer and target.shape.rank == 0:
            target = tf.cast(target, tf.int64)
        if self.wanted.shape:
            sample = tf.ensure_shape(sample, self.wanted.shape)
        return sample, target


def _open_records(name: str, folder: str, features: Mapping[str, Any], parse: Parse) -> OwnRecords:
    if not os.path.isdir(folder):
        raise DataError(
            "{}: no such folder\n  next: name the folder of the TFRecords with folder=, or with --data-dir".format(
                folder or "--data-dir is empty"
            )
        )
    return OwnRecords(name, folder, features, parse)


def records(run: Run, features: Mapping[str, Any], parse: Parse, folder: str = "") -> Data:
    """One's own TFRecords, divided among the ranks: whole files, if there are enough of them. A collective.

    features: the schema of a record, as for tf.io.parse_single_example, such as
    {"x": tf.io.FixedLenFeature([8], tf.float32)}. parse: a function that makes (sample, target) of the parsed features,
    a dictionary of tensors; every sample has the same shape. folder: with train*.tfrecord* and test*.tfrecord* (or
    validation*); without one, that of the settings (data_dir). Raises AgreedError if a file has other features.
    """
    folder = own_path(run, folder)
    return data(run, source(run, lambda: _open_records(run.name, folder, features, parse)))
