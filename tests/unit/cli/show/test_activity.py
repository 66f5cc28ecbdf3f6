"""When a terminal shows that a silent command is at work, and in which words."""

from __future__ import annotations

import pytest

from hpclaunch.cli.show.activity import is_wanted, text_of


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("report", True),
        ("profile cifar", True),
        ("data fetch cifar", True),
        ("submit cifar --wait", False),
        ("submit cifar --here", False),
        ("status --watch", False),
        ("watch", False),
        ("logs -f", False),
        ("shell", False),
        ("--help", False),
        ("", False),
    ],
)
def test_what_has_a_line_or_a_screen_of_its_own_gets_no_other(words: str, expected: bool) -> None:
    assert is_wanted(words.split()) is expected


@pytest.mark.parametrize(
    ("seconds", "expected"), [(2.4, "report is at work for 2 s"), (65, "report is at work for 1 min 5 s")]
)
def test_its_words(seconds: float, expected: str) -> None:
    assert text_of("report", seconds) == expected
