"""Patterns for host names: the same answers as regular expressions, and never slow."""

from __future__ import annotations

import random
import re

import pytest

from hpclaunch.config.host_patterns import HostPattern, host_pattern, plain_beginning
from hpclaunch.sites.detect import DETECTED

PARTS = ["a", "b", ".", "\\.", "*", "+", "?", "(", ")", "|", "[ab]", "[^a]", "\\d", "1", "{2}", "{1,2}", "(?:"]


def test_answers_are_those_of_regular_expressions() -> None:
    chance = random.Random(1)
    compared = 0
    while compared < 2000:
        text = "".join(chance.choice(PARTS) for _ in range(chance.randint(1, 8)))
        try:
            mine = host_pattern(text)
        except ValueError:
            continue
        regular = re.compile(text)
        names = ["".join(chance.choice("ab.1") for _ in range(chance.randint(0, 6))) for _ in range(5)]
        assert [mine.matches(name) for name in names] == [bool(regular.fullmatch(name)) for name in names], text
        assert all(name.startswith(plain_beginning(text)) for name in names if mine.matches(name)), text
        compared += 1


@pytest.mark.parametrize("text", [detect.hostname for detect in DETECTED.values() if detect.hostname])
def test_the_patterns_of_the_bundled_sites_are_allowed(text: str) -> None:
    assert not host_pattern(text).matches("node1.example.org")


@pytest.mark.parametrize(
    ("text", "beginning"),
    [
        *((r"clariden-ln\d+(\..+)?", "clariden-ln"), (r"login[1-4]\.k", "login"), ("abc", "abc"), ("abc?", "ab")),
        *(("ab{2}", "a"), ("a.c", "a"), ("ab|cd", ""), ("", ""), (r".+\.edu", ""), ("a+", "a")),
    ],
)
def test_the_plain_beginning_of_a_pattern(text: str, beginning: str) -> None:
    assert plain_beginning(text) == beginning


@pytest.mark.parametrize("text", ["(a*)*b", "(a|a)*b", "(a+)+b", "(.*)*" * 50 + "b", "a?" * 300 + "a" * 300])
def test_the_work_grows_with_the_length_of_the_name_alone(text: str) -> None:
    """Python's own matcher takes longer than the universe is old."""
    looked_at = 0

    class Counted(list):  # type: ignore[type-arg]
        def __getitem__(self, number: object) -> object:
            nonlocal looked_at
            looked_at += 1
            return super().__getitem__(number)  # type: ignore[index]

    pattern = host_pattern(text)
    counted = HostPattern(Counted(pattern.states), pattern.start)
    assert not counted.matches("a" * 255)
    assert looked_at <= 256 * 2 * len(pattern.states)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a(", "a group is not closed"),
        ("a)", "closes no group"),
        ("(?=a)", "not supported"),
        ("(a)\\1", "must stand before d, w or a punctuation character"),
        ("*a", "is not allowed here"),
        ("a**", "repeats what is repeated already"),
        ("a{", "must begin a count"),
        ("[a", "not closed"),
        ("[z-a]", "is not a range"),
        ("(" * 50, "more than 20 levels deep"),
        ("(a{999}){999}", "more than 1000 parts"),
        ("((a{0}){999}){999}", "repeats too much"),
    ],
)
def test_what_is_not_allowed_is_said_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        host_pattern(text)
