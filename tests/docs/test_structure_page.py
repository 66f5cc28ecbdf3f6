"""docs/structure.md has what tools/structure.py counts, of other projects at a commit; no own figure ages there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "structure.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| ")]


def test_the_table_has_the_columns_that_the_command_prints() -> None:
    if not (ROOT / "tools" / "structure.py").exists():
        pytest.skip("group checkout: an sdist holds no tools")
    from tools.structure import COLUMNS

    heads, *rows = ROWS
    assert heads == ["", *COLUMNS]
    assert rows and all(len(row) == len(heads) and all(row) for row in rows)


def test_every_project_is_counted_at_a_commit_and_this_one_is_not_on_the_page() -> None:
    named = {name.lower(): day for name, day in re.findall(r"(\w+) [0-9a-f]{7,9} \((\d{4}-\d\d-\d\d)\)", PAGE)}
    projects = [row[0].split("/")[1] for row in ROWS[1:]]
    assert sorted(named) == sorted(projects)
    assert "hpclaunch" not in projects
