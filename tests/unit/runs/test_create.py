"""The folder of run directories: who may make runs in it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch import runs
from hpclaunch.core.spec import Code, Script
from hpclaunch.runs.snapshot import choose
from tests.builders import planned


@pytest.fixture(autouse=True)
def _usual_mask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def make_run(folder: Path, announce: Callable[[runs.Run], None] = lambda run: None) -> runs.Run:
    code = Code(folder=str(folder.parent / "none"), entry="")
    spec = replace(planned(), run_dir=str(folder / "train-1"), code=code)
    return runs.create(spec, Script(text="", library=""), choose(code), runs.Submission(host="host"), announce)


@pytest.mark.parametrize(
    ("around", "expected"), [(0o700, 0o755), (0o755, 0o755), (0o770, 0o1775), (0o775, 0o1775), (0o777, 0o1777)]
)
def test_who_may_write_into_the_project_may_make_runs_and_remove_only_their_own(
    tmp_path: Path, around: int, expected: int
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    project.chmod(around)
    make_run(project / "runs")
    assert stat.S_IMODE((project / "runs").stat().st_mode) == expected


def test_a_folder_of_runs_that_exists_keeps_its_permissions(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "runs").mkdir(parents=True)
    project.chmod(0o777)
    make_run(project / "runs")
    assert stat.S_IMODE((project / "runs").stat().st_mode) == 0o755


def test_folders_that_are_missing_on_the_way_are_made(tmp_path: Path) -> None:
    run = make_run(tmp_path / "scratch" / "ada" / "runs")
    assert (tmp_path / "scratch" / "ada" / "runs" / "train-1" / "run.json").is_file()
    assert (run.state, run.tasks, run.index) == ("RENDERED", 0, -1)


def test_a_run_is_announced_when_it_has_a_record_and_nothing_else(tmp_path: Path) -> None:
    seen: list[tuple[str, list[str]]] = []

    def announce(run: runs.Run) -> None:
        seen.append((runs.load(run.path).state, sorted(path.name for path in run.path.iterdir())))

    made = make_run(tmp_path / "runs", announce)
    assert seen == [("INCOMPLETE", ["run.json", "states.jsonl"])] and made.state == "RENDERED"
