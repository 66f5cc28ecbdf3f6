"""Tables at every width: words stay whole, and what has no room as a table is written as paragraphs."""

from __future__ import annotations

import pytest

from hpclaunch.cli.show.tables import table_lines

HEADER = ("site", "status", "title")
ROWS = [("perlmutter", "production", "Perlmutter, NERSC, HPE Cray EX"), ("local", "faulty", "this machine")]


def texts(width: int) -> list[str]:
    return ["".join(text for text, _ in line).rstrip() for line in table_lines(HEADER, ROWS, width, state_column=1)]


def test_a_wide_table_has_a_line_for_each_row() -> None:
    assert texts(200) == [
        "site        status      title",
        "perlmutter  production  Perlmutter, NERSC, HPE Cray EX",
        "local       faulty      this machine",
    ]
    assert ("faulty", "faulty") in table_lines(HEADER, ROWS, 200, state_column=1)[2]


def test_a_narrow_one_folds_between_words() -> None:
    assert texts(44) == [
        "site        status      title",
        "perlmutter  production  Perlmutter, NERSC,",
        "                        HPE Cray EX",
        "local       faulty      this machine",
    ]


def test_without_room_for_the_words_a_row_is_a_paragraph() -> None:
    assert texts(30) == [
        "perlmutter",
        "  status: production",
        "  title: Perlmutter, NERSC,",
        "         HPE Cray EX",
        "local",
        "  status: faulty",
        "  title: this machine",
    ]


@pytest.mark.parametrize("width", [20, 30, 44, 60, 80, 200])
def test_no_word_is_cut(width: int) -> None:
    words = " ".join(texts(width)).split()
    assert {word for row in ROWS for cell in row for word in cell.split()} <= set(words)
    assert all(len(line) <= width for line in texts(width))


def test_a_table_without_rows_is_its_header() -> None:
    assert [[text for text, _ in line if text.strip()] for line in table_lines(HEADER, [], 80)] == [list(HEADER)]
