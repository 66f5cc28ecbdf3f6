"""Waiting for a slow program: said after a while, and bounded."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from hpclaunch.core import waiting

PIPE = subprocess.PIPE


@pytest.fixture
def said() -> Iterator[list[str]]:
    words: list[str] = []
    waiting.report_to(words.append)
    yield words
    waiting.report_to(lambda text: None)


def test_a_slow_program_is_named_and_then_heard() -> None:
    said: list[str] = []
    command = ["sh", "-c", "read go; echo answer; echo message >&2"]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE) as slow:
        assert slow.stdin is not None
        release = slow.stdin
        slow.stdin = None

        def tell(text: str) -> None:  # the program answers only after the message
            said.append(text)
            release.write(b"go\n")
            release.close()

        waiting.report_to(tell)
        assert waiting.communicate(slow, "squeue", 60, patience=0.05) == (b"answer\n", b"message\n")
        waiting.report_to(lambda text: None)
    assert said == ["waiting for squeue ..."]


@pytest.mark.parametrize(("patience", "words"), [(0.01, ["waiting for squeue ..."]), (60, [])])
def test_a_program_that_never_answers_is_waited_for_no_longer_than_allowed(
    said: list[str], patience: float, words: list[str]
) -> None:
    with subprocess.Popen(["sleep", "600"], stdout=PIPE, stderr=PIPE) as silent:
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                waiting.communicate(silent, "squeue", 0.05, patience=patience)
        finally:
            silent.kill()
    assert said == words


def test_a_quick_program_is_not_mentioned(said: list[str]) -> None:
    with subprocess.Popen(["cat"], stdin=PIPE, stdout=PIPE, stderr=PIPE) as quick:
        assert waiting.communicate(quick, "squeue", 60, b"text", patience=60) == (b"text", b"")
    assert said == []
