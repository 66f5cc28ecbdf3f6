"""Reads images from TFRecord files of tf.train.Example; counts records by their headers alone.

Features: the image under image/encoded, image or image_raw (JPEG, PNG, or the bytes of an image of the wanted shape),
the class from 0 under image/class/label or label.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from hpclaunch.training.input.shards import Shard, record_shard, runs
from hpclaunch.training.input.source import DataError, ImageSet, Source

if TYPE_CHECKING:
    from hpclaunch.training.input.order import Order

# train.tfrecord, train-00001.tfrecords, cifar-train.tfrecord-00000-of-00004, train-00000-of-01024 (as ImageNet's)
NAME = re.compile(r"(^|[-_.])(?P<split>train|test|validation)([-_.].*)?(\.tfrecords?([-_.].*)?|-\d+-of-\d+)$")
IMAGE_KEYS = ("image/encoded", "image", "image_raw")
LABEL_KEYS = ("image/class/label", "label")
HEADER, FOOTER = 12, 4  # bytes: length (little endian, 8) and its checksum; the checksum of the content
LARGEST_RECORD = 1 << 28  # bytes; TensorFlow has a record in memory as a whole
WINDOW = 2048  # encoded records of which the next one is chosen
AHEAD = 4  # files that are read in parallel


def find(wanted: ImageSet, folder: str) -> Source | None:
    """The TFRecord files in `folder`, or None if there are none."""
    if not os.path.isdir(folder) or not any(NAME.search(name) for name in os.listdir(folder)):
        return None
    return TFRecords(wanted, folder)


def folder_of(wanted: ImageSet, folder: str) -> str:
    """The data set's own folder in `folder`, else `folder` itself; raises DataError if there is neither."""
    inner = os.path.join(folder, wanted.name)
    place = inner if os.path.isdir(inner) else folder
    if not os.path.isdir(place):
        raise DataError(
            "{}: no such folder\n  next: use --data-dir FOLDER, or --synthetic=true".format(
                folder or "--data-dir is empty"
            )
        )
    return place


