"""A page as one HTML file that needs no network and no script; the second door of Jinja (decision 55).

The template escapes everything. Only what matplotlib drew is put in as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from hpclaunch.reports.page.amounts import readable, short
from hpclaunch.reports.page.drawing import InlineSvg, inline_svg
from hpclaunch.reports.page.model import Page, Tone, Value
from hpclaunch.reports.page.thinning import MOST_ROWS, thin_rows

_FOLDER = Path(__file__).parent
GENERATOR = '<meta name="generator" content="hpclaunch report">'
"""By this line hpclaunch knows a page that it made itself, and may write again."""
LARGEST = 10**6
"""Bytes of a page."""
_ROOM_OF_FIGURES = 650_000
"""Characters of all drawings together; the rest is for texts and tables."""
_WORDS: Mapping[Tone, str] = {"plain": "", "good": "Good: ", "warning": "Warning: ", "bad": "Failure: "}
_LONGEST_CELL = 600
_MOST_COLUMNS = 12
"""Columns of a table behind a figure; the CSV file has all."""


def html_of(page: Page) -> str:
    """Return the page as HTML of at most ``LARGEST`` bytes. Raises ImportError without matplotlib.

    Figures that would make it larger are not drawn, and the page says so; then tables get fewer rows.
    """
    figures = _figures_with_room(page)
    pages = (_render(page, figures, most_rows) for most_rows in (MOST_ROWS, MOST_ROWS // 4, 2))
    return next((text for text in pages if len(text.encode("utf-8")) <= LARGEST), "") or _render(page, {}, 2)


def _figures_with_room(page: Page) -> dict[str, InlineSvg]:
    """Return the figures that have room on the page, by name."""
    room, drawn = _ROOM_OF_FIGURES, {}
    for figure in page.figures:
        svg = inline_svg(figure)
        room -= len(svg.inner)
        if room >= 0:
            drawn[figure.name] = svg
    return drawn


def _render(page: Page, figures: Mapping[str, InlineSvg], most_rows: int) -> str:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(cell=_cell, text=readable)
    template = environment.get_template("page.html.j2")
    style = Markup((_FOLDER / "page.css").read_text(encoding="utf-8"))
    return template.render(
        page=page,
        style=style,
        generator=Markup(GENERATOR),
        svg={name: _trusted_svg(svg) for name, svg in figures.items()},
        words=_WORDS,
        rows=lambda rows: thin_rows(rows, most_rows),
        most_columns=_MOST_COLUMNS,
    )


def _trusted_svg(svg: InlineSvg) -> tuple[str, Markup]:
    return svg.box, Markup(svg.inner)


def _cell(value: Value) -> str:
    """Return a cell of a table as text; ``-`` for what was not measured."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-" if value is None else "nan"
    if isinstance(value, str):
        return readable(value if len(value) <= _LONGEST_CELL else f"{value[:_LONGEST_CELL]}…")
    return short(value)
