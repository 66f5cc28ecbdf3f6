"""Slurm's notation of several nodes (``node[1-3,07],gpu4``) as their names; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

NODE_LIST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._,\[\]-]{0,4095}")
_ITEM = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_BRACKETS = re.compile(r"\[([0-9,-]*)\]")
_RANGE = re.compile("([0-9]{1,9})(?:-([0-9]{1,9}))?")
_MOST = 100_000


def names_in(nodes: str) -> tuple[str, ...]:
    """Return the names of the nodes in their order; none if the text is damaged."""
    items = _ITEM.findall(nodes)
    if ",".join(items) != nodes:
        return ()
    names: list[str] = []
    for item in items:
        names += islice(_expand_item(item), _MOST - len(names))
    return tuple(names)


def _expand_item(item: str) -> Iterator[str]:
    """Yield the names of one item. Brackets hold numbers, with leading zeros where the names have them."""
    match = _BRACKETS.search(item)
    if match is None:
        if "[" not in item:
            yield item
        return
    for part in match[1].split(","):
        span = _RANGE.fullmatch(part)
        if span is None:
            return
        for number in range(int(span[1]), int(span[2] or span[1]) + 1):
            yield from _expand_item(f"{item[: match.start()]}{number:0{len(span[1])}d}{item[match.end() :]}")
