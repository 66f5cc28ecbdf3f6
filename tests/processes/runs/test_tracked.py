"""The files that git tracks, as git itself wrote them into its index, in every form that it has."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.core.spec import Code
from hpclaunch.runs import tracked
from hpclaunch.runs.code_folder import CodeFolder
from hpclaunch.runs.snapshot import choose


def tracked_in(folder: Path) -> frozenset[str] | None:
    return CodeFolder(folder).tracked


NAMES = ["train.py", "a b.csv", "net/model.py", "ü/\n.txt", "x" * 200, "data/table.csv", ".hidden"]


def git(folder: Path, *words: str) -> None:
    plain = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_AUTHOR_NAME": "a"}
    plain |= {"GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["git", "-C", str(folder), *words], env={**os.environ, **plain}, capture_output=True)
    assert done.returncode == 0, done.stderr


def repository(folder: Path, *options: str) -> Path:
    folder.mkdir()
    git(folder, "init", "-q", *options)
    for name in NAMES:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(name)
    git(folder, "add", ".")
    return folder


@pytest.mark.parametrize("version", ["2", "3", "4"])
@pytest.mark.parametrize("options", [(), ("--object-format=sha256",)])
def test_every_version_of_the_index_is_read(tmp_path: Path, version: str, options: tuple[str, ...]) -> None:
    folder = repository(tmp_path / "repo", *options)
    if version == "3":
        (folder / "later.py").write_text("")
        git(folder, "add", "--intent-to-add", "later.py")
    else:
        git(folder, "update-index", f"--index-version={version}")
    (folder / "untracked.csv").write_text("")
    assert tracked_in(folder) == {*NAMES, *(["later.py"] if version == "3" else [])}
    assert tracked_in(folder / "net") == {"model.py"}
    assert tracked_in(folder / "nothing") == frozenset()


def test_a_further_working_tree_and_a_submodule_have_an_index_elsewhere(tmp_path: Path) -> None:
    inner, outer = repository(tmp_path / "inner"), repository(tmp_path / "outer")
    git(inner, "commit", "-q", "-m", "x")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "lib")
    git(outer, "commit", "-q", "-m", "x")
    assert tracked_in(outer / "lib") == set(NAMES)
    assert tracked_in(outer) == {*NAMES, ".gitmodules", *(f"lib/{name}" for name in NAMES)}
    git(outer, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert set(NAMES) <= (tracked_in(tmp_path / "tree") or set())


def test_where_there_is_no_whole_index_there_is_no_answer(tmp_path: Path) -> None:
    assert tracked_in(tmp_path) is None
    folder = repository(tmp_path / "repo")
    index = (folder / ".git/index").read_bytes()
    for damaged in (b"", b"DIRC", index[:-30], index[:100], b"X" + index[1:], index[:4] + b"\0\0\0\t" + index[8:]):
        (folder / ".git/index").write_bytes(damaged)
        assert tracked_in(folder) is None
    (folder / ".git/index").write_bytes(index)
    git(folder, "update-index", "--split-index")
    assert tracked_in(folder) is None
    (folder / ".git/index").unlink()
    os.mkfifo(folder / ".git/index")
    assert tracked_in(folder) is None


@pytest.mark.parametrize(
    "text", ["", "gitdir: /nowhere", "gitdir: " + "x" * 5000, "gitdir: .\0", "gitdir: ../../../.."]
)
def test_a_file_in_the_place_of_the_repository_may_say_anything(tmp_path: Path, text: str) -> None:
    (tmp_path / ".git").write_text(text)
    assert tracked_in(tmp_path) is None


@given(content=st.binary(max_size=300), cut=st.integers(0, 300))
def test_no_content_of_an_index_is_an_error(content: bytes, cut: int) -> None:
    for version in (b"\2", b"\3", b"\4"):
        head = b"DIRC\0\0\0" + version + b"\0\0\0" + bytes([content[0] % 4 if content else 1])
        for size in (20, 32):
            found = tracked._entries((head + content)[: 12 + cut], size)
            assert found is None or len(found) <= 3


def test_git_decides_about_data_and_code_is_always_taken(tmp_path: Path) -> None:
    folder = repository(tmp_path / "repo")
    for name in ("untracked.csv", "fresh.py", "built.so", "data/more.csv"):
        (folder / name).write_text("")
    (folder / "data/table.csv").unlink()
    taken = choose(Code(folder=str(folder), entry="train.py", source_only=True))
    assert set(taken.files) == {*NAMES, "fresh.py", "built.so"} - {"data/table.csv"}
    assert (taken.left_out, taken.rule) == (2, "tracked by git, and *.py, *.sh, *.so")
    taken = choose(Code(folder=str(folder), entry="train.py", source_only=True, include=("*.csv",)))
    assert {"untracked.csv", "data/more.csv"} <= set(taken.files)
