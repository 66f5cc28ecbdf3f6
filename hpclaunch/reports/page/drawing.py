"""Draws the figures of a page: as SVG in the colours of the page, and as files; it computes nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpclaunch.core.records import record
from hpclaunch.reports.charts.canvas import new_figure, save, style, svg_text
from hpclaunch.reports.charts.study_chart import Panel, draw_panel
from hpclaunch.reports.page.model import Figure, HeatMap, Span, Timeline, Tone

WIDTH, HEIGHT = 5.0, 2.7
"""Inches of one panel. A phone shows it at its own size, so that its text can be read."""
_ROW, _LEFT = 0.24, 0.85
"""Inches of a row of a time line, and left of all axes."""
_LEGEND = 68
"""Characters in a line of the legend."""
_LEGEND_STYLE = {"fontsize": 8, "loc": "upper left", "borderaxespad": 0.0, "columnspacing": 1.2, "handlelength": 1.8}
_INK, _QUIET, _RULE, _ON = "#1b1f24", "#57606a", "#d0d7de", "#fefefe"
_SERIES = ("#0b62ad", "#b54708", "#1a7f37", "#8250df", "#bf3989", "#636c76")
"""Each has a contrast of 4.5 against white; page.css has colours of the same names for a dark page."""
_NAMES = {_INK: "ink", _QUIET: "quiet", _RULE: "rule", _ON: "on", "#808080": "quiet"}
_NAMES |= {colour: f"s{place}" for place, colour in enumerate(_SERIES, start=1)}
_TONES: dict[Tone, str] = {"plain": _SERIES[0], "good": _SERIES[2], "warning": _SERIES[1], "bad": "#bf3989"}
LINES = ("-", "--", "-.", ":")
"""The styles of lines, so that curves differ without colours, too."""
_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.color": _INK,
    "text.parse_math": False,  # the name of a metric is no formula
    "text.usetex": False,
    "axes.edgecolor": _QUIET,
    "axes.labelcolor": _INK,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": f"cycler('color', {list(_SERIES)})",
    "grid.color": _RULE,
    "grid.linewidth": 0.6,
    "xtick.color": _QUIET,
    "ytick.color": _QUIET,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "lines.linewidth": 1.5,
    "lines.markersize": 4,
    "figure.facecolor": "none",
    "legend.frameon": False,
    "legend.loc": "upper left",
    "svg.fonttype": "none",
    "image.cmap": "cividis",
}
_COLOUR = re.compile(r"(?<=: )#[0-9a-f]{6}(?=[;\"])")
_LEFT_OUT = re.compile(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", re.DOTALL)
_REFERENCE = re.compile(r"(?:url\(|href=\")#([\w-]+)")
_IDENTIFIER = re.compile(r"(?P<before><\w+(?:\s[^<>]*?)?)\sid=\"(?P<name>[^\"]*)\"")
"""An identifier in a tag: those that nothing refers to would be the same in several figures of a page."""
_ROOT = re.compile(r"<svg\b[^>]*\bviewBox=\"(?P<box>[0-9. -]+)\"[^>]*>(?P<inner>.*)</svg>", re.DOTALL)


@record
class InlineSvg:
    """The content of an ``svg`` element, and its viewBox."""

    box: str
    inner: str


def inline_svg(figure: Figure) -> InlineSvg:
    """Return a figure for a page: its colours are variables of the page's style, and its text is text.

    Matplotlib escapes all text. Raises ImportError without matplotlib.
    """
    with style(_STYLE):
        text = svg_text(_draw_figure(figure), figure.name)
    found = _ROOT.search(_LEFT_OUT.sub("", text))
    if found is None:
        raise ValueError("matplotlib wrote no svg element")
    used = set(_REFERENCE.findall(found["inner"]))
    inner = _IDENTIFIER.sub(lambda tag: tag[0] if tag["name"] in used else tag["before"], found["inner"])
    return InlineSvg(box=found["box"], inner=_COLOUR.sub(_variable, inner).strip())


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, SVG or PDF, by the name of the file, on white. Raises ImportError, OSError."""
    with style({**_STYLE, "savefig.facecolor": "white", "savefig.dpi": 200}):
        save(_draw_figure(figure), path)


def _variable(found: re.Match[str]) -> str:
    name = _NAMES.get(found[0])
    return f"var(--{name})" if name else found[0]


def _draw_figure(figure: Figure) -> Any:
    """Return matplotlib's figure: the drawings one under the other. Margins are fixed, as computing them is slow."""
    heights = [_height(drawing) for drawing in figure.drawings]
    drawn, top = new_figure(WIDTH, sum(heights), "none"), sum(heights)
    for drawing, height in zip(figure.drawings, heights, strict=True):
        top -= height
        title = drawing.title if len(heights) > 1 else ""  # else that of the page, or the caption of a paper
        if isinstance(drawing, Panel):
            _draw_panel(_axes(drawn, top, height, 0.32 + _legend_height(drawing)), replace(drawing, title=title))
        elif isinstance(drawing, HeatMap):
            _draw_heat_map(_axes(drawn, top, height, 0.32, right=1.0), replace(drawing, title=title))
        else:
            _draw_timeline(_axes(drawn, top, height, 0.32), replace(drawing, title=title))
    return drawn


