"""Reads the original four files of MNIST and Fashion-MNIST (idx, as they are or packed with gzip), in pieces.

Format: yann.lecun.com/exdb/mnist, "file formats for the MNIST database": magic number and sides as big-endian integers
of 4 bytes, then a byte for each pixel or label. Keras downloads Fashion-MNIST in this form.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import struct
import zlib
from typing import IO, Any

import numpy as np

from hpclaunch.training.input.source import DataError, ImageSet, Source

# train-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte; some unpackers write a point in place of the second hyphen
NAME = re.compile(r"(?P<part>train|t10k)-(?P<kind>images|labels)[-.]idx[13]-ubyte(\.gz)?")
PARTS = {"train": "train", "test": "t10k"}
MAGIC = {"images": 0x803, "labels": 0x801}  # 8: unsigned bytes; 3 or 1 dimensions
CHUNK_BYTES = 4 << 20
MOST_SAMPLES = 1 << 26
ERRORS = (OSError, EOFError, zlib.error, struct.error)


def find(wanted: ImageSet, folder: str) -> Source | None:
    """The idx files in `folder`, or None if there are none."""
    if not os.path.isdir(folder) or not any(NAME.fullmatch(name) for name in os.listdir(folder)):
        return None
    return IdxFiles(wanted, folder)


class IdxFiles(Source):
    """Images uint8 [n, height, width] and labels uint8 [n] in four files; positions count through a file."""

    layout = "idx"

    def __init__(self, wanted: ImageSet, path: str) -> None:
        super().__init__(wanted, path)
        self._names = self._find_names()
        self._labels: dict[str, np.ndarray] = {}
        digest = hashlib.sha256()
        for split in PARTS:
            for kind in MAGIC:
                name = self._names[split, kind]
                try:
                    self._check(split, kind, name)
                    digest.update("{}:{} ".format(name, _checksum(self._path_of(name))).encode("utf-8"))
                except ERRORS as error:
                    raise self._damage_error(name, error) from None
            if len(self._labels[split]) != self.counts[split] or not self.counts[split]:
                what = "{} labels for {} images".format(len(self._labels[split]), self.counts[split])
                raise self.wrong(what, self._path_of(self._names[split, "labels"]))
        self.check_classes(self._labels["train"], self._labels["test"])
        self.fingerprint = "crc-" + digest.hexdigest()[:16]

    def files(self) -> list[str]:
        return [self._path_of(name) for name in self._names.values()]

    def read(self, split: str, indices: Any) -> tuple[Any, Any]:
        """The rows `indices`; the file is unpacked in pieces, so that only these rows are in memory."""
        indices = np.asarray(indices, np.int64)
        name, height_width = self._names[split, "images"], self.wanted.shape[:2]
        chosen = np.empty((len(indices), *height_width), np.uint8)
        order = np.argsort(indices, kind="stable")
        row_bytes = int(np.prod(height_width))
        together = max(1, CHUNK_BYTES // row_bytes)
        try:
            with _open_file(self._path_of(name)) as file:
                _dimensions(file, "images")
                for start in range(0, self.counts[split], together):
                    count = min(together, self.counts[split] - start)
                    piece = _exactly(file, count * row_bytes)
                    low, high = np.searchsorted(indices[order], [start, start + count])
                    rows = np.frombuffer(piece, np.uint8).reshape((count, *height_width))
                    chosen[order[low:high]] = rows[indices[order[low:high]] - start]
        except ERRORS as error:
            raise self._damage_error(name, error) from None
        return chosen.reshape((len(indices), *self.wanted.shape)), self._labels[split][indices]

    def _find_names(self) -> dict[tuple[str, str], str]:
        """The file of each split and kind. Raises DataError if one is missing."""
        found = {}
        for name in sorted(os.listdir(self.path), reverse=True):  # of a file and its packed form, the former
            match = NAME.fullmatch(name)
            if match:
                found[match.group("part"), match.group("kind")] = name
        wanted = [(part, kind) for part in PARTS.values() for kind in MAGIC]
        missing = ["{}-{}-idx{}-ubyte.gz".format(part, kind, MAGIC[kind] & 7) for part, kind in wanted]
        missing = [name for name, key in zip(missing, wanted) if key not in found]
        if missing:
            raise self.wrong("no file {}".format(", ".join(missing)), self.path)
        return {(split, kind): found[part, kind] for split, part in PARTS.items() for kind in MAGIC}

    def _check(self, split: str, kind: str, name: str) -> None:
        """Read a file's header, and of labels the whole. Raises DataError for another shape, or one of ERRORS."""
        path = self._path_of(name)
        with _open_file(path) as file:
            sides = _dimensions(file, kind)
            if sides[0] > MOST_SAMPLES:
                raise self.wrong("{} samples; at most {} are read".format(sides[0], MOST_SAMPLES), path)
            if kind == "labels":
                labels = np.frombuffer(_exactly(file, sides[0]), np.uint8)
                if len(labels) and labels.max() >= self.wanted.classes:
                    raise self.wrong("labels {}..{}".format(labels.min(), labels.max()), path)
                self._labels[split] = labels.astype(np.int64)
            elif (*sides[1:], 1) != self.wanted.shape:
                raise self.wrong("images of {} x {}".format(*sides[1:]), path)
            else:
                self.counts[split] = sides[0]
        length = 4 + 4 * len(sides) + int(np.prod(sides, dtype=np.int64))
        if _length(path) != length:
            raise EOFError("{} bytes, where its header needs {}".format(_length(path), length))

    def _damage_error(self, name: str, error: BaseException) -> DataError:
        return self.wrong("truncated, or not an idx file ({})".format(str(error)[:300]), self._path_of(name))

    def _path_of(self, name: str) -> str:
        return os.path.join(self.path, name)


def _open_file(path: str) -> IO[bytes]:
    if not os.path.isfile(path):  # a FIFO could be waited for without an end
        raise OSError("not a regular file")
    return gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")  # type: ignore[return-value]


def _dimensions(file: IO[bytes], kind: str) -> tuple[int, ...]:
    """The sides of the array, from the header. Raises EOFError for another magic number."""
    (magic,) = struct.unpack(">I", _exactly(file, 4))
    if magic != MAGIC[kind]:
        raise EOFError("its magic number is {:#x}, that of {} is {:#x}".format(magic, kind, MAGIC[kind]))
    sides = magic & 7
    return struct.unpack(">{}I".format(sides), _exactly(file, 4 * sides))


def _exactly(file: IO[bytes], size: int) -> bytes:
    found = file.read(size)
    if len(found) != size:
        raise EOFError("it ends too early")
    return found


def _trailer(path: str) -> tuple[int, int]:
    """The checksum and the length of the content, from the end of a gzip file (RFC 1952, section 2.3.1)."""
    with open(path, "rb") as file:
        file.seek(-8, os.SEEK_END)
        crc, length = struct.unpack("<II", file.read(8))
    return crc, length


def _length(path: str) -> int:
    return _trailer(path)[1] if path.endswith(".gz") else os.path.getsize(path)


def _checksum(path: str) -> int:
    """The CRC-32 of the content; of a packed file it is read from its end, of another one computed."""
    if path.endswith(".gz"):
        return _trailer(path)[0]
    found = 0
    with open(path, "rb") as file:
        while True:
            piece = file.read(CHUNK_BYTES)
            if not piece:
                return found
            found = zlib.crc32(piece, found)
