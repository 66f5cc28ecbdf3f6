"""docs/centres/ is what the site files say, and every script that it shows can be rendered.

After a change of a site file: ``pytest tests/docs/test_centres.py --rewrite-golden``, then read the diff.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.centre_pages import centres, index_of, page_of

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "centres"


def pages() -> dict[str, str]:
    sites = centres()
    return {"index.md": index_of(sites), **{f"{site.name}.md": page_of(site) for site in sites}}


def test_the_pages_are_what_the_site_files_say(request: pytest.FixtureRequest) -> None:
    written = pages()
    if request.config.getoption("--rewrite-golden"):
        for path in FOLDER.glob("*.md"):
            path.unlink()
        for name, text in written.items():
            (FOLDER / name).write_text(text, encoding="utf-8")
    assert {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")} == written
