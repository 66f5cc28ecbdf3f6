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
_MOST_BRACKETS = 8
_LONGEST_NAME = 255
"""Characters, without what stands in brackets."""


def names_in(nodes: str) -> tuple[str, ...]:
    """Return the names of the nodes in their order; none if the text is damaged. It may be a line of a program's log.

    An item that is damaged, or longer than any of Slurm's, has no names.

    >>> names_in("gpu[008-010,12],login1")
    ('gpu008', 'gpu009', 'gpu010', 'gpu12', 'login1')
    """
    items = _ITEM.findall(nodes)
    if ",".join(items) != nodes:
        return ()
    names: list[str] = []
    for item in items:
        if _is_valid(item):
            names += islice(_expand_item(item), _MOST - len(names))
    return tuple(names)


def _is_valid(item: str) -> bool:
    """Whether every number of the brackets leads to a name, so that the limit of names limits the time too."""
    brackets = _BRACKETS.findall(item)
    rest = _BRACKETS.sub("", item)
    if len(brackets) > _MOST_BRACKETS or len(rest) > _LONGEST_NAME or "[" in rest:
        return False
    spans = [_RANGE.fullmatch(part) for inside in brackets for part in inside.split(",")]
    return all(span is not None and int(span[1]) <= int(span[2] or span[1]) for span in spans)


def _expand_item(item: str) -> Iterator[str]:
    """Yield the names of one valid item. Brackets hold numbers, with leading zeros where the names have them."""
    match = _BRACKETS.search(item)
    if match is None:
        yield item
        return
    for part in match[1].split(","):
        first, _, last = part.partition("-")
        for number in range(int(first), int(last or first) + 1):
            yield from _expand_item(f"{item[: match.start()]}{number:0{len(first)}d}{item[match.end() :]}")
