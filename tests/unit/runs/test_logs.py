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


def leave(run: Run, mark: str, begin: str = "0") -> None:
    """Write which rank failed first, and where its log begins."""
    (run.path / "attempts/7.0/first-failure.rank").write_text(mark)
    (run.path / "attempts/7.0/first-failure.from").write_text(begin)


def test_the_first_rank_to_fail_is_named_with_its_node_and_its_own_last_line(run: Run) -> None:
    leave(run, "rank 3 on n2.cluster\n")
    (run.path / "logs/rank-3.out").write_text(TRACEBACK)
    (run.path / "logs/7.out").write_text("RuntimeError: of another rank, which the end of the first one broke\n")
    assert last_words(run, "1:0") == "rank 3 on n2.cluster: ValueError: no such layer"


def test_nothing_of_an_earlier_start_counts(run: Run) -> None:
    first = "ValueError: of the first start\n"
    leave(run, "rank 3 on n2", str(len(first)))
    (run.path / "logs/rank-3.out").write_text(first)
    (run.path / "logs/7.out").write_text(first)
    (run.path / "attempts/6.0").mkdir()
    (run.path / "attempts/6.0/started").write_text("2026-11-29T11:00:00Z\n")
    assert last_words(run, "1:0") == "rank 3 on n2"
    (run.path / "logs/rank-3.out").write_text(f"{first}epoch 3\n")
    assert last_words(run, "139:0") == "rank 3 on n2: epoch 3"


def test_no_line_of_another_rank_is_that_of_the_first(run: Run) -> None:
    leave(run, "rank 3 on n2")
    (run.path / "logs/7.out").write_text("RuntimeError: [gloo] Connection closed\n")
    assert last_words(run, "1:0") == "rank 3 on n2"
    (run.path / "spec.json").write_text('{"layout": {"nodes": 1, "tasks_per_node": 1, "further": []}}')
    assert last_words(run, "1:0") == "rank 3 on n2: RuntimeError: [gloo] Connection closed"


def test_without_a_name_the_jobs_log_counts_for_nobody(run: Run) -> None:
    (run.path / "logs/7.out").write_text("out of cheese\nsrun: error: n2: task 0: Exited with exit code 3\n\n")
    assert last_words(run, "3:0") == "out of cheese"


def test_the_exception_that_ended_python_counts_more_than_what_is_printed_while_it_ends(run: Run) -> None:
    leave(run, "rank 0 on n1")
    (run.path / "logs/rank-0.out").write_text(f"{TRACEBACK}[W socket.cpp:601] closing\nbye\n")
    assert last_words(run, "1:0") == "rank 0 on n1: ValueError: no such layer"
    assert last_words(run, "5:0") == "rank 0 on n1: bye", "no exception ends Python with 5"
    (run.path / "logs/rank-0.out").write_text("TimeoutError: retrying 1\nKilled\n")
    assert last_words(run, "1:0") == "rank 0 on n1: Killed", "no traceback: it was handled"


def test_an_error_of_the_library_names_its_rank_once(run: Run) -> None:
    leave(run, "rank 3 on n2")
    (run.path / "logs/rank-3.out").write_text("error: rank 3 on n2: houses.npz has no array 'price'\n")
    assert last_words(run, "1:0") == "rank 3 on n2: houses.npz has no array 'price'"


def test_nothing_is_said_where_nothing_is_known(run: Run) -> None:
    assert last_words(run, "1:0") == ""
    assert last_words(replace(run, job_id="8"), "1:0") == ""


@pytest.mark.parametrize("mark", ["rank 0 on n1\x1b[2J", "rank 0 on n1\nrank 1", "$(touch x)", "rank ../../7 on n1"])
def test_what_is_no_name_of_a_rank_is_not_shown_and_no_control_characters_are(run: Run, mark: str) -> None:
    leave(run, mark, "-1")
    (run.path / "logs/7.out").write_text(f"\x1b]0;title\x07 {'long ' * 50}\n")
    words = last_words(run, "1:0")
    assert words.startswith(" ]0;title") and words.isprintable() and len(words) == 160
