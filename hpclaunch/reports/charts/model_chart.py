"""Draws the layers of a model as boxes, whose sizes follow the shapes of the outputs; it knows no framework."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpclaunch.core.records import record
from hpclaunch.reports.charts.canvas import import_matplotlib, new_figure, save

TALLEST, WIDEST, THINNEST = 3.0, 1.2, 0.25
"""Height of the longest side, width of the most channels and of a vector, in the units of the drawing."""
SLANT = 0.35
"""How far the depth of a box goes right and up, as a part of its length."""
GAP = 0.45
COLOURS = ("#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860", "#da8bc3", "#8c8c8c", "#ccb974", "#64b5cd")


@record
class DrawnLayer:
    """A layer: its name, its kind (the class), the shape of one sample's output, and its parameters.

    ``shape``: the sides and at last the channels, as (500, 500, 16) or (128,); empty or with 0 where it is not known.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    parameters: int


@record
class Box:
    """The front of a box and its depth, in the units of the drawing."""

    height: float
    depth: float
    width: float


def draw(layers: Sequence[DrawnLayer], path: Path, *, title: str = "") -> None:
    """Write the picture of a model, its layers from left to right in their order. A branch is drawn where it stands.

    Raises ValueError without layers, ImportError without matplotlib, OSError.
    """
    boxes = boxes_of(layers)
    import_matplotlib()
    room = sum(box.width + SLANT * box.depth + GAP for box in boxes)
    figure = new_figure(max(5.0, 0.62 * room), 5.0)
    axes = figure.add_subplot()
    left, kinds = 0.0, list(dict.fromkeys(layer.kind for layer in layers))
    for layer, box in zip(layers, boxes, strict=True):
        colour = COLOURS[kinds.index(layer.kind) % len(COLOURS)]
        _draw_box(axes, left, box, colour)
        place = (left + box.width / 2, -0.5 * TALLEST - 0.15)
        axes.text(*place, label(layer), rotation=90, ha="center", va="top", size=7, parse_math=False)
        left += box.width + SLANT * box.depth + GAP
    axes.set_xlim(-GAP, left)
    axes.set_ylim(-0.5 * TALLEST - 2.8, 0.5 * TALLEST + SLANT * TALLEST + 0.2)
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_title(title, fontsize="medium", parse_math=False)
    save(figure, path)


def boxes_of(layers: Sequence[DrawnLayer]) -> list[Box]:
    """The box of each layer: sides and channels by their square roots, vectors by their logarithms.

    Of a shape with more than two sides the first two are drawn. A layer whose shape is not known is a small cube.
    Raises ValueError without layers.
    """
    if not layers:
        raise ValueError("a model without layers has no picture")
    known = [layer.shape for layer in layers if is_known(layer.shape)]
    longest = max((side for shape in known for side in shape[:-1]), default=1)
    most = max((shape[-1] for shape in known if len(shape) > 1), default=1)
    largest = max((shape[0] for shape in known if len(shape) == 1), default=1)

    def box(shape: tuple[int, ...]) -> Box:
        if not is_known(shape):
            return Box(height=THINNEST, depth=THINNEST, width=THINNEST)
        if len(shape) == 1:
            return Box(
                height=max(THINNEST, TALLEST * math.log2(1 + shape[0]) / math.log2(1 + largest)),
                depth=THINNEST,
                width=THINNEST,
            )
        depth = TALLEST * _part(shape[1], longest) if len(shape) > 2 else THINNEST
        width = THINNEST + (WIDEST - THINNEST) * _part(shape[-1], most)
        return Box(height=TALLEST * _part(shape[0], longest), depth=depth, width=width)

    return [box(layer.shape) for layer in layers]


def is_known(shape: Sequence[int]) -> bool:
    """Whether all lengths of a shape are known."""
    return bool(shape) and all(length > 0 for length in shape)


def label(layer: DrawnLayer) -> str:
    """What stands below a box: kind, shape of the output, and parameters if there are some."""
    shape = " x ".join(str(length or "?") for length in layer.shape) or "?"
    return f"{layer.kind}  {shape}" + (f"\n{layer.parameters:,} parameters" if layer.parameters else "")


def _part(length: int, longest: int) -> float:
    """The drawn part of the longest length: its square root, since lengths differ by hundreds in most networks."""
    return max(math.sqrt(length / longest), THINNEST / TALLEST)


def _draw_box(axes: Any, left: float, box: Box, colour: str) -> None:
    """Front, top and right side; the front's middle is at the height 0."""
    low, high, right, away = -box.height / 2, box.height / 2, left + box.width, SLANT * box.depth
    front = [(left, low), (right, low), (right, high), (left, high)]
    top = [(left, high), (right, high), (right + away, high + away), (left + away, high + away)]
    side = [(right, low), (right, high), (right + away, high + away), (right + away, low + away)]
    for corners, alpha in ((front, 1.0), (top, 0.6), (side, 0.8)):
        across, up = zip(*corners, strict=True)
        axes.fill(across, up, facecolor=colour, edgecolor="black", linewidth=0.6, alpha=alpha)
