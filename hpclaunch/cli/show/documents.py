"""The JSON documents that commands write with ``--json``: their version, their envelope, and their schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SCHEMA_VERSION = 1
"""The version of the documents: a key that is removed, or that gets another meaning, raises it."""


def text_of(document: str, values: Mapping[str, Any], on_one_line: bool = False) -> str:
    """Return a document as text; ``document`` is its name in the schema (docs/json.md)."""
    made = {"schema_version": SCHEMA_VERSION, "document": document, **values}
    return json.dumps(made, indent=None if on_one_line else 2) + "\n"


def schema_text() -> str:
    """Return the JSON Schema of all documents."""
    return Path(__file__).with_name("documents.schema.json").read_text(encoding="utf-8")
