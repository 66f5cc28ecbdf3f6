"""The examples in docstrings are run: each prints what stands below it."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import hpclaunch

PACKAGE = Path(hpclaunch.__file__).parent
WITH_EXAMPLES = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


def test_some_docstrings_have_examples() -> None:
    assert "hpclaunch.core.units" in WITH_EXAMPLES


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_the_examples_print_what_they_say(module: str) -> None:
    found = doctest.testmod(import_module(module))
    assert found.attempted > 0
    assert found.failed == 0
