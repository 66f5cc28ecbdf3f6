"""Opens the arrays of an .npz file with limits: every length is compared with the file before anything is allocated."""

from __future__ import annotations

import io
import os
import tokenize
import zipfile
import zlib
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

LARGEST_READ = 8 << 20  # bytes of the file in memory at once; its list of members is one read
LARGEST_HEADER = 10_000  # bytes; NumPy's own limit, of newer versions
MOST_EXPANSION = 1100  # times that deflate can shrink a member (zlib's technical details: 1032 at most)
# What reading a damaged archive can raise: zipfile and NumPy have no error of their own for all of it.
ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    ValueError,
    EOFError,
    OSError,
    RuntimeError,  # an encrypted member; with it RecursionError and NotImplementedError
    SyntaxError,
    tokenize.TokenError,  # of a header that is no Python literal
    LookupError,
    TypeError,
    AssertionError,
    OverflowError,
    MemoryError,  # of a header of operators within each other: Python's parser calls it so
)


@dataclass(frozen=True)
class Header:
    """The shape and type of an array, and where its content begins in its member."""

    shape: tuple[int, ...]
    dtype: Any
    by_columns: bool
    length: int


class ArchiveFile(io.FileIO):
    """A regular file that never gives more than `LARGEST_READ` bytes at once; zipfile then asks again, or refuses."""

    def __init__(self, path: str) -> None:
        if not os.path.isfile(path):  # a FIFO or a device could be waited for without an end
            raise ValueError("not a regular file")
        super().__init__(path)

    def read(self, size: int | None = -1) -> bytes:
        """Up to `size` bytes."""
        wanted = LARGEST_READ if size is None or size < 0 else min(size, LARGEST_READ)
        return bytes(super().read(wanted) or b"")


def header(archive: zipfile.ZipFile, name: str, file: IO[bytes]) -> Header:
    """The header of an opened array. Raises ValueError if its content is not as long as its shape says."""
    info = archive.getinfo(name + ".npy")
    version = npy.read_magic(file)
    width = 2 if version == (1, 0) else 4
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError("{} has version {} of NumPy's format".format(name, version))
    length = file.read(width)
    size = int.from_bytes(length, "little")
    if len(length) < width or size > LARGEST_HEADER:
        raise ValueError("the header of {} has {} bytes".format(name, size))
    text = io.BytesIO(length + file.read(size))
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, by_columns, dtype = read(text)
    found = Header(shape, dtype, by_columns, npy.MAGIC_LEN + width + size)
    if not dtype.hasobject:
        _check_length(name, found, info)
    return found


def checksums(archive: zipfile.ZipFile) -> str:
    """The names and the archive's own checksums of all members: they identify a data set without reading it."""
    names = sorted(set(archive.namelist()))
    return "".join("{}:{:08x} ".format(name, archive.getinfo(name).CRC) for name in names)


def opened_header(archive: zipfile.ZipFile, name: str) -> Header:
    """The header of the array `name`. Raises KeyError if there is none."""
    with archive.open(name + ".npy") as file:
        return header(archive, name, file)


def rows(archive: zipfile.ZipFile, name: str, indices: Any, chunk_bytes: int) -> Any:
    """The rows `indices` (int64, in any order) of an array [n, ...]; unpacks `chunk_bytes` of the member at once."""
    order = np.argsort(indices, kind="stable")
    with archive.open(name + ".npy") as file:
        found = header(archive, name, file)
        chosen = np.empty((len(indices), *found.shape[1:]), found.dtype)
        row_bytes = int(np.prod(found.shape[1:], dtype=np.int64)) * found.dtype.itemsize
        together = max(1, chunk_bytes // max(1, row_bytes))
        for start in range(0, found.shape[0], together):
            count = min(together, found.shape[0] - start)
            piece = file.read(count * row_bytes)
            if len(piece) != count * row_bytes:
                raise EOFError("{} ends in row {}".format(name, start + len(piece) // row_bytes))
            low, high = np.searchsorted(indices[order], [start, start + count])
            chunk = np.frombuffer(piece, found.dtype).reshape((count, *found.shape[1:]))
            chosen[order[low:high]] = chunk[indices[order[low:high]] - start]
    return chosen


def _check_length(name: str, found: Header, info: zipfile.ZipInfo) -> None:
    """Raise ValueError if the member is not as long as the array, or longer than it can become."""
    count = 1
    for side in found.shape:
        if type(side) is not int or side < 0:
            raise ValueError("{} has the shape {}".format(name, str(found.shape)[:100]))
        count *= side
    needed = found.length + count * found.dtype.itemsize
    if needed != info.file_size:
        raise ValueError("{} has {} bytes, and its shape needs {}".format(name, info.file_size, needed))
    stored = info.compress_type == zipfile.ZIP_STORED
    if not stored and info.compress_type != zipfile.ZIP_DEFLATED:
        raise ValueError("{} is compressed in a way that NumPy does not use".format(name))
    if info.file_size > info.compress_size * (1 if stored else MOST_EXPANSION):
        raise ValueError(
            "{} should have {} bytes, but has {} in the file".format(name, info.file_size, info.compress_size)
        )


def array(archive: zipfile.ZipFile, name: str, file: IO[bytes], found: Header, most: int) -> Any:
    """The whole array after its header; raises ValueError if it has more than `most` bytes or ends too early."""
    size = int(np.prod(found.shape, dtype=np.int64)) * found.dtype.itemsize
    if size > most:
        raise ValueError("{} has {} bytes; at most {} are read".format(name, size, most))
    content = file.read(size)
    if len(content) != size:
        raise EOFError("{} ends after {} of {} bytes".format(name, len(content), size))
    return np.frombuffer(content, found.dtype)
