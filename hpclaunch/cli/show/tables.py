"""Tables as lines for a width: no word is cut, and where the columns have no room each row is a paragraph; pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

Pieces = Sequence[tuple[str, str]]
"""A line: texts, each with the name of its style."""

_GAP = 2


def table_lines(
    header: Sequence[str], rows: Sequence[Sequence[str]], width: int, state_column: int | None = None
) -> list[Pieces]:
    """Return the lines of a table; the cell in ``state_column`` has the style of its state."""
    columns = list(zip(header, *rows, strict=True))
    widths = _widths([_longest_line(cells) for cells in columns], [_longest_word(cells) for cells in columns], width)
    if widths is None:
        return [line for row in rows for line in _paragraph(header, row, width, state_column)]
    lines = list(_row(header, widths, ["heading"] * len(header)))
    for row in rows:
        styles = [cell if number == state_column else "" for number, cell in enumerate(row)]
        lines += _row(row, widths, styles)
    return lines


def _longest_line(cells: Sequence[str]) -> int:
    return max((len(line) for cell in cells for line in cell.split("\n")), default=0)


def _longest_word(cells: Sequence[str]) -> int:
    return max((len(word) for cell in cells for word in cell.split()), default=0)


def _widths(natural: Sequence[int], least: Sequence[int], width: int) -> list[int] | None:
    """Return the columns' widths: what they need, or at least their longest words; None if there is no room for these.

    What is left beyond the longest words goes first to the columns that need little more.
    """
    room = width - _GAP * (len(natural) - 1)
    if sum(natural) <= room:
        return list(natural)
    widths, left = list(least), room - sum(least)
    if left < 0:
        return None
    by_need = sorted(range(len(widths)), key=lambda number: natural[number] - least[number])
    for place, number in enumerate(by_need):
        more = min(natural[number] - least[number], left // (len(by_need) - place))
        widths[number] += more
        left -= more
    return widths


def _row(cells: Sequence[str], widths: Sequence[int], styles: Sequence[str]) -> Iterator[Pieces]:
    wrapped = [_wrap(cell, width) for cell, width in zip(cells, widths, strict=True)]
    for number in range(max(map(len, wrapped))):
        line: list[tuple[str, str]] = []
        for column, (parts, width, style) in enumerate(zip(wrapped, widths, styles, strict=True)):
            text = parts[number] if number < len(parts) else ""
            is_last = column == len(widths) - 1
            line += [(text, style), ("" if is_last else " " * (width - len(text) + _GAP), "")]
        yield line


def _paragraph(header: Sequence[str], row: Sequence[str], width: int, state_column: int | None) -> Iterator[Pieces]:
    """Yield a row as lines: its first cell, then every other one behind the name of its column."""
    yield [(row[0], "heading")]
    for number, (title, cell) in enumerate(zip(header, row, strict=True)):
        if number == 0 or not cell:
            continue
        first, *further = _wrap(cell, width - len(title) - 4)
        yield [(f"  {title}: ", "label"), (first, cell if number == state_column else "")]
        yield from ([(" " * (len(title) + 4) + text, "")] for text in further)


def _wrap(cell: str, width: int) -> list[str]:
    lines = [
        part
        for line in cell.split("\n")
        for part in textwrap.wrap(line, max(width, 1), break_long_words=False, break_on_hyphens=False)
    ]
    return lines or [""]
