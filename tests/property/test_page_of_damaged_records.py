"""A page of a run whose records hold anything at all: it is rendered, as UTF-8, and its tables are written."""

from __future__ import annotations

import copy
import json
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.core.errors import HpclaunchError
from hpclaunch.reports.page import html
from hpclaunch.reports.page.files import csv_of
from hpclaunch.reports.page.recorded import read_run
from hpclaunch.reports.page.run_page import run_page
from hpclaunch.reports.page.runs_page import runs_page
from hpclaunch.runs import load
from tests import fabricated_runs as fabricated

RECORDS = ("spec.json", "run.json", "request.json", "environment.json")
STRANGE: list[Any] = [
    *("text", "", "\ud800", "\udcff\x1b[0m", "9" * 400, "4", [], ["a", [1]], {}, {"a": {"b": 1}}, None, True, False),
    *(1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf, 10**400, -5, 0, 3.7, 2**63),
]


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every value in JSON."""
    yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield from places(one, (*at, name))


def put(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    """Return JSON with another value in one place."""
    if not at:
        return new
    changed = copy.deepcopy(value)
    inner = changed
    for name in at[:-1]:
        inner = inner[name]
    inner[at[-1]] = new
    return changed


@st.composite
def damages(draw: st.DrawFn, value: Any) -> Any:
    return put(value, draw(st.sampled_from(list(places(value)))), draw(st.sampled_from(STRANGE)))


@given(data=st.data())
def test_it_is_rendered_without_a_traceback(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = data.draw(st.sampled_from([fabricated.finished, fabricated.preempted, fabricated.failed]))(Path(folder))
        for name in data.draw(st.lists(st.sampled_from(RECORDS), min_size=1, max_size=3, unique=True)):
            value = json.loads((path / name).read_text())
            (path / name).write_text(json.dumps(data.draw(damages(value), label=name)))
        lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
        for number in data.draw(st.lists(st.integers(0, len(lines) - 1), max_size=4)):
            lines[number] = data.draw(damages(lines[number]), label=f"line {number}")
        (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        try:
            recorded = read_run(load(path))
        except HpclaunchError:
            return  # a record that is refused, with its reason
        for page in (
            run_page(recorded, fabricated.NOW, "1.2.3"),
            runs_page(None, [recorded, recorded], fabricated.NOW, "1.2.3"),
        ):
            for figure in page.figures:
                csv_of(figure).encode("utf-8")
            html._render(page, {}, 40).encode("utf-8")
