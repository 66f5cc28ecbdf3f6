"""The parts of a page as plain values: sections with sentences, tables, scripts and figures; it draws nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import ClassVar, Literal

from hpclaunch.core.records import record
from hpclaunch.reports.charts.study_chart import Panel

Value = str | float | int | None
"""A cell of a table; None: not measured."""
Tone = Literal["plain", "good", "warning", "bad"]


@record
class Fact:
    """One named value, and who chose it or where it comes from (``origin``, may be empty)."""

    name: str
    value: str
    origin: str = ""


@record
class Sentence:
    """One paragraph. ``tone``: how serious it is; the page adds a word for it, never a colour alone."""

    kind: ClassVar[str] = "sentence"
    text: str
    tone: Tone = "plain"


@record
class Facts:
    """A table of named values with a title."""

    kind: ClassVar[str] = "facts"
    title: str
    rows: tuple[Fact, ...]
    folded: bool = False

    @property
    def has_origins(self) -> bool:
        """Whether any value names its origin."""
        return any(row.origin for row in self.rows)


@record
class Listing:
    """A table with a title and several columns; the first cell of a row is its header."""

    kind: ClassVar[str] = "listing"
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    folded: bool = False


@record
class CodeText:
    """Text in a fixed width, such as a script, a command or the end of a log."""

    kind: ClassVar[str] = "code"
    title: str
    text: str
    folded: bool = False


@record
class HeatMap:
    """A matrix in colours: a row for each of ``rows``, a column at each of ``columns``. None: not measured."""

    title: str
    x_label: str
    y_label: str
    unit: str
    columns: Sequence[float]
    rows: Sequence[str]
    values: Sequence[Sequence[float | None]]


@record
class Span:
    """A bar of a time line, from ``begin`` to ``end`` (in the axis's unit), with the word that stands in it."""

    row: str
    begin: float
    end: float
    word: str
    tone: Tone = "plain"


@record
class Timeline:
    """Bars over time, one row under the other. ``x_label`` has the unit."""

    title: str
    x_label: str
    spans: Sequence[Span]


Drawing = Panel | HeatMap | Timeline


@record
class Figure:
    """A picture, the sentence that describes it, and all of its data.

    ``name``: of its files; small letters, digits and ``-``. ``rows``: complete, although the picture and the table on
    the page may have fewer points.
    """

    kind: ClassVar[str] = "figure"
    name: str
    title: str
    words: str
    drawings: tuple[Drawing, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


Block = Sentence | Facts | Listing | CodeText | Figure


@record
class PageSection:
    """A part of a page with its heading. ``name``: of its anchor."""

    name: str
    title: str
    blocks: tuple[Block, ...]

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Its figures, in their order."""
        return tuple(block for block in self.blocks if isinstance(block, Figure))


@record
class Page:
    """A whole page. ``made``: when, as text. ``sources``: the run directories that it was made from."""

    title: str
    state: str
    tone: Tone
    lead: str
    key_figures: tuple[Fact, ...]
    sections: tuple[PageSection, ...]
    made: str
    version: str
    sources: tuple[str, ...] = field(default=())

    @property
    def figures(self) -> tuple[Figure, ...]:
        """All figures, in their order."""
        return tuple(figure for section in self.sections for figure in section.figures)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The sentences that warn."""
        blocks = (block for section in self.sections for block in section.blocks)
        return tuple(block.text for block in blocks if isinstance(block, Sentence) and block.tone in ("warning", "bad"))
