"""Who failed first in a run, and the line with which it ended."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.runs import Run
from hpclaunch.runs.logs import last_words
from tests.builders import local_run

TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 2, in <module>
    raise ValueError("no such layer")
ValueError: no such layer
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = replace(local_run(tmp_path), job_id="7")
    (tmp_path / "attempts/7.0").mkdir()
    (tmp_path / "attempts/7.0/started").write_text("2026-11-29T12:00:00Z\n")
    return made


def test_the_first_rank_to_fail_is_named_with_its_node_and_its_own_last_line(run: Run) -> None:
    (run.path / "attempts/7.0/first-failure.rank").write_text("rank 3 on n2.cluster\n")
    (run.path / "logs/rank-3.out").write_text(TRACEBACK)
    (run.path / "logs/7.out").write_text("RuntimeError: of another rank, which the end of the first one broke\n")
    assert last_words(run) == "rank 3 on n2.cluster: ValueError: no such layer"


def test_without_a_log_of_the_rank_the_jobs_log_counts(run: Run) -> None:
    (run.path / "attempts/7.0/first-failure.rank").write_text("rank on n2")
    (run.path / "logs/7.out").write_text("out of cheese\nsrun: error: n2: task 0: Exited with exit code 3\n\n")
    assert last_words(run) == "rank on n2: out of cheese"
    (run.path / "attempts/7.0/first-failure.rank").unlink()
    assert last_words(run) == "out of cheese"


def test_an_exception_counts_more_than_what_is_printed_while_the_program_ends(run: Run) -> None:
    (run.path / "logs/7.out").write_text(f"{TRACEBACK}[W socket.cpp:601] closing\nbye\n")
    assert last_words(run) == "ValueError: no such layer"


def test_nothing_is_said_where_the_log_says_nothing(run: Run) -> None:
    assert last_words(run) == ""
    (run.path / "attempts/7.0/first-failure.rank").write_text("rank 0 on n1")
    (run.path / "logs/7.out").write_text("\n  \n")
    assert last_words(run) == ""


@pytest.mark.parametrize("mark", ["rank 0 on n1\x1b[2J", "rank 0 on n1\nrank 1", "$(touch x)", "rank ../../7 on n1"])
def test_what_is_no_name_of_a_rank_is_not_shown_and_no_control_characters_are(run: Run, mark: str) -> None:
    (run.path / "attempts/7.0/first-failure.rank").write_text(mark)
    (run.path / "logs/7.out").write_text(f"\x1b]0;title\x07 {'long ' * 50}\n")
    words = last_words(run)
    assert words.startswith(" ]0;title") and words.isprintable() and len(words) == 160
