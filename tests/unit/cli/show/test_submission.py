"""How the jobs of a run are named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.cli.show.run_columns import jobs_words
from hpclaunch.runs import Run
from tests.builders import a_run


def divided(folder: Path, jobs: int) -> Run:
    """An array of as many runs as jobs, each job with one of the runs."""
    names = tuple(str(4001 + number) for number in range(jobs))
    parts, offsets = tuple(map(str, range(jobs))), tuple(range(jobs))
    return replace(a_run(folder, names[-1]), tasks=jobs, earlier=names[:-1], parts=parts, offsets=offsets)


@pytest.mark.parametrize(
    ("jobs", "words"), [(2, "4001, 4002"), (4, "4001, 4002, 4003, 4004"), (100, "4001, 4002 … 4100 (100 jobs)")]
)
def test_a_few_jobs_of_an_array_are_listed_and_many_are_counted(tmp_path: Path, jobs: int, words: str) -> None:
    assert jobs_words(divided(tmp_path, jobs)) == words


def test_a_run_has_one_job_or_none(tmp_path: Path) -> None:
    assert jobs_words(a_run(tmp_path, "17")) == "17"
    assert jobs_words(a_run(tmp_path)) == "-"
