"""Reads rows of an .npz file with x_train, y_train, x_test, y_test; streams the members and never unpickles."""

from __future__ import annotations

import hashlib
import os
import zipfile
from typing import IO, Any

import numpy as np

from hpclaunch.training.input import npz_members
from hpclaunch.training.input.source import ImageSet, Source

CHUNK_BYTES = 4 << 20
MOST_LABELS = 128 << 20  # bytes of the labels of a split: 16 million whole numbers
SPLITS = ("train", "test")
MOST_REASON = 300  # characters of an error, which may quote the file


def find(wanted: ImageSet, folder: str) -> Source | None:
    """The .npz file that `folder` is or contains (NAME.npz, or the only one), or None."""
    if os.path.isfile(folder):
        return NpzFile(wanted, folder) if folder.endswith(".npz") else None
    if not os.path.isdir(folder):
        return None
    others = [name + ".npz" for name in wanted.others]
    found = sorted(name for name in os.listdir(folder) if name.endswith(".npz") and name not in others)
    named = wanted.name + ".npz"
    if named in found:
        return NpzFile(wanted, os.path.join(folder, named))
    return NpzFile(wanted, os.path.join(folder, found[0])) if len(found) == 1 else None


class NpzFile(Source):
    """Arrays x_* uint8 [n, height, width(, channels)] and y_* of whole numbers [n] or [n, 1]."""

    layout = "npz"

    def __init__(self, wanted: ImageSet, path: str) -> None:
        super().__init__(wanted, path)
        self._labels: dict[str, np.ndarray] = {}
        try:
            with npz_members.ArchiveFile(path) as file, zipfile.ZipFile(file) as archive:
                members = {info.filename: info for info in archive.infolist()}
                missing = [m for m in ("x_train", "y_train", "x_test", "y_test") if m + ".npy" not in members]
                if missing:
                    raise self.wrong("no array {}".format(", ".join(missing)), path)
                for split in SPLITS:
                    self._check(archive, split)
                self.check_classes(self._labels["train"], self._labels["test"])
                sums = npz_members.checksums(archive)
        except npz_members.ERRORS as error:
            raise self.wrong("truncated, or not an npz file ({})".format(str(error)[:MOST_REASON]), path) from None
        self.fingerprint = "crc-" + hashlib.sha256(sums.encode("utf-8")).hexdigest()[:16]

    def _check(self, archive: zipfile.ZipFile, split: str) -> None:
        with archive.open("x_{}.npy".format(split)) as file:
            found = self._header(archive, file, "x_" + split)
        shape, dtype = found.shape, found.dtype
        if dtype != np.uint8 or shape[1:] not in self._image_shapes():
            raise self.wrong("x_{} is {} {}".format(split, dtype, list(shape)), self.path)
        with archive.open("y_{}.npy".format(split)) as file:
            of_labels = self._header(archive, file, "y_" + split)
            y_shape, y_dtype = of_labels.shape, of_labels.dtype
            if y_dtype.kind not in "iu" or y_shape not in ((shape[0],), (shape[0], 1)):
                raise self.wrong(
                    "y_{} is {} {} for {} images".format(split, y_dtype, list(y_shape), shape[0]), self.path
                )
            labels = npz_members.array(archive, "y_" + split, file, of_labels, MOST_LABELS)
        if len(labels) != shape[0] or shape[0] == 0:
            raise self.wrong("{} labels for {} images in {}".format(len(labels), shape[0], split), self.path)
        if labels.min() < 0 or labels.max() >= self.wanted.classes:
            raise self.wrong("labels {}..{} in y_{}".format(labels.min(), labels.max(), split), self.path)
        self._labels[split] = labels.astype(np.int64)
        self.counts[split] = shape[0]

    def _image_shapes(self) -> list[tuple[int, ...]]:
        whole = self.wanted.shape
        return [whole, whole[:2]] if whole[2] == 1 else [whole]

    def _header(self, archive: zipfile.ZipFile, file: IO[bytes], name: str) -> npz_members.Header:
        found = npz_members.header(archive, name, file)
        if found.dtype.hasobject:
            raise self.wrong("{} contains Python objects, which are never loaded".format(name), self.path)
        if found.by_columns and len(found.shape) > 1:
            raise self.wrong("{} is stored by columns".format(name), self.path)
        return found

    def files(self) -> list[str]:
        return [self.path]

    def read(self, split: str, indices: Any) -> tuple[Any, Any]:
        """The rows `indices`; the member is unpacked in pieces, so that only these rows are in memory."""
        indices = np.asarray(indices, np.int64)
        try:
            with npz_members.ArchiveFile(self.path) as whole, zipfile.ZipFile(whole) as archive:
                found = npz_members.rows(archive, "x_" + split, indices, CHUNK_BYTES)
        except npz_members.ERRORS as error:
            reason = str(error)[:MOST_REASON]
            raise self.wrong("x_{} is truncated or corrupt ({})".format(split, reason), self.path) from None
        return found.reshape((len(indices),) + self.wanted.shape), self._labels[split][indices]
