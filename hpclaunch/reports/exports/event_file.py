"""A run as event files of TensorBoard, made from metrics.jsonl, without TensorFlow and protocol buffers.

The training library writes the same names while a run trains (``--tensorboard``).
Sources: tensorflow/core/util/event.proto and framework/summary.proto with the wire format of protocol buffers,
tensorflow/core/lib/io/record_writer.h (the frame of a record), RFC 3720 appendix B.4 (CRC-32C).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hpclaunch.reports.exports.recorded_metrics import VALIDATION, MetricPoint, epoch_points, result_points

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, reflected
_MASK = 0xA282EAD8
_DOUBLE, _VARINT, _BYTES, _FLOAT = 1, 0, 2, 5
"""The wire types of fields."""


def event_files(events: Sequence[Mapping[str, Any]]) -> dict[str, bytes]:
    """Return path -> content: the runs ``train`` and ``validation``, and ``result`` with the last event's numbers.

    The scalars are named as Keras's TensorBoard names them (``epoch_loss``); their step is the epoch, from 1. Empty for
    a run without epochs and result.
    """
    epochs = epoch_points(events)
    runs = {
        "train": [_rename_point(f"epoch_{one.name}", one) for one in epochs if not one.name.startswith(VALIDATION)],
        "validation": [
            _rename_point(f"epoch_{one.name.removeprefix(VALIDATION)}", one)
            for one in epochs
            if one.name.startswith(VALIDATION)
        ],
        "result": result_points(events),
    }
    return {f"{run}/{_file_name(points)}": event_file(points) for run, points in runs.items() if points}


def _rename_point(name: str, point: MetricPoint) -> MetricPoint:
    return MetricPoint(time=point.time, step=point.step, name=name, value=point.value)


def _file_name(points: Sequence[MetricPoint]) -> str:
    """Return a name that TensorBoard reads: the time, and where it usually has a host and a process, hpclaunch."""
    return f"events.out.tfevents.{int(points[0].time):010d}.hpclaunch"


def event_file(points: Iterable[MetricPoint]) -> bytes:
    """Return the content of an event file: the version of the format, then one event for each number."""
    found = list(points)
    first = found[0].time if found else 0.0
    head = _field(1, _DOUBLE, struct.pack("<d", first)) + _text(3, "brain.Event:2")
    return b"".join(map(_record_of, (head, *map(_event, found))))


def _event(point: MetricPoint) -> bytes:
    value = _text(1, point.name) + _field(2, _FLOAT, struct.pack("<f", _nearest_float32(point.value)))
    summary = _bytes_field(1, value)
    step = _field(2, _VARINT, _varint(point.step))
    return _field(1, _DOUBLE, struct.pack("<d", point.time)) + step + _bytes_field(5, summary)


def _nearest_float32(value: float) -> float:
    """Return the nearest value that a float32 can hold: the largest one in place of a larger."""
    largest = 3.4028234663852886e38
    return max(-largest, min(largest, value))


def _record_of(content: bytes) -> bytes:
    """Return a record: its length (8 bytes, little endian) and that one's sum, the content and its sum."""
    length = struct.pack("<Q", len(content))
    sums = struct.pack("<I", _mask_sum(crc32c(length))), struct.pack("<I", _mask_sum(crc32c(content)))
    return length + sums[0] + content + sums[1]


def _mask_sum(crc: int) -> int:
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF


def crc32c(content: bytes) -> int:
    """Return the CRC-32C of some bytes."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _sum_of(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = [_sum_of(byte) for byte in range(256)]


def _text(number: int, text: str) -> bytes:
    return _bytes_field(number, text.encode("utf-8", errors="replace"))


def _bytes_field(number: int, content: bytes) -> bytes:
    return _field(number, _BYTES, _varint(len(content)) + content)


def _field(number: int, wire_type: int, content: bytes) -> bytes:
    return bytes([number << 3 | wire_type]) + content


def _varint(value: int) -> bytes:
    found, rest = bytearray(), value & 0xFFFFFFFFFFFFFFFF  # a negative number has the form of an unsigned one
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)
