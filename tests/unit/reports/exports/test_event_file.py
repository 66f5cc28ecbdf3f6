"""Event files byte by byte: the sums of records, numbers of every size, and what stays out. The sums of long contents
are compared with those of the job universes in tests/horovod/test_universes.py."""

from __future__ import annotations

import struct

import pytest

from hpclaunch.reports.exports.event_file import crc32c, event_file, event_files
from hpclaunch.reports.exports.recorded_metrics import MetricPoint


@pytest.mark.parametrize(
    ("content", "expected"),
    # RFC 3720, appendix B.4; "123456789" is the usual check of a CRC.
    [
        (b"\x00" * 32, 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (b"123456789", 0xE3069283),
        (b"", 0),
    ],
    ids=["zeros", "ones", "rising", "digits", "nothing"],
)
def test_the_sums_are_those_of_the_standard(content: bytes, expected: int) -> None:
    assert crc32c(content) == expected


def test_a_file_begins_with_the_version_of_its_format() -> None:
    content = event_file([MetricPoint(time=1.5, step=300, name="epoch_loss", value=0.25)])
    (length,) = struct.unpack("<Q", content[:8])
    assert content[12 : 12 + length] == b"\x09" + struct.pack("<d", 1.5) + b"\x1a\x0dbrain.Event:2"
    second = content[12 + length + 4 :]
    (length,) = struct.unpack("<Q", second[:8])
    event = second[12 : 12 + length]
    assert event.startswith(b"\x09" + struct.pack("<d", 1.5) + b"\x10\xac\x02")  # 300 as a varint
    assert event.endswith(b"\x0a\x0aepoch_loss" + b"\x15" + struct.pack("<f", 0.25))


@pytest.mark.parametrize("value", [1e300, -1e300, 0.0, 1e-300])
def test_a_number_beyond_a_float32_becomes_the_nearest(value: float) -> None:
    content = event_file([MetricPoint(time=0.0, step=1, name="x", value=value)])
    assert content


def test_what_is_no_number_of_an_epoch_stays_out() -> None:
    events = [
        {"event": "epoch", "epoch": 1, "time": 1.0, "loss": float("inf"), "words": "x", "is": True, "big": 10**400},
        {"event": "epoch", "epoch": True, "loss": 1.0},
        {"event": "epoch", "loss": 1.0},
        {"event": "step", "epoch": 1, "loss": 1.0},
    ]
    assert event_files(events) == {}
    assert event_files([]) == {}


def records_in(content: bytes) -> list[bytes]:
    """The records of an event file, with both sums of each checked (core/lib/io/record_writer.h of TensorFlow)."""

    def masked(part: bytes) -> bytes:
        crc = crc32c(part)
        rotated = (crc >> 15) | ((crc & 0x7FFF) << 17)  # right, by 15 of its 32 bits
        return struct.pack("<I", (rotated + 0xA282EAD8) % 2**32)

    found = []
    while content:
        (length,) = struct.unpack("<Q", content[:8])
        assert content[8:12] == masked(content[:8])
        found.append(content[12 : 12 + length])
        assert content[12 + length : 16 + length] == masked(found[-1])
        content = content[16 + length :]
    return found


def test_numbers_of_validation_and_of_the_result_are_runs_of_their_own() -> None:
    events = [
        {"event": "epoch", "epoch": 1, "time": 1800000000.5, "loss": 0.5, "val_loss": 2.0},
        {"event": "epoch", "epoch": 2, "time": 1800000001.5, "loss": 0.25, "val_loss": 1.0},
        {"event": "end", "epochs": 2, "time": 1800000002.5, "test_accuracy": 0.75},
        {"event": "end", "epochs": True, "time": -1.0, "test_accuracy": 0.5},
    ]
    files = event_files(events)
    name = "events.out.tfevents.1800000000.hpclaunch"
    assert set(files) == {f"train/{name}", f"validation/{name}", "result/events.out.tfevents.0000000000.hpclaunch"}
    train, validation, result = (records_in(content) for content in files.values())
    assert [len(train), len(validation), len(result)] == [3, 3, 2], "each begins with the version of its format"
    for record, step, value in ((train[1], 1, 0.5), (train[2], 2, 0.25), (validation[1], 1, 2.0)):
        assert record.endswith(b"\x0a\x0aepoch_loss\x15" + struct.pack("<f", value))
        assert record[9:11] == b"\x10" + bytes([step])
    assert result[1].startswith(b"\x09" + struct.pack("<d", 0.0) + b"\x10\x00"), "no number of epochs, and no time"
    assert b"test_accuracy" in result[1]
    (early,) = records_in(next(iter(event_files([{"event": "epoch", "epoch": 1, "time": 0.25, "x": 1.0}]).values())))[
        1:
    ]
    assert early.startswith(b"\x09" + struct.pack("<d", 0.25)), "the first second of 1970 is a time"


def test_a_file_without_numbers_has_the_version_of_its_format() -> None:
    (head,) = records_in(event_file([]))
    assert head.endswith(b"brain.Event:2")
