"""Sections of labelled rows as lines of a given width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hpclaunch.core.records import record

Pieces = list[tuple[str, str]]
"""(text, style) pairs; a style is ``heading``, ``label``, ``source``, ``third-party``, ``derived`` or nothing."""


@record
class Row:
    """A label and the texts beside it, each with its style, in reading order."""

    label: str
    pieces: tuple[tuple[str, str], ...]
    depth: int = 1


@record
class Section:
    """A heading and its rows."""

    title: str
    rows: tuple[Row, ...]


def lines_of(sections: Sequence[Section], width: int) -> list[Pieces]:
    """Return the card as lines of at most ``width`` columns; a longer word is not broken."""
    lines: list[Pieces] = []
    for section in sections:
        lines += [[], *_wrap([(section.title, "heading")], 0, 2, width)]
        for row in section.rows:
            lines += _row(
                row, max([0, *(len(other.label) for other in section.rows if other.depth == row.depth)]), width
            )
    return lines[1:]


def _row(row: Row, widest: int, width: int) -> list[Pieces]:
    """Return a row's lines. The texts of all rows in a section begin in the same column."""
    indent = " " * (2 * row.depth)
    column = len(indent) + min(widest, 30) + (2 if widest else 0)
    start = f"{indent}{row.label}"
    if not row.pieces:
        return [[(start, "label")]]
    begin = max(column, len(start) + 2 if row.label else 0)
    wrapped = _wrap(row.pieces, begin, column, width)
    first = wrapped[0]
    wrapped[0] = [(start, "label"), (first[0][0][len(start) :], first[0][1]), *first[1:]]
    return wrapped


def _wrap(pieces: Iterable[tuple[str, str]], first: int, column: int, width: int) -> list[Pieces]:
    """Return lines of at most ``width`` columns; the first is indented by ``first``, the rest by ``column``."""
    lines: list[Pieces] = [[(" " * first, "")]]
    used, blank = first, False
    for text, style in pieces:
        for word in text.split():
            if blank and used + 1 + len(word) > width:
                lines.append([(" " * column, "")])
                used, blank = column, False
            spaced = f" {word}" if blank else word
            if lines[-1][-1][1] == style:
                lines[-1][-1] = (lines[-1][-1][0] + spaced, style)
            else:
                lines[-1].append((spaced, style))
            used, blank = used + len(word) + blank, True
    return lines
