"""``plan --plot``: what is on the picture; drawn in this process, as matplotlib lists all fonts in every new home."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.core.errors import InvalidRequest, Refused
from hpclaunch.guidelines.choice import Objective
from hpclaunch.reports import plan_chart
from tests.builders import bundled_job
from tests.cli.conftest import Desk
from tests.unit.planner.questions import plan_of

if importlib.util.find_spec("matplotlib") is None:
    pytest.skip("group plot: needs matplotlib (the extra plot)", allow_module_level=True)


def texts_of(path: Path) -> list[str]:
    """Every text of an SVG file, which stands beside its outlines."""
    return re.findall(r"<!-- (.*?) -->", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("asked", "unit", "line"),
    [
        ({}, "s", "chosen: 1"),
        ({"nodes": 4}, "s", "typed: 4"),
        ({"objective": Objective(budget=1e-9)}, "s", "nearest: 1"),
        ({"settings": (("epochs", "200000"),)}, "h", "chosen: 1"),
    ],
)
def test_axes_have_units_and_the_line_says_why_it_is_there(
    asked: dict[str, Any], unit: str, line: str, tmp_path: Path
) -> None:
    plan_chart.draw(plan_of(bundled_job("cifar"), **asked), tmp_path / "plan.svg")
    texts = texts_of(tmp_path / "plan.svg")
    assert {"samples/s", "efficiency, %", f"time to the target, {unit}", "cost, node-hours"} <= set(texts)
    assert (texts.count(line), texts.count("nodes")) == (4, 4)
    assert "cifar at perlmutter (gpu40); with 80 % intervals" in texts


def test_a_single_count_shows_its_range_too(tmp_path: Path) -> None:
    plan_chart.draw(plan_of(bundled_job("cifar")), tmp_path / "plan.svg")
    bars = re.findall(r'id="LineCollection_\d+"', (tmp_path / "plan.svg").read_text(encoding="utf-8"))
    assert len(bars) == 4


def test_png_is_png_and_every_node_count_is_on_the_axis(tmp_path: Path) -> None:
    plan = plan_of()
    plan_chart.draw(plan, tmp_path / "plan.png")
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
    plan_chart.draw(plan, tmp_path / "plan.svg")
    drawn = [str(row.nodes) for row in plan.rows if row.throughput]
    assert len(drawn) > 2
    assert all(texts_of(tmp_path / "plan.svg").count(nodes) >= 4 for nodes in drawn)


def test_nothing_to_draw_and_a_place_that_cannot_be_written_say_what_next(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="nothing to draw") as refused:
        plan_chart.draw(plan_of(bundled_job("cifar"), site="vista"), tmp_path / "plan.svg")
    assert "leave --plot out" in refused.value.faults[0].next
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(Refused, match="cannot be written"):
        plan_chart.draw(plan_of(), tmp_path / "folder.svg")
    with pytest.raises(InvalidRequest, match="no known format"):
        plan_chart.check_plot(tmp_path / "plan.pdf")


def test_the_command_draws_and_tells_where(desk: Desk) -> None:
    from matplotlib import get_cachedir

    done = desk.type("plan", "cifar", "--site", "perlmutter", "--plot", "plan.svg", MPLCONFIGDIR=get_cachedir())
    assert (done.code, "the plan is drawn in plan.svg" in done.err) == (0, True)
    assert "chosen: 1" in texts_of(desk.project / "plan.svg")
