"""Reads CIFAR-10's own files (cifar-10-batches-py); only plain values and byte arrays, of limited size."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import numpy as np

from hpclaunch.training.input import plain_pickle
from hpclaunch.training.input.source import ImageSet, Source

FOLDER = "cifar-10-batches-py"
FILES = {"train": ["data_batch_{}".format(n) for n in range(1, 6)], "test": ["test_batch"]}

LARGEST_FILE = 64 * 2**20  # bytes; CIFAR-10's own files have 31 million


def find(wanted: ImageSet, folder: str) -> Source | None:
    """The pickles in `folder` or its cifar-10-batches-py, or None."""
    for place in (folder, os.path.join(folder, FOLDER)):
        names = FILES["train"] + FILES["test"]
        if os.path.basename(os.path.normpath(place)) == FOLDER and os.path.isdir(place):
            return CifarPickles(wanted, place)
        if any(os.path.isfile(os.path.join(place, name)) for name in names):
            return CifarPickles(wanted, place)
    return None


class CifarPickles(Source):
    """The five training files and the test file; positions count through the files in order."""

    layout = FOLDER

    def __init__(self, wanted: ImageSet, path: str) -> None:
        super().__init__(wanted, path)
        self._labels: dict[str, np.ndarray] = {}
        self._lengths: dict[str, list[int]] = {}
        digest = hashlib.sha256()
        for split, names in FILES.items():
            labels = [self._load(name, digest)[1] for name in names]
            self._lengths[split] = [len(part) for part in labels]
            self._labels[split] = np.concatenate(labels)
            self.counts[split] = len(self._labels[split])
        self.check_classes(self._labels["train"], self._labels["test"])
        self.fingerprint = "labels-" + digest.hexdigest()[:16]

    def files(self) -> list[str]:
        return [os.path.join(self.path, name) for names in FILES.values() for name in names]

    def read(self, split: str, indices: Any) -> tuple[Any, Any]:
        """The rows `indices`; only one file at a time is in memory."""
        indices = np.asarray(indices, np.int64)
        images = np.empty((len(indices),) + self.wanted.shape, np.uint8)
        start = 0
        for name, length in zip(FILES[split], self._lengths[split]):
            mine = np.flatnonzero((indices >= start) & (indices < start + length))
            if len(mine):
                rows = self._load(name)[0][indices[mine] - start]
                images[mine] = rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)  # stored by colour planes
            start += length
        return images, self._labels[split][indices]

    def _load(self, name: str, digest: Any = None) -> tuple[np.ndarray, np.ndarray]:
        path = os.path.join(self.path, name)
        if not os.path.isfile(path):
            raise self.wrong("the file {} is missing".format(name), self.path)
        if os.path.getsize(path) > LARGEST_FILE:
            raise self.wrong("the file is larger than {} MiB".format(LARGEST_FILE // 2**20), path)
        try:
            with open(path, "rb") as file:
                content = plain_pickle.read(file.read(LARGEST_FILE))
        except plain_pickle.Refused as error:
            raise self.wrong(
                "refused: the pickle asks for {}, which CIFAR-10's files do not need".format(error), path
            ) from None
        except (plain_pickle.Damaged, OSError) as error:
            raise self.wrong("truncated, or not a CIFAR-10 pickle ({})".format(error), path) from None
        if not isinstance(content, dict):
            raise self.wrong("the pickle contains no dictionary", path)
        images = content.get("data", content.get(b"data"))
        labels = content.get("labels", content.get(b"labels"))
        self._check(images, labels, path)
        labels = np.array(labels, np.int64)
        if digest is not None:
            digest.update(labels.astype("<i8").tobytes())
        return images, labels

    def _check(self, images: Any, labels: Any, path: str) -> None:
        size = int(np.prod(self.wanted.shape))
        if (
            not isinstance(images, np.ndarray)
            or images.dtype != np.uint8
            or images.ndim != 2
            or images.shape[1] != size
        ):
            found = (
                "{} {}".format(images.dtype, list(images.shape))
                if isinstance(images, np.ndarray)
                else type(images).__name__
            )
            raise self.wrong("`data` is {}, not uint8 [n, {}]".format(found, size), path)
        if not isinstance(labels, list) or not all(type(label) is int for label in labels):
            raise self.wrong("`labels` is not a list of whole numbers", path)
        if len(labels) != len(images) or not labels:
            raise self.wrong("{} labels for {} images".format(len(labels), len(images)), path)
        if min(labels) < 0 or max(labels) >= self.wanted.classes:
            raise self.wrong("labels {}..{}".format(min(labels), max(labels)), path)
