"""Reads a built site: every page's links and anchors, with nothing but the standard library."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The addresses that a page links to or loads, and the names that a link may point to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.names |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "link" and values.get("rel") in ("stylesheet", "preconnect", "preload", "icon"):
            self.loaded.append(values["href"])
        if "src" in values:
            self.loaded.append(values["src"])


def pages_of(site: Path) -> dict[Path, Page]:
    """Every page of a built site, by its file."""
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html") if path.name != "404.html"}


def faults_of(site: Path) -> list[str]:
    """Links to files or anchors that the site does not have, and what a page loads from another host."""
    pages = pages_of(site)
    found = [fault for path, page in pages.items() for fault in _faults(site, pages, path, page)]
    return sorted(set(found))


def _faults(site: Path, pages: dict[Path, Page], path: Path, page: Page) -> list[str]:
    faults = []
    for address in [*page.links, *page.loaded]:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            if address in page.loaded and parts.scheme != "data":
                faults.append(f"{path.relative_to(site)} loads {address}")
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        target = target / "index.html" if target.is_dir() else target
        if not target.is_file():
            faults.append(f"{path.relative_to(site)} links to {address}, which is no file")
        elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].names:
            faults.append(f"{path.relative_to(site)} links to {address}, which has no such anchor")
    return faults
