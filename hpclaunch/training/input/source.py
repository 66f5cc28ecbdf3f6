"""The interface of data sets: what a job expects, an opened data set, and the error for a wrong one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hpclaunch.training.input.shards import Shard, training_shard
from hpclaunch.training.rank.failure import TrainingError

if TYPE_CHECKING:
    from hpclaunch.training.input.moves import Moves
    from hpclaunch.training.input.order import Order

VALIDATION = "validation"  # the name of the split on which a training is validated


@dataclass(frozen=True)
class Kind:
    """One of several arrays of a sample: its shape and its type of NumPy."""

    shape: tuple[int, ...]
    dtype: Any


@dataclass(frozen=True)
class ImageSet:
    """The data set that a job expects: folder name, image shape (height, width, channels), classes, and the job's name.

    Volumes have four dimensions and no class. resized: images of other sizes are resized to the shape, and there may be
    any number of classes; `classes` is then 0 until the data are opened. others: data sets of the same shape, which are
    not taken for this one. fetch: how `hpclaunch data fetch` gets it, if not by the job's name alone.
    """

    name: str
    shape: tuple[int, ...]
    classes: int
    job: str
    resized: bool = False
    others: tuple[str, ...] = ()
    fetch: str = ""


class DataError(TrainingError):
    """Data that is missing or not as expected."""


class Source(ABC):
    """An opened data set; images are uint8 [k, height, width, channels]. It keeps no open file and can be pickled.

    layout: its name. fingerprint: a short text that differs for other data. counts: samples by split. streams: whether
    `samples` works, and streams_tests: also for the other splits, whose samples are then never all in memory.
    any_order: whether `samples` can give them in any order, and not only in that of its files.
    divides_validation: whether the setting validation_part is obeyed by the source itself, as its split "validation".
    has_images: whether samples are uint8 images; else they are arrays of sample_type and wanted.shape. label_type and
    label_shape are those of a target. several_inputs, several_targets: of a sample with several arrays, their Kinds as
    a tuple or dictionary, in place of these. is_weighted: whether `read` and `samples` give the weights of the samples
    as a third part, as Keras takes them. token_bytes: of a source of text, the bytes of text that a token stands for on
    average, by split; its samples and targets are then tokens [context], each target the token after that of the
    sample. A layout implements `read` and `files`. If it can read single samples fast, it implements `encoded` and
    `decode` as well, or `samples` in place of these; decodes: whether it has the former.
    """

    layout = ""
    fingerprint = ""
    streams = False
    streams_tests = False
    any_order = False
    decodes = False
    divides_validation = False
    has_images = True
    sample_type: Any = np.uint8
    label_type: Any = np.int64
    label_shape: tuple[int, ...] = ()
    several_inputs: Any = None
    several_targets: Any = None
    is_weighted = False

    def __init__(self, wanted: ImageSet, path: str) -> None:
        self.wanted = wanted
        self.path = path
        self.counts: dict[str, int] = {}
        self.token_bytes: dict[str, float] = {}

    @property
    def has_classes(self) -> bool:
        """Whether a target is the number of a class."""
        one = self.several_targets is None
        return one and np.dtype(self.label_type).kind in "iu" and self.label_shape == ()

    @property
    def needs_own_measures(self) -> bool:
        """Whether only the loss and the metrics of its model can measure it: it has several targets, or weights."""
        return self.several_targets is not None or self.is_weighted

    @abstractmethod
    def read(self, split: str, indices: Any) -> tuple[Any, ...]:
        """Images uint8 and labels int64 at the given positions (int64) of "train" or "test"; reads only these."""

    @abstractmethod
    def files(self) -> list[str]:
        """The paths of all files that belong to the data set: each is `path` or lies below it."""

    def samples(self, split: str, shard: Shard, order: Order, skip: Any, threads: int) -> Any:
        """One pass over a shard without its first `skip` (a tensor): tf.data of (image uint8 [h, w, c], label int64).

        order: the random order of this pass. threads: how many images are decoded at the same time.
        """
        from hpclaunch.training.input import decoding

        found = self.encoded(split, shard, order, skip)
        return decoding.in_parallel(found, lambda content: self.decode(split, content), threads)

    def encoded(self, split: str, shard: Shard, order: Order, skip: Any) -> Any:
        """The same samples as they are stored: a tf.data.Dataset of what `decode` takes."""
        raise self.cannot_stream()

    def decode(self, split: str, content: Any) -> tuple[Any, Any]:
        """One sample of `encoded`, as tensors: image uint8 [h, w, c], label int64."""
        raise self.cannot_stream()

    def decode_moved(self, split: str, content: Any, moves: Moves, move: Any) -> tuple[Any, Any]:
        """The same, with the image mirrored and shifted. move: of this image, int32 [4] (Moves).

        A source that cuts its images out of larger ones can shift the cut instead of the image.
        """
        image, label = self.decode(split, content)
        return moves.apply(image, move), label

    def stream_shard(self, order: Any, seed: int, rank: int, size: int) -> Shard:
        """The rank's part of the training samples, chosen so that `samples` reads it fast; raises DataError if not.

        order: of all training samples, or of the chosen ones (shards.shuffled).
        """
        if not self.streams:
            raise self.cannot_stream()
        return training_shard(order, rank, size)

    def cannot_stream(self) -> DataError:
        return DataError(
            "{}: data in the layout {} can be read into memory, but not streamed\n"
            "  next: use --input=memory, or convert the data to class folders or TFRecords".format(
                self.path, self.layout
            )
        )

    def fingerprint_here(self) -> str:
        """The fingerprint of the data at `path` on this host; raises DataError. It is cheap: every rank calls it."""
        return type(self)(self.wanted, self.path).fingerprint

    def check_classes(self, train: Any, test: Any) -> None:
        """Raise DataError if a class of the test labels (int64) is not among the training labels."""
        unknown = sorted(set(np.unique(test).tolist()) - set(np.unique(train).tolist()))
        if unknown:
            raise self.wrong("classes differ: the training data lack {} of the test data".format(unknown), self.path)

    def wrong(self, what: str, where: str) -> DataError:
        """The error for a fault in this data set."""
        return data_error(self.wanted, what, where)


def data_error(wanted: ImageSet, what: str, where: str) -> DataError:
    """One message: what is wrong, where, what is allowed, what to do."""
    height, width, channels = wanted.shape
    if wanted.resized:
        return DataError(
            "{}: {}\n  expected: class folders, with JPEG or PNG images of any size: train/CLASS/*.jpg|png and "
            "test/CLASS/*.jpg|png\n  next: name another folder with --data-dir".format(where, what)
        )
    own = ""  # the format in which its authors publish the data set
    if wanted.name == "cifar10":
        own = "cifar-10-batches-py, "
    elif channels == 1:
        own = "idx files, "
    return DataError(
        "{}: {}\n  expected: {} as uint8 images of {} x {} x {} in {} classes, as class folders "
        "(train/CLASS/*.jpg|png, test/CLASS/…), TFRecords (train*.tfrecord*, test*.tfrecord*), a folder of "
        "tensorflow_datasets, {}or an .npz with x_train, y_train, x_test, y_test\n"
        "  next: hpclaunch data fetch {}, or name another folder with --data-dir".format(
            where,
            what,
            wanted.name,
            height,
            width,
            channels,
            wanted.classes,
            own,
            wanted.fetch or wanted.job,
        )
    )
