"""Draws what a terminal shows as a picture, letter by letter: without a display and a browser, always the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_CELL = (8, 17)
_SIZE, _MARGIN = 13, 10
_SEQUENCE = re.compile("\x1b\\[([0-9;]*)m")
THEMES = {
    "light": {"paper": "#ffffff", "ink": "#1f2328", "2": "#6e7781"},
    "dark": {"paper": "#0d1117", "ink": "#e6edf3", "2": "#8b949e"},
}
_COLOURS = {
    "light": {"31": "#cf222e", "32": "#116329", "33": "#7d4e00", "36": "#0a5d66"},
    "dark": {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "36": "#76e3ea"},
}


def picture(lines: Sequence[str], columns: int, theme: str) -> Any:
    """Return a picture of lines with the codes of their styles; what is beyond the columns goes on below, as there."""
    from PIL import Image, ImageDraw, ImageFont

    rows = [row for line in lines for row in _rows(line, columns)]
    size = (2 * _MARGIN + columns * _CELL[0], 2 * _MARGIN + len(rows) * _CELL[1])
    colours = {**THEMES[theme], **_COLOURS[theme]}
    shot = Image.new("RGB", size, colours["paper"])
    draw = ImageDraw.Draw(shot)
    fonts = {
        weight: ImageFont.truetype(_font(weight), _SIZE, layout_engine=ImageFont.Layout.BASIC)
        for weight in ("", "-Bold")
    }
    for number, row in enumerate(rows):
        for column, (sign, codes) in enumerate(row):
            place = (_MARGIN + column * _CELL[0], _MARGIN + number * _CELL[1])
            ink = next((colours[code] for code in codes if code in colours), colours["ink"])
            if "7" in codes:
                draw.rectangle((*place, place[0] + _CELL[0] - 1, place[1] + _CELL[1] - 1), fill=ink)
                ink = colours["paper"]
            draw.text(place, sign, font=fonts["-Bold" if "1" in codes else ""], fill=ink)
    return shot


def _rows(line: str, columns: int) -> list[list[tuple[str, list[str]]]]:
    """Return the signs of a line with the codes that hold there, a row for every width of the terminal."""
    cells: list[tuple[str, list[str]]] = []
    codes: list[str] = []
    for number, part in enumerate(_SEQUENCE.split(line)):
        if number % 2:
            codes = [] if part in ("", "0") else [*codes, *part.split(";")]
        else:
            cells += [(sign, codes) for sign in part]
    return [cells[start : start + columns] for start in range(0, max(len(cells), 1), columns)]


def _font(weight: str) -> str:
    """Return the file of a font that comes with matplotlib."""
    import matplotlib

    return str(Path(matplotlib.get_data_path(), "fonts", "ttf", f"DejaVuSansMono{weight}.ttf"))
