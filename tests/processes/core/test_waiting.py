"""Waiting for a slow program: said after a while, and bounded."""

from __future__ import annotations

import subprocess
import sys
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


@pytest.mark.parametrize(("patience", "words"), [(0.01, ["waiting for squeue ..."]), (0.05, []), (60, [])])
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


def test_an_answer_without_an_end_is_read_up_to_the_limit() -> None:
    """Both streams count, and what was read is kept."""
    command = ["sh", "-c", "printf 1234; printf 56 >&2; exec sleep 600"]
    with subprocess.Popen(command, stdout=PIPE, stderr=PIPE) as endless:
        try:
            with pytest.raises(waiting.TooLong, match="its answer has more than") as caught:
                waiting.communicate(endless, "squeue", 600, most=5)
        finally:
            endless.kill()
    assert (caught.value.output, caught.value.messages) == (b"1234", b"56")


def test_an_answer_of_exactly_the_limit_is_read() -> None:
    with subprocess.Popen(["sh", "-c", "printf 1234; printf 5 >&2"], stdout=PIPE, stderr=PIPE) as exact:
        assert waiting.communicate(exact, "squeue", 600, most=5) == (b"1234", b"5")


LIMITED = """
import resource, subprocess
from hpclaunch.core import waiting
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
with subprocess.Popen(["yes", "x" * 1000], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as endless:
    try:
        waiting.communicate(endless, "yes", 600)
    except waiting.TooLong as error:
        print(error)
    endless.kill()
"""


def test_memory_is_bounded_too() -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("its answer has more than 64 MiB\n", "")


def test_a_long_text_goes_to_a_program_that_answers_meanwhile() -> None:
    text = bytes(300_000)  # more than both pipes hold
    with subprocess.Popen(["cat"], stdin=PIPE, stdout=PIPE, stderr=PIPE) as echo:
        assert waiting.communicate(echo, "cat", 600, text) == (text, b"")


def test_a_program_need_not_read_its_input() -> None:
    with subprocess.Popen(["sh", "-c", "exec <&-; echo done"], stdin=PIPE, stdout=PIPE) as deaf:
        assert waiting.communicate(deaf, "sh", 600, bytes(300_000)) == (b"done\n", b"")


def test_a_program_that_closes_its_output_is_waited_for(said: list[str]) -> None:
    with subprocess.Popen(["sh", "-c", "exec >&- 2>&-; exec sleep 600"], stdout=PIPE, stderr=PIPE) as quiet:
        try:
            with pytest.raises(subprocess.TimeoutExpired) as caught:
                waiting.communicate(quiet, "squeue", 0.05, patience=0.01)
        finally:
            quiet.kill()
    assert (caught.value.output, caught.value.stderr) == (b"", b"")
    assert said == ["waiting for squeue ..."]


def test_what_was_read_before_the_time_was_up_is_kept() -> None:
    with subprocess.Popen(["sh", "-c", "echo 4711; echo hm >&2; exec sleep 600"], stdout=PIPE, stderr=PIPE) as slow:
        assert slow.stdout is not None
        try:
            with pytest.raises(subprocess.TimeoutExpired) as caught:
                waiting.communicate(slow, "sbatch", 1.0)
        finally:
            slow.kill()
    assert (caught.value.output, caught.value.stderr) == (b"4711\n", b"hm\n")