def _axes(drawn: Any, bottom: float, height: float, below: float, right: float = 0.15) -> Any:
    """Return axes ``bottom`` inches above the figure's lower edge, with room for labels and so much ``below`` them."""
    width, whole = drawn.get_size_inches()
    low, high = bottom + 0.12 + below, bottom + height - 0.28
    return drawn.add_axes((_LEFT / width, low / whole, (width - _LEFT - right) / width, (high - low) / whole))


def _height(drawing: Panel | HeatMap | Timeline) -> float:
    if isinstance(drawing, Timeline):
        return 0.8 + _ROW * max(2, len({span.row for span in drawing.spans}))
    if isinstance(drawing, HeatMap):
        return min(HEIGHT + 0.02 * len(drawing.rows), 4.5)
    return HEIGHT + _legend_height(drawing)


def _names_of(panel: Panel) -> list[str]:
    """Return what the legend of a panel names; nothing for a single curve, whose name the axis has."""
    names = [series.label for series in panel.series if not series.quiet] + [label for label, _ in panel.marks]
    names += [panel.upright_name] if panel.uprights else []
    return names if len(names) > 1 else []


def _columns(names: Sequence[str]) -> int:
    """Return how many names stand beside each other below a panel."""
    longest = max(map(len, names), default=1)
    return max(1, min(3, int(_LEGEND / (longest + 8))))


def _legend_height(panel: Panel) -> float:
    names = _names_of(panel)
    return 0.17 * -(-len(names) // _columns(names)) + 0.08 if names else 0.0


def _draw_panel(axes: Any, panel: Panel) -> None:
    draw_panel(axes, panel)
    names, legend = _names_of(panel), axes.get_legend()
    if legend is not None:
        legend.remove()
    if names:
        handles, labels = axes.get_legend_handles_labels()
        below = (0, -0.38 / (axes.get_position().height * axes.figure.get_size_inches()[1]))
        axes.legend(handles, labels, ncols=_columns(names), bbox_to_anchor=below, **_LEGEND_STYLE)
    for name in panel.logarithmic:
        axis = axes.xaxis if name == "x" else axes.yaxis
        axis.set_major_formatter(lambda value, _: f"{value:g}")  # else formulas, which this style does not draw
        axis.set_minor_formatter(lambda value, _: "")
    if "x" not in panel.logarithmic and panel.kind == "curves":
        axes.locator_params(axis="x", integer=panel.x_label == "epoch")


def _draw_heat_map(axes: Any, drawing: HeatMap) -> None:
    values = [[math.nan if one is None else one for one in row] for row in drawing.values]
    first, last = drawing.columns[0], drawing.columns[-1]
    half = (last - first) / max(1, len(drawing.columns) - 1) / 2 or 0.5
    place = (first - half, last + half, len(drawing.rows) - 0.5, -0.5)
    image = axes.imshow(values, aspect="auto", interpolation="nearest", extent=place)
    box = axes.get_position()
    beside = axes.figure.add_axes((box.x1 + 0.02, box.y0, 0.03, box.height))
    bar = axes.figure.colorbar(image, cax=beside, label=drawing.unit)
    bar.solids.set_rasterized(True)  # else 256 paths
    bar.outline.set_visible(False)
    axes.grid(visible=False)
    step = math.ceil(len(drawing.rows) / 12)
    axes.set_yticks(range(0, len(drawing.rows), step), drawing.rows[::step])
    axes.locator_params(axis="x", integer=drawing.x_label == "epoch")
    axes.set(title=drawing.title, xlabel=drawing.x_label, ylabel=drawing.y_label)


def _draw_timeline(axes: Any, drawing: Timeline) -> None:
    rows = list(dict.fromkeys(span.row for span in drawing.spans))
    begin, end = min(span.begin for span in drawing.spans), max(span.end for span in drawing.spans)
    whole = max(end - begin, 1e-9)
    for span in drawing.spans:
        _draw_span(axes, span, rows.index(span.row), whole)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(begin - 0.01 * whole, end + 0.01 * whole)
    axes.grid(visible=False, axis="y")
    axes.set(title=drawing.title, xlabel=drawing.x_label)


def _draw_span(axes: Any, span: Span, row: int, whole: float) -> None:
    """Draw a bar, with its word if there is room for it; the table behind the figure has all words."""
    length = max(span.end - span.begin, 0.004 * whole)
    axes.barh(row, length, left=span.begin, height=0.7, color=_TONES[span.tone], edgecolor=_ON, linewidth=0.5)
    if length / whole > 0.019 * len(span.word):
        middle = span.begin + length / 2
        axes.text(middle, row, span.word, ha="center", va="center", fontsize=8, color=_ON, clip_on=True)
