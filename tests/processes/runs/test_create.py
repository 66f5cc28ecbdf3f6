"""The state of the code's repository, as git tells it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hpclaunch.runs import git_state

COMMITS = (
    ["init", "--quiet"],
    ["add", "."],
    ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "--quiet", "--message=first"],
)


def test_a_run_tells_the_commit_of_its_code_and_whether_files_differ_from_it(tmp_path: Path) -> None:
    script, beside = tmp_path / "job/train.py", tmp_path / "notes.txt"
    script.parent.mkdir()
    script.write_text("print()")
    assert git_state(script.parent) == ""
    for words in COMMITS:
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    commit = git_state(script.parent)
    assert len(commit) == 40
    beside.write_text("not of the code")
    assert git_state(script.parent) == commit
    script.write_text("print(1)")
    assert git_state(script.parent) == f"{commit}+changes"
