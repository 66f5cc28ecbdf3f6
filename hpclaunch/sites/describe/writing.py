"""A described site -> the text of its site file; each gap becomes a comment in the place where its key belongs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hpclaunch.config.yaml_edits import flow_text, scalar_text
from hpclaunch.sites.describe.draft import Described, Gap

_WIDTH = 110


def text_of(described: Described, words: str) -> str:
    """Return the text of the site file; ``words`` is its first comment and says how it was made."""
    lines = [f"# {words}"]
    if described.gaps:
        lines.append(
            "# FILL IN marks values that Slurm does not show. hpclaunch assumes nothing for a value that is missing."
        )
    open_gaps = list(described.gaps)
    for key, value in described.values.items():
        here = [gap for gap in open_gaps if gap.key.partition(".")[0] == key]
        if key == "sources":
            here = open_gaps
        open_gaps = [gap for gap in open_gaps if gap not in here]
        after = [line for gap in here for line in _comment(gap)]
        lines += [*after, *_lines(key, value)] if key == "sources" else [*_lines(key, value), *after]
    return "\n".join([*lines, ""])


def _comment(gap: Gap) -> list[str]:
    example = f", for example: {gap.example}" if gap.example else ""
    return [f"# FILL IN {gap.key}{example}", f"#   ({gap.why})"]


def _lines(key: str, value: Any, depth: int = 0) -> list[str]:
    """Return the lines of a key and its value: one line where it fits and the value holds no nested mappings."""
    start = f"{'  ' * depth}{scalar_text(key)}:"
    short = f"{start} {flow_text(value)}"
    nested = isinstance(value, Mapping) and depth == 0 and any(isinstance(member, Mapping) for member in value.values())
    if not isinstance(value, Mapping) or not value or (len(short) <= _WIDTH and not nested):
        return [short]
    return [start, *(line for name, member in value.items() for line in _lines(name, member, depth + 1))]
