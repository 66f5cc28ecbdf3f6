"""Pictures of studies: what stands in them, and that the same numbers give the same bytes.

They are drawn here and not in `unit/`, because matplotlib starts a program that lists fonts.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from hpclaunch.reports.charts.study_chart import Panel, Series, draw

if importlib.util.find_spec("matplotlib") is None:
    pytest.skip("group plot: needs matplotlib (the extra plot)", allow_module_level=True)

CURVES = Panel(
    title="steps",
    x_label="batch size",
    y_label="steps to the target",
    series=(
        Series(label="measured", x=(64, 128, 256), y=(900, 500, 300), low=(880, 490, 290), high=(920, 510, 310)),
        Series(label="perfect scaling", x=(64, 256), y=(900, 225), line="--"),
    ),
    logarithmic="xy",
    marks=(("published", 400.0),),
)
BARS = Panel(
    title="speed-up",
    x_label="ranks",
    y_label="times one rank",
    kind="bars",
    series=(
        Series(label="shards", x=("1", "2"), y=(1.0, 1.9), low=(1.0, 1.8), high=(1.0, 2.0)),
        Series(label="generator", x=("1", "2"), y=(1.0, 1.7)),
    ),
)


def test_a_picture_names_its_axes_curves_and_groups(tmp_path: Path) -> None:
    path = tmp_path / "study.svg"
    draw([CURVES, BARS], path, title="A study")
    # Matplotlib writes text as paths, each with the text as a comment.
    text = path.read_text(encoding="utf-8")
    for words in ("A study", "steps to the target", "perfect scaling", "published", "speed-up", "shards", "generator"):
        assert f"<!-- {words} -->" in text, words


def test_the_same_numbers_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("first.svg", "second.svg"):
        draw([BARS, CURVES], tmp_path / name)
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "second.svg").read_bytes()


def test_more_panels_than_columns_make_rows(tmp_path: Path) -> None:
    for number, columns in ((1, 2), (3, 2)):
        draw([CURVES] * number, tmp_path / f"{number}.png", columns=columns)
        assert (tmp_path / f"{number}.png").read_bytes().startswith(b"\x89PNG")


def test_points_have_their_names_beside_them(tmp_path: Path) -> None:
    points = Series(label="published", x=(900, 4000), y=(200, 500), line="", names=("MNIST", "SVHN"))
    path = tmp_path / "points.svg"
    draw([Panel(title="noise", x_label="noise scale", y_label="critical batch", series=(points,))], path)
    for words in ("MNIST", "SVHN"):
        assert f"<!-- {words} -->" in path.read_text(encoding="utf-8"), words


def test_stacked_bars_stand_on_each_other(tmp_path: Path) -> None:
    stacked = Panel(
        title="parts of a step",
        x_label="ranks",
        y_label="ms",
        kind="stacked",
        series=(
            Series(label="compute", x=("1", "4"), y=(10.0, 5.0)),
            Series(label="input", x=("1", "4"), y=(2.0, 1.0)),
        ),
    )
    draw([stacked], tmp_path / "stacked.svg")
    text = (tmp_path / "stacked.svg").read_text(encoding="utf-8")
    assert all(f"<!-- {words} -->" in text for words in ("parts of a step", "compute", "input", "ranks"))
