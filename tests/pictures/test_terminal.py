"""What a person sees on a terminal of 80 columns, dark and light, beside stored pictures.

``HPCLAUNCH_PICTURES=write`` stores the pictures again: look at each before you commit it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.cli.show.console import add_codes
from hpclaunch.cli.show.run_columns import EVERY_DEFAULT, fitted
from hpclaunch.cli.show.watch_frame import frame
from hpclaunch.cli.show.watch_view import View
from tests.cli.conftest import Desk, make_desk, with_slurm
from tests.cli.terminal import Terminal
from tests.pictures import drawing
from tests.unit.cli.show import test_watch_frame as screens
from tests.unit.cli.show.listed import failed, running, waiting

Image = pytest.importorskip("PIL.Image", reason="group pictures: needs Pillow, which comes with matplotlib")
pytest.importorskip("matplotlib", reason="group pictures: needs the font of matplotlib")

FOLDER = Path(__file__).parent
COLUMNS = 80
MOST_DIFFERENT = 0.01
"""The share of pixels that may differ by a fifth: another version of the font's library draws other edges."""
Styled = Sequence[Sequence[tuple[str, str]]]


def typed(root: Path, *words: str) -> list[str]:
    """The lines that a command leaves on a terminal."""
    desk = with_slurm(make_desk(root))
    desk.environment |= {"TERM": "xterm-256color"}
    environment: Mapping[str, str] = {name: text for name, text in desk.environment.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", STARTED, *words]
    terminal = Terminal(command, desk.project, {**environment, **_path_of(desk)}, (COLUMNS, 200))
    try:
        terminal.end()
    finally:
        terminal.close()
    return [line.rstrip() for line in terminal.lines()]


STARTED = """import os, sys
sys.path[:0] = os.environ.pop("CHECKOUT", "").split(":")
from hpclaunch.__main__ import main
sys.argv[0] = "hpclaunch"
main()
"""
"""Starts the code that is tested, without a PYTHONPATH, of which a submission would warn."""


def _path_of(desk: Desk) -> dict[str, str]:
    return {"CHECKOUT": desk.environment["PYTHONPATH"]} if "PYTHONPATH" in desk.environment else {}


def painted(lines: Styled) -> list[str]:
    return ["".join(add_codes(text, style) for text, style in line) for line in lines]


def status(_: Path) -> list[str]:
    table = fitted([running(), waiting(), failed()], EVERY_DEFAULT, COLUMNS)
    return painted([*table.lines, *([(note, "source")] for note in table.notes)])


def watch(_: Path) -> list[str]:
    return painted(frame(View(), screens.FEW, COLUMNS, 24))


FOLDER_OF_RUNS = ("--runs-dir", "/pscratch/ada/runs")
PLACE = ("--site", "perlmutter", "--account", "m1234", "--synthetic")
SHOWN: dict[str, Callable[[Path], list[str]]] = {
    "help": lambda root: typed(root, "--help"),
    "plan": lambda root: typed(root, "plan", "cifar", *PLACE[:4]),
    "refusal": lambda root: typed(root, "submit", "cifar", *PLACE, "--nodes", "9999", *FOLDER_OF_RUNS, "--dry-run"),
    "status": status,
    "watch": watch,
}


@pytest.mark.parametrize("name", SHOWN)
def test_the_terminal_looks_like_the_stored_pictures(tmp_path: Path, name: str) -> None:
    lines = SHOWN[name](tmp_path)
    assert lines and str(tmp_path) not in "".join(lines)
    for theme in drawing.THEMES:
        shot = drawing.picture(lines, COLUMNS, theme)
        stored = FOLDER / f"{name}-{theme}.png"
        if os.environ.get("HPCLAUNCH_PICTURES") == "write":
            shot.quantize(256, dither=Image.Dither.NONE).save(stored, optimize=True)
        before = Image.open(stored).convert("RGB")
        assert shot.size == before.size, name
        assert _difference(shot, before) <= MOST_DIFFERENT, name


def _difference(first: Any, second: Any) -> float:
    """Return the share of pixels that differ visibly."""
    from PIL import ImageChops

    counted = ImageChops.difference(first, second).convert("L").histogram()
    return float(sum(counted[51:]) / sum(counted))
