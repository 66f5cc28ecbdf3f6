"""ARCHITECTURE.md names modules that there are, and is short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
TEXT = (CHECKOUT / "ARCHITECTURE.md").read_text(encoding="utf-8")
WAYS = [row for row in TEXT.partition("## The way of a value")[2].splitlines() if "→" in row]


def test_the_document_is_at_most_120_lines_long() -> None:
    assert len(TEXT.splitlines()) <= 120


def test_nodes_walltime_a_parameter_and_the_run_id_have_their_ways() -> None:
    values = [row.split("|")[1].strip() for row in WAYS]
    first = [value.strip("`").split(" ")[0] for value in values]
    assert first == [
        "--nodes",
        "--walltime",
        "--set",
        "--recipe",
        "run",
        "job",
    ]


@pytest.mark.parametrize("row", WAYS, ids=lambda row: row.split("|")[1].strip())
def test_a_way_leads_through_modules_that_there_are_and_through_none_twice(row: str) -> None:
    modules = re.findall(r"`((?:[a-z_]+/)+[a-z_]+|render)`", row.split("|")[2])
    assert modules and len(set(modules)) == len(modules)
    assert not [name for name in modules if not (CHECKOUT / "hpclaunch" / f"{name}.py").is_file()]


def test_the_rooms_of_the_table_are_those_of_the_package() -> None:
    table = TEXT.partition("## Rooms")[2].partition("\n## ")[0]
    named = {name.rstrip("/") for name in re.findall(r"^\| . \| `([a-z_./]+)` \|", table, flags=re.M)}
    package = CHECKOUT / "hpclaunch"
    rooms = {path.name for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert named == rooms - {"__init__.py", "__main__.py", "_bundled"}
