"""docs/structure.md has a row for every project that was counted."""

from __future__ import annotations

from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "structure.md").read_text(encoding="utf-8")
PROJECTS = ("hpclaunch", "pypa/build", "hynek/svcs", "encode/httpx", "pytorch/torchx", "reframe-hpc/reframe")


def test_every_project_has_its_row() -> None:
    rows = [line.split("|")[1].strip() for line in PAGE.splitlines() if line.startswith("| ")]
    assert [name for name in PROJECTS if not any(row.startswith(name) for row in rows)] == []
