"""docs/planning-rules.md has every rule of the planner with its source.

After a change of a rule: ``pytest tests/docs/test_planning_rules.py --rewrite-golden``, then read the diff.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.rule_pages import document, reasons_in_code, rules, unplaced

PATH = Path(__file__).resolve().parents[2] / "docs" / "planning-rules.md"


def test_the_page_is_what_the_code_says(request: pytest.FixtureRequest) -> None:
    written = document()
    if request.config.getoption("--rewrite-golden"):
        PATH.write_text(written, encoding="utf-8")
    assert PATH.read_text(encoding="utf-8") == written


def test_no_rule_is_missing_and_each_has_a_source() -> None:
    assert unplaced() == set()
    assert len(rules()) == reasons_in_code() > 30
    assert [rule for rule in rules() if not rule.source or not rule.text] == []
