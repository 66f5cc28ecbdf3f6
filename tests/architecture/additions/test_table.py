"""The table of CONTRIBUTING.md names files that there are."""

from __future__ import annotations

import re

import pytest

from tests.architecture.additions.house import CHECKOUT, QUOTED, paths_in, rows


@pytest.mark.parametrize("what", rows())
def test_every_path_of_a_row_is_there(what: str) -> None:
    named = [path for cell in rows()[what] for path in paths_in(cell)]
    patterns = {path: re.sub("NAME|NN", "*", path).rstrip("/") for path in named}
    assert [path for path, pattern in patterns.items() if not any(CHECKOUT.glob(pattern))] == []


@pytest.mark.parametrize("what", rows())
def test_every_name_that_a_row_gives_to_something_in_a_file_is_in_that_file(what: str) -> None:
    """``NAME`` in ``PATH``, and ``NAME`` of ``PATH``; of ``NAME`` in ``PATH``."""
    for cell in rows()[what]:
        for name, path in re.findall(r"`(\w+)` (?:in|of) `([\w./]+\.(?:py|json))`", cell):
            (place,) = paths_in(f"`{path}`")
            assert re.search(rf"\b{name}\b", (CHECKOUT / place).read_text(encoding="utf-8")), f"{name} in {place}"


def test_what_a_row_names_is_found() -> None:
    assert list(paths_in("`core/spec.py`, `launchers.py`, `jobs/NAME/`, `pytest tests/golden`, `settings.offer`")) == [
        *("hpclaunch/core/spec.py", "hpclaunch/launchers.py", "jobs/NAME/")
    ]
    assert {"site", "launcher", "optimizer", "scheduler"} <= rows().keys()
    assert all(QUOTED.search(write) for write, _ in rows().values())
