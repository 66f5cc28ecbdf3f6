"""Run directories that others exchange, between any two steps, for one of theirs."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch import runs
from hpclaunch.core.errors import Refused
from hpclaunch.core.spec import Code, Script
from hpclaunch.runs import Run
from hpclaunch.runs.create import create
from hpclaunch.runs.directories import make_directory, weak_around
from hpclaunch.runs.snapshot import choose
from tests.builders import CONTEXT, a_run, planned

WORDS = "is not the run directory that was made here: somebody exchanged it, or a folder above it"


@pytest.mark.parametrize("umask", [0o002, 0o000, 0o077])
def test_a_directory_is_its_owners_alone_whatever_the_umask_is(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        made = make_directory(tmp_path / "run")
    finally:
        os.umask(before)
    about = (tmp_path / "run").stat()
    assert (about.st_mode & 0o7777, os.path.samestat(made, about)) == (0o700, True)
    with pytest.raises(FileExistsError):
        make_directory(tmp_path / "run")


def put_another(path: Path, kind: str) -> None:
    """What somebody who may write into the folder around it puts in the place of a new run directory."""
    path.rename(path.with_name("away"))
    if kind == "link":
        path.symlink_to("away")
    else:
        path.mkdir()
    if kind == "full":
        (path / "code").mkdir()


@pytest.mark.parametrize("kind", ["link", "full"])
def test_a_directory_that_is_exchanged_as_it_is_made(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = os.mkdir

    def exchanging(name: str, mode: int, *, dir_fd: int) -> None:
        mkdir(name, mode, dir_fd=dir_fd)
        monkeypatch.setattr(os, "mkdir", mkdir)
        put_another(tmp_path / name, kind)

    monkeypatch.setattr(os, "mkdir", exchanging)
    with pytest.raises((Refused, OSError)):
        make_directory(tmp_path / "run")


def test_a_directory_of_somebody_else_is_not_the_one_that_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("group root: only root can give files to other users")
    mkdir = os.mkdir

    def exchanging(name: str, mode: int, *, dir_fd: int) -> None:
        mkdir(name, mode, dir_fd=dir_fd)
        os.chown(tmp_path / name, 12345, 12345)

    monkeypatch.setattr(os, "mkdir", exchanging)
    with pytest.raises(Refused, match=WORDS):
        make_directory(tmp_path / "run")


def test_a_directory_that_belongs_to_root_is_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system that gives every file to root."""
    if os.geteuid() != 0:
        pytest.skip("group root: only root makes directories of root")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert make_directory(tmp_path / "run").st_uid == 0


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return runs.save(replace(a_run(tmp_path, "1"), token="0" * 32))


def test_a_listed_directory_is_opened_and_stays_the_same_one(state: Path, run: Run) -> None:
    runs.list_own(state, run)
    (run.path / "job.sh").write_text("mine")
    with runs.opened(state, run) as place:
        put_another(run.path, "full")
        (run.path / "job.sh").write_text("theirs")
        assert Path(place, "job.sh").read_text() == "mine"
    assert not os.path.lexists(place)


@pytest.mark.parametrize("kind", ["link", "empty", "full"])
def test_another_directory_is_not_opened(state: Path, run: Run, kind: str) -> None:
    runs.list_own(state, run)
    put_another(run.path, kind)
    with pytest.raises(Refused, match=WORDS), runs.opened(state, run):
        pass


def test_the_inode_of_the_moment_of_making_is_listed(state: Path, run: Run) -> None:
    made = replace(run, inode=run.path.stat().st_ino)
    put_another(run.path, "full")
    runs.list_own(state, made)
    assert not runs.is_own(state, runs.load(run.path)) if (run.path / "run.json").exists() else True
    with pytest.raises(Refused, match=WORDS), runs.opened(state, run):
        pass


def test_a_directory_that_could_not_be_listed_is_known_by_this_process(state: Path, run: Run) -> None:
    made = replace(run, inode=run.path.stat().st_ino)
    with runs.opened(state, made):
        pass
    put_another(run.path, "full")
    with pytest.raises(Refused, match=WORDS), runs.opened(state, made):
        pass


def test_a_directory_that_is_gone_is_an_error_with_its_reason(state: Path, run: Run) -> None:
    run.path.rename(run.path.with_name("away"))
    with pytest.raises(Refused, match="the run directory cannot be opened: No such file"), runs.opened(state, run):
        pass


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_directory_into_which_others_may_write_is_not_used(state: Path, run: Run, mode: int) -> None:
    if mode == 0o770 and os.geteuid() != 0:
        pytest.skip("group root: only root can give a folder to a group of others")
    runs.list_own(state, run)
    run.path.chmod(0o755)
    with runs.opened(state, run):
        pass
    if os.geteuid() == 0:
        os.chown(run.path, -1, 65534)
    run.path.chmod(mode)
    with pytest.raises(Refused) as caught, runs.opened(state, run):
        pass
    (fault,) = caught.value.faults
    assert fault.what.startswith("the run directory can be written by ")
    assert fault.next == f"chmod go-w {run.path}"


def test_a_directory_that_is_exchanged_while_it_is_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = tmp_path / "job"
    code.mkdir()
    (code / "train.py").write_text("print()")
    spec = planned(context=replace(CONTEXT, run_dir=str(tmp_path / "runs/train-1")))
    spec = replace(spec, code=Code(folder=str(code), entry="train.py"))
    mkdir = Path.mkdir

    def exchanging(path: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        if path.name == "code":
            monkeypatch.setattr(Path, "mkdir", mkdir)
            shutil.copytree(path.parent, tmp_path / "theirs")
            path.parent.rename(tmp_path / "away")
            (tmp_path / "theirs").rename(path.parent)
        mkdir(path, mode, parents, exist_ok)

    monkeypatch.setattr(Path, "mkdir", exchanging)
    with pytest.raises(Refused, match=WORDS):
        create(spec, Script(text="", library=""), choose(spec.code), runs.Submission(host="host"))


def test_a_directory_of_somebody_else_is_not_used(state: Path, run: Run) -> None:
    if os.geteuid() != 0:
        pytest.skip("group root: only root can give files to other users")
    runs.list_own(state, run)
    os.chown(run.path, 12345, 12345)
    with pytest.raises(Refused) as caught, runs.opened(state, run):
        pass
    (fault,) = caught.value.faults
    assert (fault.what.split(":")[0], fault.next) == (
        "the run directory belongs to the user with uid 12345",
        "--runs-dir FOLDER",
    )


def test_where_others_can_exchange_a_directory(tmp_path: Path) -> None:
    (tmp_path / "safe").mkdir(mode=0o700)
    assert not weak_around(tmp_path / "safe")
