"""Matplotlib's figures, without a window and the same bytes for the same numbers; it knows no plan and no study."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hpclaunch.core.errors import Fault, InvalidRequest, Refused, without_folder

FORMATS = (".png", ".svg")


def import_matplotlib() -> None:
    """Import matplotlib with the user's settings, never with a ``matplotlibrc`` of the folder in which the user types.

    Such a file can name programs (``text.usetex``). Raises ImportError.
    """
    here = os.getcwd()
    os.chdir("/")
    try:
        import matplotlib  # noqa: F401
    finally:
        os.chdir(here)


def check_file(path: Path, flag: str) -> None:
    """Raise InvalidRequest for an unknown format, and Refused if the picture cannot be drawn or written."""
    if path.suffix.lower() not in FORMATS:
        raise InvalidRequest(Fault(where=flag, what=f"{path.name!r} has no known format", allowed=", ".join(FORMATS)))
    if not path.absolute().parent.is_dir():
        raise without_folder(path)
    need_matplotlib(flag)


def need_matplotlib(flag: str) -> None:
    """Raise Refused if the picture that a flag asks for cannot be drawn."""
    try:
        import_matplotlib()
    except ImportError:
        raise Refused(
            Fault(where=flag, what="matplotlib is not installed", next="pip install 'hpclaunch[plot]'")
        ) from None


def new_figure(width: float, height: float, layout: Any = "constrained") -> Any:
    """Return an empty figure of so many inches. With ``layout`` "none" the caller places its axes, which is fast."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


@contextmanager
def style(settings: Mapping[str, Any]) -> Iterator[None]:
    """Draw with these settings of matplotlib. A character that the font lacks becomes a box, without a message."""
    import_matplotlib()
    import matplotlib

    with matplotlib.rc_context(dict(settings)), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def save(figure: Any, path: Path) -> None:
    """Write a figure (PNG, SVG or PDF, by the name) without a date, so that it changes with its numbers only."""
    import matplotlib

    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with matplotlib.rc_context({"svg.hashsalt": "hpclaunch"}):
        figure.savefig(path, metadata=dates.get(path.suffix.lower()))


def svg_text(figure: Any, salt: str) -> str:
    """Return a figure as SVG, with identifiers that no figure of another ``salt`` has: a page has several."""
    import matplotlib

    text = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": salt}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()
