"""What the pages of evidence say of commits: each one named is in the history, so that anybody can look at it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("reliability", "measurements", "comparison")
"""The pages whose figures this project measured; others name commits of other projects."""
COMMIT = re.compile(r"(?<![\w./])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}(?![\w./])")


def git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("page", PAGES)
def test_every_commit_that_a_page_names_is_in_the_history(page: str) -> None:
    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("group checkout: needs the whole history of git")
    named = set(COMMIT.findall((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")))
    assert [commit for commit in sorted(named) if git("merge-base", "--is-ancestor", commit, "HEAD").returncode] == []


def test_the_raw_results_are_at_the_commit_that_the_benchmarks_name() -> None:
    readme = ROOT / "benchmarks" / "README.md"
    if not readme.exists() or git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("group checkout: needs the whole history of git")
    shown = re.findall(r"`git show ([0-9a-f]+:[^`]+\.json)`", readme.read_text(encoding="utf-8"))
    assert len(shown) == 1 and json.loads(git("show", shown[0]).stdout)["measured"]


def test_a_commit_is_told_from_a_number_and_a_word() -> None:
    text = "commit 94e086d2, 20261123 runs, faded, defaced, x94e086d2, a 2026-11-23/94e086d2 and (10c89ea)"
    assert COMMIT.findall(text) == ["94e086d2", "10c89ea"]
