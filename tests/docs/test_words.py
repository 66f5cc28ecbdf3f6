"""Words that no message has: each has a plainer one (the style's table of prose), which names who does what."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORDS = re.compile(r"\b(told|said|nobody|anew)\b", re.IGNORECASE)
PYTHON = [path for folder in ("hpclaunch", "jobs", "templates") for path in sorted((ROOT / folder).rglob("*.py"))]
SCRIPTS = sorted(path for path in (ROOT / "templates").rglob("*") if path.suffix in (".sh", ".j2"))
FILES = sorted(path for folder in ("site_configs", "jobs") for path in (ROOT / folder).rglob("*.yaml"))


def messages(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every string of a module that is no docstring: what a person may read."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.lineno, node.value


def test_no_message_has_these_words() -> None:
    assert len(PYTHON) > 500
    found = [f"{path.relative_to(ROOT)}:{line}: {text}" for path in PYTHON for line, text in messages(path)]
    assert [text for text in found if WORDS.search(text.partition(": ")[2])] == []


def test_no_line_of_a_script_and_no_file_of_a_site_or_job_has_them() -> None:
    """A comment in a template is no message; the texts of a site or job file are shown by sites show and jobs show."""
    assert SCRIPTS and FILES
    for path in (*SCRIPTS, *FILES, *(ROOT / "hpclaunch").rglob("*.json"), *(ROOT / "jobs").rglob("*.json")):
        lines = path.read_text(encoding="utf-8").splitlines()
        shown = [line.partition(" # ")[0] for line in lines if not line.lstrip().startswith("#")]
        assert [line for line in shown if WORDS.search(line)] == [], path.name
