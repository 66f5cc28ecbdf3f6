"""Hooks of the documentation site: links out of docs/ lead to the repository; guides rank first in the search.

A page names its pictures in words, because they are not in the repository: the site shows them (docs_pictures.py).
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# Who searches wants a guide first, then a reference; a table of measurements is rarely the answer.
BOOST = {"tutorial.md": 4.0, "coming-from.md": 4.0, "how-to/": 4.0, "installing.md": 4.0, "centres/": 2.0}
BOOST |= {"reference/": 2.0, "glossary.md": 2.0}
UNSEARCHED = ("decisions/", "launch-lines.md")
_PICTURE = re.compile(
    r"^Picture: (?P<words>.+) \(in a checkout, `make docs` draws `(?P<path>docs/[^`]+)`\)\.$", re.MULTILINE
)
_LINK = re.compile(r"(?<=\]\()(?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?(?=\))")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Give a page's text with links that work on the site, and set its place in the search."""
    name = page.file.src_uri
    if name.startswith(UNSEARCHED):
        page.meta["search"] = {"exclude": True}
    boost = next((boost for start, boost in BOOST.items() if name.startswith(start)), None)
    if boost:
        page.meta["search"] = {"boost": boost}
    folder, repository = PurePosixPath("docs", name).parent, config["repo_url"].rstrip("/")
    shown = _PICTURE.sub(lambda found: _image(found, folder), markdown)
    return _LINK.sub(lambda found: _address(found, folder, repository), shown)


def _image(found: re.Match[str], folder: PurePosixPath) -> str:
    return f"![{found['words']}]({posixpath.relpath(found['path'], folder)})"


def _address(found: re.Match[str], folder: PurePosixPath, repository: str) -> str:
    parts: list[str] = []
    for part in (folder / found["path"]).parts:
        parts = parts[:-1] if part == ".." else [*parts, part]
    target = "/".join(parts)
    if target.startswith("docs/") or not (ROOT / target).exists():
        return found[0]  # MkDocs reports a target that does not exist
    view = "tree" if (ROOT / target).is_dir() else "blob"
    return f"{repository}/{view}/main/{target}{found['anchor'] or ''}"
