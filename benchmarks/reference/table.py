"""A table of results as a CSV file: a row for every run, a column for every value that something reads.

A cell holds a value as JSON writes it; a text that JSON would not read stands without quotation marks. An empty cell
is no value, which is not null. The names of nested values are joined by dots: `curve.loss`.
"""

from __future__ import annotations

import csv
import fcntl
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

RAW = "raw"
"""Beside the tables: the folder of all that was measured, one JSON file a run, which git ignores."""

Row = dict[str, Any]
csv.field_size_limit(10**7)  # a cell may hold a curve


def flat(values: Mapping[str, Any], start: str = "") -> Row:
    """Nested values as those of one row, their names after `start`. Raises ValueError for a name with a dot."""
    found: Row = {}
    for name, value in values.items():
        if "." in name:
            raise ValueError(f"{start}{name}: a name of a nested value has no dot")
        if isinstance(value, Mapping) and value:
            found |= flat(value, f"{start}{name}.")
        else:
            found[start + name] = value
    return found


def nested(row: Mapping[str, Any], start: str = "") -> dict[str, Any]:
    """The values of a row whose names begin with `start`, nested again."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        if name.startswith(start):
            *above, last = name.removeprefix(start).split(".")
            place = found
            for part in above:
                place = place.setdefault(part, {})
            place[last] = value
    return found


def read(path: Path) -> list[Row]:
    """The rows of a table, without their empty cells; none if there is no such file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: _value(cell) for name, cell in row.items() if cell} for row in csv.DictReader(file)]


def put(path: Path, row: Row, keys: Sequence[str], order: Sequence[str] = ()) -> None:
    """Write a row in the place of the one with the same keys. Rows are in the order of their keys.

    order: names of columns, or of what is nested in some; all others follow. A writer that is stopped leaves the table
    as it was.
    """
    with _locked(path):
        rows = [one for one in read(path) if [one[key] for key in keys] != [row[key] for key in keys]]
        rows = sorted([*rows, row], key=lambda one: [one[key] for key in keys])
        columns = _in_order(dict.fromkeys(name for one in rows for name in one), order)
        new = path.with_suffix(".new")
        with new.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows([_cell(one[name]) if name in one else "" for name in columns] for one in rows)
        new.rename(path)


def is_within(name: str, outer: str) -> bool:
    """Whether a column is this value, or nested in it."""
    return name == outer or name.startswith(f"{outer}.")


def _in_order(names: Iterable[str], order: Sequence[str]) -> list[str]:
    def place(name: str) -> int:
        return next((number for number, one in enumerate(order) if is_within(name, one)), len(order))

    return sorted(names, key=place)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a table, which is among the raw results; runs of one study may end at the same time."""
    raw = path.parent / RAW
    raw.mkdir(parents=True, exist_ok=True)
    with (raw / f"{path.stem}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _cell(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    if not isinstance(value, str) or not value:
        return text
    try:
        json.loads(value)
    except ValueError:
        return value
    return text


def _value(cell: str) -> Any:
    try:
        return json.loads(cell)
    except ValueError:
        return cell
