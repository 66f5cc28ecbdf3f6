"""Whether a text is one JSON document that keeps the schema of ``--json``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hpclaunch.cli.show.documents import schema_text

_checks: list[Any] = []


def checked(text: str) -> dict[str, Any]:
    """The document; fails if the text is not exactly one, or if the schema forbids it."""
    if not _checks:
        try:
            import fastjsonschema
        except ImportError:
            pytest.skip("group schema: fastjsonschema is not installed; make setup-dev installs it")
        _checks.append(fastjsonschema.compile(json.loads(schema_text())))
    found: dict[str, Any] = json.loads(text)
    _checks[0](found)
    return found
