"""docs/structure.md has a row for every bar and every project that was counted, and is short."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "structure.md").read_text(encoding="utf-8")
PROJECTS = ("hpclaunch", "pypa/build", "hynek/svcs", "encode/httpx", "pytorch/torchx", "reframe-hpc/reframe")


def test_the_page_is_at_most_100_lines_long() -> None:
    assert len(PAGE.splitlines()) <= 100


def test_every_project_has_its_row() -> None:
    rows = [line.split("|")[1].strip() for line in PAGE.splitlines() if line.startswith("| ")]
    assert [name for name in PROJECTS if not any(row.startswith(name) for row in rows)] == []


def test_the_bars_of_the_page_are_not_exceeded() -> None:
    table = PAGE.partition("## Bars")[2].partition("## Style")[0]
    figures = re.findall(r"\| ([\d,]+) \| ([\d,]+) \|\n", table)
    assert len(figures) == 9
    assert [pair for pair in figures if int(pair[0].replace(",", "")) > int(pair[1].replace(",", ""))] == []
