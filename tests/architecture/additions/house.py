"""A copy of the tree to which something is added, and what CONTRIBUTING.md says about where it belongs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[3]
ADDED = Path(__file__).parent / "added"
COPIED = (
    *("hpclaunch", "templates", "jobs", "site_configs", "tests/golden", "tests/builders.py", "tests/conftest.py"),
    *("tests/no_processes.py", "tests/tiers.py"),
    *(f"tests/architecture/{name}.py" for name in ("bars", "source_tree", "test_rows")),
    "pyproject.toml",
)
TABLE = (CHECKOUT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("| to add a |")[2].partition("\n\n")[0]
QUOTED = re.compile(r"`([^`]+)`")
A_PATH = re.compile(r"(?:[\w.-]+/)+[\w.-]*|\w+\.py")


def rows() -> dict[str, tuple[str, str]]:
    """What can be added -> the columns "write" and "and"."""
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in TABLE.splitlines()[2:]]
    return {what: (write, also) for what, write, also in cells}


def paths_in(cell: str) -> Iterator[str]:
    """The paths that a cell of the table names, below the root."""
    for words in QUOTED.findall(cell):
        if A_PATH.fullmatch(words):
            # Not the other way round: a checkout may have a folder runs/ of a person's own.
            yield f"hpclaunch/{words}" if (CHECKOUT / "hpclaunch" / words.split("/")[0]).exists() else words


@dataclass(frozen=True)
class House:
    """The copy; ``name`` is what the new thing is called."""

    root: Path
    what: str
    name: str

    def build(self) -> None:
        """Copy the tree, and add to it the files that are new."""
        for place in COPIED:
            source, target = CHECKOUT / place, self.root / place
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target)
            else:
                shutil.copy2(source, target)
        if (ADDED / self.what).is_dir():
            shutil.copytree(ADDED / self.what, self.root, dirs_exist_ok=True)

    def edit(self, place: str, *insertions: tuple[str, str]) -> None:
        """Put each text before the only place where the other one stands."""
        path = self.root / place
        text = path.read_text(encoding="utf-8")
        for before, new in insertions:
            assert text.count(before) == 1, (place, before)
            text = text.replace(before, new + before)
        path.write_text(text, encoding="utf-8")

    def changed(self) -> set[str]:
        """The files that are new or have changed; of a folder that the table names, the folder."""
        write, also = rows()[self.what]
        folders = [place for place in self._paths(f"{write} {also}") if place.endswith("/")]
        return {next(filter(place.startswith, folders), place) for place in self._changed_files()}

    def _changed_files(self) -> Iterator[str]:
        for path in self.root.rglob("*"):
            place = path.relative_to(self.root).as_posix()
            if path.is_file() and "__pycache__" not in place:
                original = CHECKOUT / place
                if not original.is_file() or original.read_bytes() != path.read_bytes():
                    yield place

    def to_write(self) -> set[str]:
        """The files and folders that the table names under "write"."""
        return set(self._paths(rows()[self.what][0]))

    def to_write_also(self) -> set[str]:
        """Those that it names under "and": tests, goldens, documents."""
        return set(self._paths(rows()[self.what][1]))

    def _paths(self, cell: str) -> list[str]:
        return [place.replace("NAME", self.name) for place in paths_in(cell)]
