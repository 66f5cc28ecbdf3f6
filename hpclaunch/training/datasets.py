"""Finds a data set on disk and opens it by its layout; never downloads, never invents data."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Callable

from hpclaunch.training.failure import TrainingError


@dataclass(frozen=True)
class ImageSet:
    """What a job expects: the folder's name, image shape (height, width, channels), classes, the job to fetch for."""

    name: str
    shape: tuple[int, int, int]
    classes: int
    job: str


class DataError(TrainingError):
    """Data that is missing or not as expected."""


class Source(ABC):
    """An opened data set. A layout implements the four members; images are uint8 [k, height, width, channels].

    layout: its name. fingerprint: a short text that differs for other data. counts: samples by split.
    """

    layout = ""
    fingerprint = ""

    def __init__(self, wanted: ImageSet, path: str) -> None:
        self.wanted = wanted
        self.path = path
        self.counts: dict[str, int] = {}

    @abstractmethod
    def read(self, split: str, indices: Any) -> tuple[Any, Any]:
        """Images uint8 and labels int64 at the given positions (int64) of "train" or "test"; reads only these."""

    def wrong(self, what: str, where: str) -> DataError:
        """The error for a fault in this data set."""
        return data_error(self.wanted, what, where)


def data_error(wanted: ImageSet, what: str, where: str) -> DataError:
    """One message: what is wrong, where, what is allowed, what to do."""
    height, width, channels = wanted.shape
    return DataError(
        "{}: {}\n  expected: {} as uint8 images of {} x {} x {} in {} classes, as class folders "
        "(train/CLASS/*.jpg|png, test/CLASS/…), {}or an .npz with x_train, y_train, x_test, y_test\n"
        "  next: hpclaunch data fetch {}, or name another folder with --data-dir".format(
            where,
            what,
            wanted.name,
            height,
            width,
            channels,
            wanted.classes,
            "cifar-10-batches-py, " if wanted.name == "cifar10" else "",
            wanted.job,
        )
    )


def open_dataset(data_dir: str | None, wanted: ImageSet) -> Source:
    """Open the data set in `data_dir`, which is its folder, the folder above it, or an .npz file.

    Raises DataError if it is missing or unreadable.
    """
    if not data_dir:
        raise data_error(wanted, "no data folder was given", "--data-dir and HPCLAUNCH_DATA_DIR are empty")
    if not os.path.exists(data_dir):
        raise data_error(wanted, "does not exist", data_dir)
    for folder in (data_dir, os.path.join(data_dir, wanted.name)):
        for layout in _layouts():
            source = layout(wanted, folder)
            if source is not None:
                return source
    raise data_error(wanted, "holds no data set of a known layout (found: {})".format(_listing(data_dir)), data_dir)


def _layouts() -> list[Callable[[ImageSet, str], Source | None]]:
    from hpclaunch.training import cifar_pickles, image_folders, npz_file

    return [image_folders.find, cifar_pickles.find, npz_file.find]


def _listing(folder: str) -> str:
    if not os.path.isdir(folder):
        return "a file"
    names = sorted(os.listdir(folder))
    return ", ".join(names[:6] + (["…"] if len(names) > 6 else [])) or "nothing"
