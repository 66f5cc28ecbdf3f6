"""The pictures of the studies in the docs show the committed results: the reports draw them again, the same."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BENCHMARKS, DOCS = ROOT / "benchmarks", ROOT / "docs"
if not BENCHMARKS.is_dir():
    pytest.skip("group checkout: an sdist holds no benchmarks", allow_module_level=True)
try:
    from matplotlib import __version__ as matplotlib_version
except ImportError:
    pytest.skip("group plot: needs matplotlib (the extra plot)", allow_module_level=True)
DRAWN_BY = re.findall(r"Matplotlib v([\d.]+),", (DOCS / "large_batches.svg").read_text())
if [matplotlib_version] != DRAWN_BY:
    pytest.skip(f"group plot: the pictures were drawn by matplotlib {DRAWN_BY}", allow_module_level=True)

OF_STUDIES = {path.name for path in (DOCS / "pictures").glob("*.svg")} - {"plan-cosmoflow.svg"}
STUDIES = {
    "critical_batch.py --report": {"critical_batch_noise.svg", "critical_batch_steps.svg"},
    "guidelines.py report": {"guidelines_figure_4.svg", "guidelines_figure_5.svg", "guidelines_updates.svg"},
    "hours_to_minutes.py --report": {"chips-model.svg", "hours-to-minutes-use.svg", "hours-to-minutes.svg"},
    "notebook3.py --report": {"notebook3.svg"},
    "parallel_training.py --report": {"parallel_training.svg"},
    "sharpness.py --report": {"sharpness.svg"},
    "universes.py --report": {"universes.svg"},
}
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
NAME = re.compile(r"\b[pm][0-9a-f]{10}\b")
"""Of a clip path or a marker, which matplotlib makes from coordinates."""


@pytest.mark.parametrize("words", STUDIES)
def test_the_pictures_of_a_study_show_its_results(words: str, tmp_path: Path) -> None:
    program, *more = words.split()
    run(BENCHMARKS / "reference" / program, *more, "--pictures", str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == STUDIES[words]
    for path in sorted(tmp_path.iterdir()):
        same(path, DOCS / "pictures" / path.name)


def test_the_picture_of_large_batches_shows_its_results(tmp_path: Path) -> None:
    run(BENCHMARKS / "large_batch" / "report.py", "--plot", str(tmp_path / "large_batches.svg"))
    same(tmp_path / "large_batches.svg", DOCS / "large_batches.svg")


def test_every_picture_is_of_a_study() -> None:
    assert set().union(*STUDIES.values()) == OF_STUDIES


@pytest.mark.parametrize(
    ("other", "fits"),
    [
        ("<path clip-path='url(#pabcdef0123)' d='M 1.501 2'/>", True),
        ("<path clip-path='url(#p0123456789)' d='M 1.6 2'/>", False),
        ("<path clip-path='url(#p0123456789)' d='L 1.5 2'/>", False),
        ("<path clip-path='url(#p0123456789)' d='M 1.5 2 3'/>", False),
    ],
)
def test_another_number_is_another_picture(tmp_path: Path, other: str, fits: bool) -> None:
    one, two = tmp_path / "one.svg", tmp_path / "two.svg"
    one.write_text("<path clip-path='url(#p0123456789)' d='M 1.5 2'/>")
    two.write_text(other)
    with contextlib.nullcontext() if fits else pytest.raises(AssertionError):
        same(one, two)


def run(program: Path, *words: str) -> None:
    done = subprocess.run([sys.executable, str(program), *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def same(drawn: Path, committed: Path) -> None:
    """Fail if two pictures differ by more than the last digits of a coordinate, which another processor rounds."""
    numbers, rest = parts(drawn.read_text())
    expected, expected_rest = parts(committed.read_text())
    assert rest == expected_rest, f"draw {committed.name} again: the results or matplotlib are others"
    assert numbers == pytest.approx(expected, abs=0.01), f"draw {committed.name} again: the results are others"


def parts(svg: str) -> tuple[list[float], str]:
    """The numbers of a picture, and all that is between them."""
    named = NAME.sub("NAME", svg)
    return [float(one) for one in NUMBER.findall(named)], NUMBER.sub("N", named)
