"""The styles of a plan's lines on a terminal: the five answers, the command and the chosen row stand out; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

_TRUST = re.compile(r"(.*\S {2,})(\S+)")
_REMARK = re.compile(r"([a-z][a-z ]*: )(.*)")


def styled(lines: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Return the lines as (text, style) pieces; their text is the same."""
    end = lines.index("") if "" in lines else len(lines)
    return [_headline(line) if number < end else _other(line) for number, line in enumerate(lines)]


def _headline(line: str) -> list[tuple[str, str]]:
    name, space, rest = line.partition("  ")
    if not space:
        return [(line, "")]
    found = _TRUST.fullmatch(rest)
    answer = [(found[1], "heading"), (found[2], "third-party")] if found else [(rest, "heading")]
    return [(name + space, "label"), *answer]


def _other(line: str) -> list[tuple[str, str]]:
    if line.startswith(("hpclaunch ", "    --")) or line.split()[:2] == ["nodes", "ranks"]:
        return [(line, "heading")]
    if line.startswith(">"):
        return [(line, "derived")]
    found = _REMARK.fullmatch(line)
    return [(found[1], "label"), (found[2], "")] if found else [(line, "")]
