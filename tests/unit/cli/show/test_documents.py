"""The schema of ``--json``: it names every document that the code writes, and docs/json.md has a row for each."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import hpclaunch.cli
from hpclaunch.cli.show import documents
from hpclaunch.config.catalog import bundled

CLI = Path(hpclaunch.cli.__file__).parent
SCHEMA = json.loads(documents.schema_text())
NAMES = SCHEMA["properties"]["document"]["enum"]


def test_the_schema_names_what_the_code_writes() -> None:
    calls = [node for path in CLI.rglob("*.py") for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    written = [
        node.args[0].value
        for node in calls
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", getattr(node.func, "id", "")) == "write_json"
        and isinstance(node.args[0], ast.Constant)
    ]
    assert set(written) == set(NAMES) and len(NAMES) == len(set(NAMES))
    assert SCHEMA["properties"]["schema_version"]["const"] == documents.SCHEMA_VERSION


def test_every_document_has_its_keys_in_the_schema_and_its_row_in_the_docs() -> None:
    chosen = [choice["if"]["properties"]["document"]["const"] for choice in SCHEMA["allOf"]]
    assert chosen == NAMES
    assert all(f"document_{name}" in SCHEMA["definitions"] for name in NAMES)
    page = (bundled("docs") / "json.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == NAMES


def test_a_document_begins_with_its_version_and_its_kind() -> None:
    text = documents.text_of("trust", {"folders": []}, on_one_line=True)
    assert text == '{"schema_version": 1, "document": "trust", "folders": []}\n'
