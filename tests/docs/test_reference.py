"""docs/reference/ is what the command line and the readers of files say of themselves.

After a change of a verb, a flag or a key: ``pytest tests/docs/test_reference.py --rewrite-golden``, then read the diff.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hpclaunch.cli.verbs import VERBS
from tests.docs import file_pages, reference_pages

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"
PATH = FOLDER / "commands.md"
PAGES = {"commands.md": reference_pages.document, "files.md": file_pages.document}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name: str, request: pytest.FixtureRequest) -> None:
    written = PAGES[name]()
    if request.config.getoption("--rewrite-golden"):
        (FOLDER / name).write_text(written, encoding="utf-8")
    assert (FOLDER / name).read_text(encoding="utf-8") == written


def test_it_has_every_verb_and_the_flags_of_submit() -> None:
    text = PATH.read_text(encoding="utf-8")
    assert [verb for verb in VERBS if f"\n## `hpclaunch {verb}`\n" not in text] == []
    assert all(flag in text for flag in ("`--nodes N`", "`--dry-run`", "`--sweep NAME=V1,V2,…`"))
