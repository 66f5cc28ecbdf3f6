"""The pages of the manual, which the package holds: finds one by its topic, and makes its links readable anywhere."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection
from pathlib import Path

from hpclaunch.config.catalog import bundled
from hpclaunch.core.errors import Fault, NotFound, did_you_mean
from hpclaunch.core.files import read_text
from hpclaunch.core.records import record
from hpclaunch.core.version import __version__

_SOURCES = f"https://github.com/hpclaunch/hpclaunch/blob/v{__version__}/"
"""Where files are that the package does not hold: those of this version."""
_LEFT_OUT = "decisions"
"""The folder of pages for developers."""
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:)([^)\s]+)\)")
_REMARK = re.compile(r"<!--.*?-->\n?", re.DOTALL)


@record
class ManualPage:
    """A page of the manual; its ``topic`` is its path below the folder, without the ending."""

    topic: str
    title: str
    path: Path


def pages() -> list[ManualPage]:
    """Return all pages, sorted by topic."""
    return [ManualPage(topic=topic, title=_title(path), path=path) for topic, path in _files().items()]


def _files() -> dict[str, Path]:
    """Return topic → file, sorted; no file is read."""
    folder = bundled("docs")
    found = {path.relative_to(folder).with_suffix("").as_posix(): path for path in folder.rglob("*.md")}
    return {topic: found[topic] for topic in sorted(found) if not topic.startswith(f"{_LEFT_OUT}/")}


def find_page(name: str) -> ManualPage:
    """Return the page of a topic. Its last part is enough, and a path is accepted too. Raises NotFound."""
    known = _files()
    typed = name.partition("#")[0].removeprefix("docs/").removesuffix(".md")
    found = [typed] if typed in known else [topic for topic in known if topic.rpartition("/")[2] == typed]
    if len(found) == 1:
        path = known[found[0]]
        return ManualPage(topic=found[0], title=_title(path), path=path)
    topics = found or list(known)
    what = f"several pages are called {typed!r}" if found else f"no page of the manual is called {typed!r}"
    if not known:
        what = "this installation holds no pages of the manual"
    fault = Fault(what=what + did_you_mean(typed, topics), allowed=", ".join(topics), next="hpclaunch docs")
    raise NotFound(fault)


def text_of_page(page: ManualPage) -> str:
    """Return the Markdown of a page whose links lead somewhere without the files beside it."""
    return adapt_links(read_text(page.path), page.topic, _files())


def adapt_links(text: str, topic: str, known: Collection[str]) -> str:
    """Return the text of a page with the commands for other pages, and addresses of other files, as its links.

    Remarks for programs are left out. Blocks of code stay as they are.
    """
    parts = re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE)
    for index in range(0, len(parts), 2):
        prose = _REMARK.sub("", parts[index])
        parts[index] = _LINK.sub(lambda found: _link(found, posixpath.dirname(topic), topic, known), prose)
    return "".join(parts)


def _link(found: re.Match[str], folder: str, topic: str, known: Collection[str]) -> str:
    picture, words, target = found[1], found[2], found[3]
    file, _, _ = target.partition("#")
    path = posixpath.normpath(posixpath.join("docs", folder, file)) if file else f"docs/{topic}.md"
    other = path.removeprefix("docs/").removesuffix(".md")
    if picture:
        return f"[picture: {words}]({_SOURCES}{path})"
    if path.endswith(".md") and other == topic:
        return words
    if path.endswith(".md") and other in known:
        return f"{words} (`hpclaunch docs {other}`)"
    return f"[{words}]({_SOURCES}{path})"


def _title(path: Path) -> str:
    """Return the first heading of a page."""
    found = re.search(r"^# (.+)$", read_text(path), re.MULTILINE)
    return found[1].strip() if found else path.stem
