"""The user's own runs: a file for each, outside every project."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch import runs
from hpclaunch.core.errors import HpclaunchError, Refused
from hpclaunch.runs import Run
from hpclaunch.runs.ownership import new_token
from tests.builders import a_run


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return runs.save(replace(a_run(tmp_path, "1"), token="0" * 32, user="eve"))


def test_nobody_can_guess_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is drawn by the kernel, with 128 bits: a number of a clock or of this machine could be tried."""
    monkeypatch.setattr("os.urandom", lambda size: bytes(range(size)))
    assert new_token() == bytes(range(16)).hex()


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


def test_a_run_without_a_token_is_neither_listed_nor_unlisted(state: Path, run: Run) -> None:
    assert runs.is_unlisted(state, run)
    for token in ("", "0" * 31, "../run.json"):
        assert not runs.is_unlisted(state, replace(run, token=token))
        runs.unlist_own(state, [replace(run, token=token)])
    runs.list_own(state, run)
    assert not runs.is_unlisted(state, run)
    runs.unlist_own(state, [run, run])
    assert runs.is_unlisted(state, run)


def test_the_list_is_the_users_alone(state: Path, run: Run) -> None:
    runs.list_own(state, run)
    assert (state / "own-runs").stat().st_mode & 0o777 == 0o700
    assert runs.list_own(state, run) == "", "twice is as once"
    shutil.rmtree(run.path)
    assert not runs.is_own(state, run), "a directory that is gone is nobody's"


def test_another_directory_at_the_same_place_is_another_run(state: Path, run: Run) -> None:
    runs.list_own(state, run)
    run.path.rename(run.path.with_name("away"))
    run.path.mkdir()
    assert not runs.is_own(state, run)
    with pytest.raises(Refused, match="is not the run directory that was made here"), runs.opened(state, run):
        pass


def test_a_run_directory_is_opened_itself_and_through_no_link(tmp_path: Path, state: Path, run: Run) -> None:
    runs.list_own(state, run)
    with runs.opened(state, run) as place:
        run.path.rename(tmp_path / "moved")
        assert (Path(place) / "run.json").exists(), "it stays the same one"
    assert not Path(place).exists()
    run.path.symlink_to(tmp_path / "moved")
    with pytest.raises(Refused, match="is not the run directory that was made here"), runs.opened(state, run):
        pass
    run.path.unlink()
    run.path.touch()
    with pytest.raises(Refused, match="is not the run directory that was made here"), runs.opened(state, run):
        pass
    run.path.unlink()
    with pytest.raises(HpclaunchError, match="the run directory cannot be opened"), runs.opened(state, run):
        pass


def test_a_directory_that_this_process_made_is_known_without_a_list(state: Path, run: Run) -> None:
    inode = run.path.stat().st_ino
    with runs.opened(state, replace(run, inode=inode)):
        pass
    with runs.opened(state, run):
        pass
    for other in (inode + 1, 1):
        with pytest.raises(Refused), runs.opened(state, replace(run, inode=other)):
            pass
    runs.list_own(state, replace(run, inode=inode + 1))
    assert not runs.is_own(state, run), "it was exchanged before it was listed"


def test_a_run_that_is_adopted_again_where_it_is_keeps_its_token(tmp_path: Path, state: Path, run: Run) -> None:
    first = runs.adopt(state, run, "ada")
    assert runs.adopt(state, first, "ada").token == run.token
    assert first.uid == str(os.getuid())
