"""The file of values of a sweep gives every text back."""

from __future__ import annotations

from hypothesis import given

from hpclaunch.runs.sweep_values import decode, encode
from tests.property.typed_text import texts


@given(word=texts)
def test_a_word_in_the_file_of_values_is_one_line_and_is_read_back(word: str) -> None:
    written = encode(word)
    assert not set(written) & set("\n\r\t\x00")
    assert decode(written) == word
