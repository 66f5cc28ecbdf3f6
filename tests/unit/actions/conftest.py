"""Which functions that decide are called, and a system of its own for a test."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from hpclaunch.actions.system import System

DECIDES = {
    "hpclaunch.planner.forecasting": {"forecast"},
    "hpclaunch.resolve": {"resolve"},
    "hpclaunch.resolve.nodes.sizing": {"sizing_of"},
    "hpclaunch.runs.snapshot": {"fingerprint"},
    "hpclaunch.sites.detect": {"choice_of"},
}


@contextmanager
def calls(named: Mapping[str, set[str]] = DECIDES) -> Iterator[list[str]]:
    """Collect the calls of functions that decide, in their order. ``named``: module -> its functions."""
    found: list[str] = []

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name in named.get(frame.f_globals.get("__name__", ""), ()):
            found.append(frame.f_code.co_name)

    before: Callable[..., Any] | None = sys.getprofile()
    sys.setprofile(look)
    try:
        yield found
    finally:
        sys.setprofile(before)


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch:  # no run directory at Perlmutter may be in /tmp
        yield System(
            cwd=tmp_path,
            environment={"HOME": str(tmp_path / "home"), "SCRATCH": scratch, "PATH": "/usr/bin:/bin"},
            git_state=lambda folder: "",
        )
