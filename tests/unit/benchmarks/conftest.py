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
    path = list(sys.path)
    forget()  # another study has modules of the same names
    monkeypatch.syspath_prepend(str(REFERENCE))
    monkeypatch.setattr(importlib.import_module("store"), "own_version", lambda: "0.1.0")  # git would be a process
    yield importlib.import_module
    sys.path[:] = path
    forget()


def forget() -> None:
    """Let no module of a study be imported."""
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(REFERENCE.parent)):
            del sys.modules[name]
