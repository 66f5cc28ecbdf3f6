"""The commit of a run's code, as git tells it; and repositories that name programs of their own for git to start."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hpclaunch.core.spec import Code
from hpclaunch.runs import git_state, snapshot
from hpclaunch.runs.snapshot import choose

COMMIT = (
    ["init", "--quiet"],
    ["add", "."],
    ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "--quiet", "--message=first"],
)


def state(folder: Path) -> str:
    """What git tells of a job's whole folder."""
    return git_state(choose(Code(folder=str(folder), entry="train.py", source_only=False)))


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job's folder in a repository, all of it committed."""
    folder = tmp_path / "repository/job"
    (folder / "inner/deep").mkdir(parents=True)
    (folder / "train.py").write_text("print()")
    (folder / "inner/deep/model.py").write_text("")
    (folder / "inner/deep/layers.py").write_text("")
    (folder / "link.py").symlink_to("train.py")
    (folder / ":(top)").write_text("a name with git's own signs")
    (folder.parent / "README").write_text("beside the job")
    for words in COMMIT:
        git(folder.parent, *words)
    return folder


def test_a_run_tells_the_commit_of_its_code(job: Path) -> None:
    assert len(state(job)) == 40
    assert len(state(job.parent)) == 40
    (job.parent / "README").write_text("not of the code")
    (job / "__pycache__").mkdir()
    (job / "__pycache__/train.pyc").write_text("not copied")
    assert len(state(job)) == 40


@pytest.mark.parametrize(
    "change",
    [
        lambda job: (job / "train.py").write_text("print(1)"),
        lambda job: (job / "new.py").write_text(""),
        lambda job: (job / "inner/new.py").write_text(""),
        lambda job: (job / "inner/deep/model.py").unlink(),
        lambda job: [(job / "link.py").unlink(), (job / "link.py").symlink_to("inner/deep/model.py")],
    ],
    ids=["changed", "new", "new in a folder", "missing", "another link"],
)
def test_code_that_differs_from_the_commit_is_said_to(job: Path, change: Callable[[Path], object]) -> None:
    commit = state(job)
    change(job)
    assert state(job) == f"{commit}+changes"


def test_a_file_that_is_missing_beside_the_folders_of_the_code_is_a_difference(job: Path) -> None:
    commit = state(job)
    for name in ("train.py", "link.py", ":(top)"):
        (job / name).unlink()
    assert {name.partition("/")[0] for name in choose(Code(folder=str(job), entry="train.py")).files} == {"inner"}
    assert state(job) == f"{commit}+changes"


def test_code_in_place_that_is_too_much_to_compare_counts_as_changed(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = Code(folder=str(job), entry="train.py", in_place=True)
    commit = git_state(choose(code))
    assert len(commit) == 40
    monkeypatch.setattr(snapshot, "MOST_FILES", 2)
    assert git_state(choose(code)) == f"{commit}+changes"


def test_outside_a_repository_and_before_the_first_commit_there_is_none(tmp_path: Path) -> None:
    assert state(tmp_path) == ""
    git(tmp_path, "init", "--quiet")
    assert state(tmp_path) == ""


def test_a_comparison_that_fails_counts_as_a_difference(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shutil.which("git")
    (tmp_path / "git").write_text(f'#!/bin/sh\n{real} "$@" || exit\ncase "$*" in *ls-tree*) exit 1 ;; esac\n')
    (tmp_path / "git").chmod(0o755)
    commit = state(job)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert state(job) == f"{commit}+changes"


def _fsmonitor(job: Path, program: str) -> None:
    git(job, "config", "core.fsmonitor", program)


def _filters(job: Path, program: str) -> None:
    for name in ("clean", "smudge", "process"):
        git(job, "config", f"filter.x=y.{name}", program)
    git(job, "config", "filter.x=y.required", "true")
    for file in (job.parent / ".gitattributes", job.parent / ".git/info/attributes"):
        file.parent.mkdir(exist_ok=True)
        file.write_text("* filter=x=y diff=x=y merge=x=y\n")


def _diffs(job: Path, program: str) -> None:
    for key in ("diff.external", "diff.x=y.textconv", "diff.x=y.command", "merge.x=y.driver", "gpg.program"):
        git(job, "config", key, program)


def _hooks(job: Path, program: str) -> None:
    hooks = job.parent / "hooks"
    hooks.mkdir()
    names = ["post-index-change", "post-checkout", "pre-commit", "reference-transaction", "fsmonitor-watchman"]
    for folder in (hooks, job.parent / ".git/hooks"):
        folder.mkdir(exist_ok=True)
        for name in names:
            (folder / name).write_text(f"#!/bin/sh\n{program}\n")
            (folder / name).chmod(0o755)
    git(job, "config", "core.hooksPath", str(hooks))


def _pagers(job: Path, program: str) -> None:
    for key in ("core.pager", "pager.ls-tree", "core.editor", "core.askPass", "alias.ls-tree", "alias.rev-parse"):
        git(job, "config", key, program if not key.startswith("alias") else f"!{program}")


def _transports(job: Path, program: str) -> None:
    """A clone without its objects, whose origin is a program."""
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{program}",
        "protocol.ext.allow": "always",
        "core.sshCommand": program,
        "core.gitProxy": program,
        "credential.helper": f"!{program}",
    }.items():
        git(job, "config", key, value)
    listing = subprocess.run(
        ["git", "rev-parse", "HEAD^{tree}"], cwd=job, capture_output=True, text=True, check=True
    ).stdout.strip()
    (job.parent / ".git/objects" / listing[:2] / listing[2:]).unlink()


def _submodule(job: Path, program: str) -> None:
    """A repository in the repository, with an fsmonitor of its own."""
    inner = job / "inner"
    for words in COMMIT:
        git(inner, *words)
    git(inner, "config", "core.fsmonitor", program)
    git(job.parent, "config", "submodule.job/inner.update", f"!{program}")


HOSTILE = [_fsmonitor, _filters, _diffs, _hooks, _pagers, _transports, _submodule]


@pytest.mark.parametrize("prepare", HOSTILE, ids=lambda prepare: prepare.__name__[1:])
def test_a_repository_starts_none_of_its_programs(
    job: Path, prepare: Callable[[Path, str], None], tmp_path: Path
) -> None:
    marker = tmp_path / "started"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {shlex.quote(str(marker))}\nexit 1\n")
    program.chmod(0o755)
    prepare(job, str(program))
    marker.unlink(missing_ok=True)  # what the preparation itself started
    commit = state(job).removesuffix("+changes")
    assert len(commit) == 40
    (job / "train.py").write_text("print(1)")
    assert state(job) == f"{commit}+changes"
    assert not marker.exists()
    if prepare in (_fsmonitor, _filters, _hooks, _transports):  # the trap works: what git status would have started
        os.utime(job / "inner/deep/model.py", (1, 1))  # so that git status writes the index again, at any pace
        subprocess.run(["git", "status"], cwd=job, capture_output=True, check=False)
        assert marker.exists()
