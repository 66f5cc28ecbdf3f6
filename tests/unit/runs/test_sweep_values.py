"""The file of values: how its words are written, and what a damaged line gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpclaunch.runs.sweep_values import decode, encode, values_at


@pytest.mark.parametrize(
    ("word", "text"),
    [
        (r"a\\b", "a\\b"),
        (r"\\", "\\"),
        (r"\00111x", "\t1x"),
        (r"a\0177b", "a\x7fb"),
        (r"\0200", "\udc80"),
        (r"\0377\0101", "\udcffA"),
        (r"\\0101", "\\0101"),
    ],
)
def test_a_backslash_begins_a_byte_or_stands_for_itself(word: str, text: str) -> None:
    assert decode(word) == text


@pytest.mark.parametrize("text", ["a\\b", "\t1x", "a\x7fb", "\udcffA", "\\0101"])
def test_a_word_is_read_as_it_was_before_it_was_written(text: str) -> None:
    assert decode(encode(text)) == text


def test_damaged_words_are_read_as_far_as_they_go() -> None:
    assert (decode("a\\"), decode("\\\\\\"), decode("a\\bc")) == ("a\\", "\\\\", "abc")


def test_the_values_of_a_run_are_those_of_its_own_line(tmp_path: Path) -> None:
    (tmp_path / "values").write_text("0000\t--a=1\t--default=b-c=2\n0001\t--a=\\0011\n")
    assert values_at(tmp_path, 0) == {"a": "1", "b_c": "2"}
    assert values_at(tmp_path, 1) == {"a": "\t"}


@pytest.mark.parametrize("line", ["", "0001\t--a=1", "x\t--a=1", "\t--a=1", "0000\t--a=\\09"])
def test_a_damaged_line_has_no_values(tmp_path: Path, line: str) -> None:
    (tmp_path / "values").write_text(f"{line}\n")
    assert values_at(tmp_path, 0) == {}


def test_a_run_that_has_no_line_has_no_values(tmp_path: Path) -> None:
    (tmp_path / "values").write_text("0000\t--a=1\n")
    assert values_at(tmp_path, -1) == values_at(tmp_path, 1) == values_at(tmp_path, 7) == {}
    assert values_at(tmp_path / "nowhere", 0) == {}