class TFRecords(Source):
    """TFRecord files; positions count through the sorted files of a split.

    Where there are files test*.tfrecord, validation*.tfrecord are for the validation; else these are for the test.
    """

    layout = "TFRecords"
    streams = True
    streams_tests = True
    decodes = True
    # A layout of other samples overrides this, the types and shapes of Source, `_features` and `decode`.
    window = WINDOW

    def __init__(self, wanted: ImageSet, path: str) -> None:
        super().__init__(wanted, path)
        named: dict[str, list[str]] = {"train": [], "test": [], "validation": []}
        for name in self._list_files():
            split = self._split_of(name)
            if split:
                named[split].append(name)
        self._names = named if named["test"] else {"train": named["train"], "test": named["validation"]}
        if not self._names.get("validation"):
            self._names.pop("validation", None)
        self.file_counts: dict[str, list[int]] = {}
        self._keys: dict[str, tuple[str, str, bool]] = {}
        digest = hashlib.sha256()
        for split, names in self._names.items():
            if not names:
                raise self.wrong("no file {}*.tfrecord*".format(split), path)
            self.file_counts[split] = [self._count(name) for name in names]
            self.counts[split] = sum(self.file_counts[split])
            if not self.counts[split]:
                raise self.wrong("no record in the files of {}".format(split), path)
            self._keys[split] = self._features(split)
            sizes = [os.path.getsize(os.path.join(path, name)) for name in names]
            digest.update(repr((names, self.file_counts[split], sizes)).encode("utf-8", "surrogateescape"))
        self.fingerprint = "records-" + digest.hexdigest()[:16]

    def files(self) -> list[str]:
        return [os.path.join(self.path, name) for names in self._names.values() for name in names]

    def fingerprint_here(self) -> str:
        """Rank 0's fingerprint, if this host has all files; only rank 0 counts their records.

        It uses one listing: a query for each of 100,000 files from every rank would overload a shared file system.
        """
        here = set(self._list_files())
        for name in (name for names in self._names.values() for name in names):
            if name not in here:
                raise self.wrong("the file is missing on this host", self._path_of(name))
        return self.fingerprint

    def read(self, split: str, indices: Any) -> tuple[Any, Any]:
        """Images and labels at `indices`; reads each of their files once, and verifies its checksums."""
        import tensorflow as tf

        indices = np.asarray(indices, np.int64)
        images = np.empty((len(indices),) + self.wanted.shape, self.sample_type)
        labels = np.empty((len(indices),) + self.label_shape, self.label_type)
        counts = self.file_counts[split]
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        files = np.searchsorted(starts, indices, side="right") - 1
        for file in np.unique(files):  # there may be one for every sample
            rows, name = np.flatnonzero(files == file), self._names[split][file]
            try:
                images[rows], labels[rows] = self._read_file(split, name, indices[rows] - starts[file], counts[file])
            except (tf.errors.OpError, UnicodeDecodeError) as error:  # TensorFlow's own message may quote the record
                reason = (
                    "a record is no Example" if isinstance(error, UnicodeDecodeError) else str(error).split("\n")[0]
                )
                raise self.wrong("damaged, or not as expected ({})".format(reason), self._path_of(name)) from None
        return images, labels

    def stream_shard(self, order: Any, seed: int, rank: int, size: int) -> Shard:
        """Whole files if there are enough of them, so that a rank opens no others; else every size-th record."""
        if len(order) != self.counts["train"]:
            raise DataError(
                "{}: TFRecords can only be streamed completely, not {} chosen samples of {}\n"
                "  next: use --input=memory, or omit --train-samples and --validation-part".format(
                    self.path, len(order), self.counts["train"]
                )
            )
        return record_shard(self.file_counts["train"], seed, rank, size)

    def encoded(self, split: str, shard: Shard, order: Order, skip: Any) -> Any:
        import tensorflow as tf

        own = runs(shard.indices[: shard.samples], self.file_counts[split])
        padding = runs(shard.indices[shard.samples :], self.file_counts[split])
        paths = tf.constant([os.fsencode(self._path_of(self._names[split][run.file])) for run in own + padding])
        # Three tensors, and not one that is unstacked: tf.data's optimizer crashes if skip or take gets the second
        # output of an operation (seen with TensorFlow 2.15).
        first, stride, count = np.array([[run.first, run.stride, run.samples] for run in own + padding], np.int64).T

        def records(number: Any) -> Any:
            begun = tf.data.TFRecordDataset(tf.gather(paths, number)).skip(tf.gather(first, number))
            return begun.shard(tf.gather(stride, number), 0).take(tf.gather(count, number))

        found = tf.data.Dataset.from_tensor_slices(order(len(own), "files")).interleave(records, cycle_length=AHEAD)
        if padding:
            found = found.concatenate(records(len(own)))
        return order.shuffle(found, self.window).skip(skip)

    def _read_file(self, split: str, name: str, places: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        import tensorflow as tf

        from hpclaunch.training.input import decoding

        unique, back = np.unique(places, return_inverse=True)
        wanted = np.zeros(count, bool)
        wanted[unique] = True
        records = tf.data.Dataset.zip(
            (tf.data.TFRecordDataset(self._path_of(name)), tf.data.Dataset.from_tensor_slices(wanted))
        )
        records = records.filter(lambda content, take: take).map(lambda content, take: content)
        parsed = decoding.in_parallel(records, lambda content: self.decode(split, content)).batch(256)
        parts = [(images.numpy(), labels.numpy()) for images, labels in parsed]
        images, labels = [np.concatenate(part) for part in zip(*parts)]
        return images[back], labels[back]

    def decode(self, split: str, content: Any) -> tuple[Any, Any]:
        import tensorflow as tf

        from hpclaunch.training.input import decoding

        image_key, label_key, raw = self._keys[split]
        features = {image_key: tf.io.FixedLenFeature([], tf.string), label_key: tf.io.FixedLenFeature([], tf.int64)}
        found = tf.io.parse_single_example(content, features)
        label = found[label_key]
        in_range = tf.debugging.Assert((label >= 0) & (label < self.wanted.classes), ["label", label])
        with tf.control_dependencies([in_range]):
            label = tf.identity(label)
        if raw:
            return tf.reshape(tf.io.decode_raw(found[image_key], tf.uint8), self.wanted.shape), label
        return decoding.image(found[image_key], self.wanted.shape), label

    def _list_files(self) -> list[str]:
        """The sorted names of the files below `path`."""
        return sorted(os.listdir(self.path))

    def _split_of(self, name: str) -> str:
        """The split in the name of a file: train, test or validation; empty if it is not part of the data."""
        found = NAME.search(name)
        return found.group("split") if found else ""

    def _features(self, split: str) -> tuple[str, str, bool]:
        """The names of image and label in the first record, and whether the image is raw bytes."""
        import tensorflow as tf

        name = next(n for n, count in zip(self._names[split], self.file_counts[split]) if count)
        try:
            content = next(iter(tf.data.TFRecordDataset(self._path_of(name)).take(1))).numpy()
            features = tf.train.Example.FromString(content).features.feature
        except Exception as error:  # the class of protobuf's error depends on its version
            raise self.wrong(
                "no tf.train.Example ({})".format(str(error).split("\n")[0]), self._path_of(name)
            ) from None
        image = next((key for key in IMAGE_KEYS if features[key].bytes_list.value), None)
        label = next((key for key in LABEL_KEYS if features[key].int64_list.value), None)
        if image is None or label is None:
            what = "the features {} contain no image under {} or no class under {}"
            found = sorted(key for key in features if features[key].WhichOneof("kind"))
            raise self.wrong(what.format(found, "|".join(IMAGE_KEYS), "|".join(LABEL_KEYS)), self._path_of(name))
        return image, label, len(features[image].bytes_list.value[0]) == int(np.prod(self.wanted.shape))

    def _count(self, name: str) -> int:
        """The number of records in a file, from their lengths; raises DataError if the last one is incomplete."""
        path, count, place = self._path_of(name), 0, 0
        about = os.stat(path)
        if not stat.S_ISREG(about.st_mode):  # a FIFO could be waited for without an end
            raise self.wrong("not a regular file", path)
        size = about.st_size
        with open(path, "rb") as file:
            if file.read(2) == b"\x1f\x8b":
                raise self.wrong("compressed with gzip; only uncompressed TFRecords can be read", path)
            while place < size:
                begun = place
                file.seek(place)
                header = file.read(HEADER)
                place += HEADER + FOOTER + (struct.unpack("<Q", header[:8])[0] if len(header) == HEADER else size)
                if place > size or place - begun - HEADER - FOOTER > LARGEST_RECORD:
                    raise self.wrong(
                        "truncated, or not a TFRecord file: record {} ends beyond the file, or has more than "
                        "{} MiB".format(count, LARGEST_RECORD // 2**20),
                        path,
                    )
                if place == begun + HEADER + FOOTER:  # a file of zeros would be nothing but such records
                    raise self.wrong("not a TFRecord file of samples: record {} is empty".format(count), path)
                count += 1
        return count

    def _path_of(self, name: str) -> str:
        return os.path.join(self.path, name)
