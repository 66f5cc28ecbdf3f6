"""Words that are shown to be typed again: bash reads them as the same text."""

from __future__ import annotations

import pytest

from hpclaunch.core.quoting import shell_word, shown_name, spreadsheet_text


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("/a/b-1.c", "/a/b-1.c"),
        ("", "''"),
        ("a b", "'a b'"),
        ("projλ", "'projλ'"),
        ("$(touch x)", "'$(touch x)'"),
        ("a\x1b[31mb", r"$'a\x1b[31mb'"),
        ("a\nb\tc\rd", r"$'a\nb\tc\rd'"),
        ("it's\n\\", r"$'it\'s\n\\'"),
        ("=mlx5_0", "'=mlx5_0'"),
        ("=", "'='"),
        ("caf\udce9", r"$'caf\xe9'"),
        ("λ\x00", r"$'λ\x00'"),
        ("a\u202eb", r"$'a\xe2\x80\xaeb'"),
    ],
)
def test_a_word_of_bash(text: str, word: str) -> None:
    assert shell_word(text) == word


def test_only_a_name_that_cannot_be_shown_is_quoted() -> None:
    assert (shown_name("a b"), shown_name("a\nb")) == ("a b", r"$'a\nb'")


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\r=1", "-", "+"])
def test_a_spreadsheet_computes_no_text(text: str) -> None:
    assert spreadsheet_text(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "a=b", "-1", "-0.5e-3", "+2", "-inf", "1-2", "'=1"])
def test_a_number_and_a_harmless_text_stay(text: str) -> None:
    assert spreadsheet_text(text) == text
