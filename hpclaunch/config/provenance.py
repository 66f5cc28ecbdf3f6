"""The sources of each value of a site file: those of the longest dotted key in ``origins`` that leads to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from hpclaunch.config.site import BOOK, Site
from hpclaunch.core.records import record

_BOOKS = frozenset(one.name for one in fields(Site) if one.metadata == BOOK)


@record
class Value:
    """One value as the file writes it. ``mark``: ``third-party``, ``derived`` or empty; ``how`` it was derived."""

    key: str
    value: Any
    sources: tuple[str, ...]
    mark: str = ""
    how: str = ""


def values(site: Site, content: Mapping[str, Any]) -> list[Value]:
    """Return every value of a site file's ``content`` with its sources, which may be empty."""
    return [_trace(site, key, value) for key, value in _leaves(content, "")]


def _leaves(content: Mapping[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    for name, value in content.items():
        key = f"{above}{name}"
        if key in _BOOKS:
            continue
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{key}.")
        else:
            yield key, value


def _trace(site: Site, key: str, value: Any) -> Value:
    sources = site.origins.get(longest(key, site.origins) or "", ())
    computed = longest(key, site.derived)
    mark = ""
    if longest(key, site.third_party):
        mark = "third-party"
    elif computed:
        mark = "derived"
    return Value(key=key, value=value, sources=sources, mark=mark, how=site.derived.get(computed or "", ""))


def longest(key: str, prefixes: Iterable[str]) -> str | None:
    """Return the longest dotted prefix of ``key`` (or ``key`` itself) among ``prefixes``."""
    leading = [prefix for prefix in prefixes if key == prefix or key.startswith(f"{prefix}.")]
    return max(leading, key=len, default=None)


def useless(site: Site, content: Mapping[str, Any]) -> list[str]:
    """Return the dotted keys in the site's ``origins`` and similar keys that lead to no value, by mistake."""
    keys = [key for key, _ in _leaves(content, "")]
    marked = [*site.origins, *site.third_party, *site.derived]
    return [prefix for prefix in marked if not any(longest(key, [prefix]) for key in keys)]
