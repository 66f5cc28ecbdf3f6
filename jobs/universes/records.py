"""Writes TFRecords of tf.train.Example without TensorFlow: a feature of bytes and one of float32 numbers.

Sources: tensorflow/core/lib/io/record_writer.h (the frame of a record), tensorflow/core/example/*.proto with the wire
format of protocol buffers (its content), RFC 3720 appendix B.4 (CRC-32C).
"""

from __future__ import annotations

import struct
from typing import BinaryIO, Sequence

import numpy as np

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, reflected
_MASK = 0xA282EAD8
_LANES = 4096  # parts of a large content whose sums are computed side by side


def write_record(file: BinaryIO, content: bytes) -> None:
    """Append one record: its length (8 bytes, little endian), the length's sum, the content, the content's sum."""
    length = struct.pack("<Q", len(content))
    file.write(length + struct.pack("<I", masked(crc32c(length))))
    file.write(content)
    file.write(struct.pack("<I", masked(crc32c(content))))


def example(x: bytes, y: Sequence[float]) -> bytes:
    """An Example with x: one string of bytes, and y: float32 numbers."""
    features = [("x", _field(1, _field(1, x))), ("y", _field(2, _field(1, np.asarray(y, "<f4").tobytes())))]
    # Features.feature is a map: repeated entries of a key (1) and a value (2).
    entries = [_field(1, _field(1, name.encode()) + _field(2, feature)) for name, feature in features]
    return _field(1, b"".join(entries))


def masked(crc: int) -> int:
    """The sum as TFRecords store it: turned right by 15 bits, plus a constant."""
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF


def crc32c(content: bytes) -> int:
    """CRC-32C of `content`. Large contents are divided into 4,096 parts, whose sums NumPy computes side by side."""
    width = len(content) // _LANES
    crc = 0xFFFFFFFF
    if width >= _LANES // 64:
        parts = np.frombuffer(content, np.uint8, width * _LANES).reshape(_LANES, width)
        sums = np.zeros(_LANES, np.uint32)
        for column in np.ascontiguousarray(parts.T):
            sums = _TABLE[(sums ^ column) & 0xFF] ^ (sums >> 8)
        skip = _skip_table(width)
        for part in sums.tolist():
            crc = _skipped(skip, crc) ^ part
        content = content[width * _LANES :]
    table = _TABLE_LIST
    for byte in content:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _field(number: int, content: bytes) -> bytes:
    """A field of the wire type 2: its key, its length and its content."""
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _first_table() -> list[int]:
    """The sum of each single byte."""
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return table


def _skip_table(count: int) -> list[list[int]]:
    """What `count` bytes of 0 make of a sum: a table for each of its four bytes. The sum is linear over XOR."""
    bits = []
    for bit in range(32):
        crc = 1 << bit
        for _ in range(count):
            crc = _TABLE_LIST[crc & 0xFF] ^ (crc >> 8)
        bits.append(crc)
    tables = []
    for place in range(4):
        table = [0] * 256
        for byte in range(1, 256):
            lowest = (byte & -byte).bit_length() - 1
            table[byte] = table[byte & (byte - 1)] ^ bits[8 * place + lowest]
        tables.append(table)
    return tables


def _skipped(tables: list[list[int]], crc: int) -> int:
    first, second, third, fourth = tables
    return first[crc & 0xFF] ^ second[crc >> 8 & 0xFF] ^ third[crc >> 16 & 0xFF] ^ fourth[crc >> 24]


_TABLE_LIST = _first_table()
_TABLE = np.array(_TABLE_LIST, np.uint32)
