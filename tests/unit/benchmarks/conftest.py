"""The modules of a study are scripts beside each other: they are imported from their folder, and forgotten again."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

REFERENCE = Path(__file__).parents[3] / "benchmarks" / "reference"


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Imports a module of benchmarks/reference by its name."""
    before = set(sys.modules)
    path = list(sys.path)
    monkeypatch.syspath_prepend(str(REFERENCE))
    yield importlib.import_module
    sys.path[:] = path
    for name in set(sys.modules) - before:
        found = getattr(sys.modules[name], "__file__", None) or ""
        if found.startswith(str(REFERENCE.parent)):
            del sys.modules[name]
