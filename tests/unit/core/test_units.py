from __future__ import annotations

import pytest

from hpclaunch.core.units import count, format_memory, format_walltime, parse_memory, parse_walltime

HOUR, DAY = 3600, 86400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        # Slurm's six forms, as the sbatch manual lists them
        ("30", 30 * 60),
        ("30:15", 30 * 60 + 15),
        ("02:30:15", 2 * HOUR + 30 * 60 + 15),
        ("1-12", DAY + 12 * HOUR),
        ("1-12:30", DAY + 12 * HOUR + 30 * 60),
        ("1-12:30:15", DAY + 12 * HOUR + 30 * 60 + 15),
        # spelled out
        ("90m", 90 * 60),
        ("90min", 90 * 60),
        ("2h", 2 * HOUR),
        ("1d12h", DAY + 12 * HOUR),
        ("1d 12h 5m 3s", DAY + 12 * HOUR + 5 * 60 + 3),
        ("45S", 45),
        (" 1h ", HOUR),
        # what nobody rounds down
        ("00:00:01", 1),
        ("90:00", 90 * 60),
        ("48:00:00", 2 * DAY),
    ],
)
def test_a_walltime_is_read_as_slurm_reads_it(text: str, seconds: int) -> None:
    assert parse_walltime(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "0",
        "00:00:00",
        "0-0",
        "-5",
        "1:2:3:4",
        "1.5h",
        "h",
        "one",
        "1h30",
        "UNLIMITED",
        "4294967294",
        "9" * 400 + "d",
    ],
)
def test_anything_else_is_no_walltime(text: str) -> None:
    with pytest.raises(
        ValueError,
        match=r"is not a length of time$|^the time (must be longer than zero|can be at most 4294967293 minutes)$",
    ):
        parse_walltime(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1, "00:00:01"), (1800, "00:30:00"), (DAY - 1, "23:59:59"), (DAY, "1-00:00:00"), (2 * DAY + 61, "2-00:01:01")],
)
def test_a_walltime_is_written_without_ambiguity(seconds: int, text: str) -> None:
    assert format_walltime(seconds) == text


@pytest.mark.parametrize(
    ("text", "megabytes"),
    [
        ("4000", 4000),
        ("4000M", 4000),
        ("16G", 16384),
        ("16GB", 16384),
        ("16 GiB", 16384),
        ("16g", 16384),
        ("1T", 1048576),
        ("1K", 1),
        ("1025K", 2),
        ("1.5G", 1536),
    ],
)
def test_memory_is_read_in_megabytes_and_rounded_up(text: str, megabytes: int) -> None:
    assert parse_memory(text) == megabytes


@pytest.mark.parametrize("text", ["", "0", "0G", "-1", "G", "1P", "1,5G", "many", "9" * 20, "9" * 400 + "G"])
def test_anything_else_is_no_memory(text: str) -> None:
    with pytest.raises(ValueError, match="memory"):
        parse_memory(text)


@pytest.mark.parametrize(("megabytes", "text"), [(1, "1M"), (1023, "1023M"), (1024, "1G"), (16500, "16500M")])
def test_memory_is_written_as_sbatch_reads_it(megabytes: int, text: str) -> None:
    assert format_memory(megabytes) == text


@pytest.mark.parametrize(
    ("number", "words"),
    [(1, "1 node"), (1200000, "1200000 nodes"), (1.0, "1 node"), (0.5, "0.5 nodes"), (0, "0 nodes")],
)
def test_a_noun_follows_its_number(number: float, words: str) -> None:
    assert count(number, "node") == words
