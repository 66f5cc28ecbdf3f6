"""Hints name what an installation holds: pages by `hpclaunch docs TOPIC`, and no file of a checkout.

The tests of the wheel run this file, too: what it reads is the installed package.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from hpclaunch.actions.manual import pages
from hpclaunch.config.catalog import bundled
from tests.architecture.source_tree import MODULES, PACKAGE, parsed

TOPICS = {page.topic for page in pages()}
HINT = re.compile(r"hpclaunch docs ([a-z][a-z0-9/_-]*)")
PAGE = re.compile(r"(?<![\w/.-])docs/([\w/-]+)\.md")
OF_A_CHECKOUT = re.compile(
    r"(?<![\w/.-])(?:docs|tests|tools|benchmarks)/[\w/.-]+\.(?:md|py|sh|txt)\b"
    r"|\b(?:README|CONTRIBUTING|SECURITY|ARCHITECTURE)(?:\.md)?\b"
)
OWN_README = "reports/exports/crate.py"
"""It writes a README of its own into the crate that it makes."""


def shipped(*folders: str) -> list[Path]:
    """The text files of the bundled folders."""
    endings = {".cfg", ".j2", ".json", ".md", ".py", ".sh", ".yaml"}
    return [path for folder in folders for path in sorted(bundled(folder).rglob("*")) if path.suffix in endings]


def texts(tree: ast.Module) -> Iterator[str]:
    """The strings of a module that are no docstring."""
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            yield node.value


def test_every_page_that_a_file_names_exists() -> None:
    """Docstrings and comments may name it by its file; the pages name files of centres, too."""
    wrong = {}
    for path in [*MODULES, *shipped("templates", "jobs", "docs")]:
        text = path.read_text(encoding="utf-8")
        by_file = PAGE.findall(text) if path.suffix != ".md" else []
        wrong[str(path)] = sorted({*HINT.findall(text), *by_file} - TOPICS)
    assert {path: topics for path, topics in wrong.items() if topics} == {}


def test_no_message_names_a_file_of_the_checkout() -> None:
    places = {path.relative_to(PACKAGE).as_posix(): path for path in MODULES}
    found = {
        place: [text for text in texts(parsed(path)) if OF_A_CHECKOUT.search(text)] for place, path in places.items()
    }
    assert {place: named for place, named in found.items() if named and place != OWN_README} == {}


def test_nothing_that_goes_into_a_run_names_a_file_of_the_checkout() -> None:
    found = {
        str(path): OF_A_CHECKOUT.findall(path.read_text(encoding="utf-8")) for path in shipped("templates", "jobs")
    }
    assert {path: named for path, named in found.items() if named} == {}


def test_hints_are_found_as_they_are_written() -> None:
    assert HINT.findall("x (hpclaunch docs job-files); or") == ["job-files"]
    assert PAGE.findall("(docs/planning.md) a/docs/index.md") == ["planning"]
    assert OF_A_CHECKOUT.search("see tools/setup.sh") and OF_A_CHECKOUT.search("(README)")
    assert len({topic for path in MODULES for topic in HINT.findall(path.read_text(encoding="utf-8"))}) > 5
