"""Every reference to a decision leads to a record, and the index of docs/decisions has every number once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "decisions"
INDEX = (FOLDER / "index.md").read_text(encoding="utf-8")
RECORDS = {int(path.name[:4]): path for path in sorted(FOLDER.glob("[0-9]*.md"))}
SEARCHED = ("hpclaunch", "templates", "jobs", "site_configs", "docs", "tests", "tools", "benchmarks")
SUFFIXES = (".py", ".md", ".sh", ".j2", ".yaml", ".json", ".toml")
NEVER_GIVEN = {52}
# "decision 34", "decisions 17, 34", "decisions 2 and 3", and the folder with a number behind it.
WORD = re.compile(r"\b[Dd]ecisions? (\d+(?:(?:, | and )\d+)*)\b")
PATH = re.compile(r"\bdecisions/(\d{4})(-[a-z0-9-]+\.md)?")


def references(text: str) -> Iterator[int]:
    """The numbers of decisions that a text names; of a link that leads to no file, 0."""
    for numbers in WORD.findall(text):
        yield from map(int, re.findall(r"\d+", numbers))
    for number, rest in PATH.findall(text):
        yield int(number) if not rest or (FOLDER / f"{number}{rest}").is_file() else 0


def texts() -> Iterator[Path]:
    yield from sorted(ROOT.glob("*.md"))
    yield ROOT / "pyproject.toml"
    for folder in SEARCHED:
        yield from (path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in SUFFIXES and path.is_file())


def index() -> list[tuple[int, str, set[int]]]:
    """The rows of the index: number, file, and the numbers of the records that went into it."""
    rows = re.findall(r"^\| (\d+) \| \[.+\]\((\S+)\) \| (.+) \|$", INDEX, flags=re.M)
    return [(int(number), name, set(map(int, re.findall(r"\d+", merged)))) for number, name, merged in rows]


def test_every_reference_leads_to_a_record() -> None:
    found = {path: set(references(path.read_text(encoding="utf-8"))) for path in texts() if path != Path(__file__)}
    assert len([path for path, numbers in found.items() if numbers]) > 20
    lost = {str(path.relative_to(ROOT)): numbers - RECORDS.keys() for path, numbers in found.items()}
    assert {path: numbers for path, numbers in lost.items() if numbers} == {}


def test_the_index_has_every_record_and_every_number_once() -> None:
    assert [(number, name) for number, name, _ in index()] == [(number, path.name) for number, path in RECORDS.items()]
    gone = [number for _, _, merged in index() for number in merged]
    assert sorted([*RECORDS, *gone, *NEVER_GIVEN]) == list(range(1, max(RECORDS.keys() | set(gone)) + 1))


def test_a_record_begins_with_its_number_and_the_title_of_the_index() -> None:
    for number, path in RECORDS.items():
        title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix(f"# {number}. ")
        assert f"| {number} | [{title}]({path.name}) |" in INDEX


def test_references_are_found() -> None:
    text = "decision 34, decisions 17, 18 and 19; [why](decisions/0041-keras-2-by-tf-keras.md) docs/decisions/0042."
    assert list(references(text)) == [34, 17, 18, 19, 41, 42]
    assert list(references("[why](decisions/0041-another-title.md)")) == [0]
