"""The user's own runs: a file for each, outside every project."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch import runs
from hpclaunch.runs import Run
from tests.builders import a_run


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return runs.save(replace(a_run(tmp_path, "1"), token="0" * 32, user="eve"))


def test_a_run_is_own_in_the_directory_where_it_was_listed(tmp_path: Path, state: Path, run: Run) -> None:
    assert not runs.is_own(state, run)
    assert runs.list_own(state, run) == ""
    assert runs.is_own(state, run)
    shutil.copytree(run.path, tmp_path / "copy")
    assert not runs.is_own(state, replace(run, path=tmp_path / "copy"))
    runs.unlist_own(state, [run])
    assert not runs.is_own(state, run)


def test_an_adopted_run_is_the_users_and_keeps_its_token(state: Path, run: Run) -> None:
    adopted = runs.adopt(state, run, "ada")
    assert (adopted.user, adopted.token) == ("ada", run.token)
    assert runs.is_own(state, adopted) and runs.load(run.path) == adopted


def test_an_adopted_copy_of_a_run_gets_a_token_of_its_own(tmp_path: Path, state: Path, run: Run) -> None:
    runs.list_own(state, run)
    shutil.copytree(run.path, tmp_path / "copy")
    copy = runs.adopt(state, runs.load(tmp_path / "copy"), "ada")
    assert copy.token != run.token
    assert runs.is_own(state, copy) and runs.is_own(state, run)


def test_a_moved_run_keeps_its_token(tmp_path: Path, state: Path, run: Run) -> None:
    runs.list_own(state, run)
    run.path.rename(tmp_path / "moved")
    assert runs.adopt(state, runs.load(tmp_path / "moved"), "ada").token == run.token


def test_a_run_that_cannot_be_listed_is_not_adopted(state: Path, run: Run) -> None:
    state.write_text("a file")
    with pytest.raises(OSError, match="the list of your own runs cannot be written"):
        runs.adopt(state, run, "ada")


@pytest.mark.parametrize("token", ["", "../run.json", "0" * 31, "0" * 33, "G" * 32])
def test_a_text_that_is_no_token_leads_to_no_file(state: Path, run: Run, token: str) -> None:
    forged = replace(run, token=token)
    (state / "own-runs").mkdir(parents=True)
    if token and "/" not in token:
        place = {"directory": str(run.path), "inode": run.path.stat().st_ino}
        (state / "own-runs" / token).write_text(json.dumps(place))
    assert not runs.is_own(state, forged)
    assert len(runs.adopt(state, forged, "ada").token) == 32
