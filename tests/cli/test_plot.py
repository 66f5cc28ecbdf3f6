"""``plan --plot``: what is on the picture; drawn in this process, as matplotlib lists all fonts in every new home."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.core.errors import InvalidRequest, Refused
from hpclaunch.guidelines.choice import Objective
from hpclaunch.guidelines.efficiency import NoiseScale
from hpclaunch.guidelines.noise_table import TABLE
from hpclaunch.planner.job.question import Evidence
from hpclaunch.planner.values import Forecast
from hpclaunch.reports.charts import node_panels, plan_chart
from tests.builders import bundled_job
from tests.cli.conftest import Desk
from tests.unit.planner.questions import a_trained_job, plan_of

if importlib.util.find_spec("matplotlib") is None:
    pytest.skip("group plot: needs matplotlib (the extra plot)", allow_module_level=True)


def texts_of(path: Path) -> list[str]:
    """Every text of an SVG file, which stands beside its outlines."""
    return re.findall(r"<!-- (.*?) -->", path.read_text(encoding="utf-8"))


def size_of(plan: Forecast) -> str:
    """The chosen size as the axes name it: a node count, or the GPUs of a shared node."""
    chosen, most = plan.chosen, max(row.ranks / row.nodes for row in plan.rows)
    assert chosen is not None
    return str(chosen.nodes) if chosen.ranks == most * chosen.nodes else f"{chosen.ranks}/{most:.0f}"


@pytest.mark.parametrize(
    ("asked", "word"),
    [({}, "chosen"), ({"nodes": 4}, "typed"), ({"objective": Objective(budget=1e-9)}, "nearest")],
)
@pytest.mark.parametrize("epochs", ["1", "1000", "30000"])
def test_axes_have_units_and_the_line_says_why_it_is_there(
    asked: dict[str, Any], word: str, epochs: str, tmp_path: Path
) -> None:
    plan = plan_of(bundled_job("cifar"), settings=(("epochs", epochs),), **asked)
    times = [row.candidate.time_s.middle for row in plan.rows if row.candidate]
    longest = max(times)
    unit = "days" if longest >= 2 * 86400 else "h" if longest >= 7200 else "min" if longest >= 120 else "s"
    time = f"time to the target, {unit}" if longest <= 20 * min(times) else "time to the target (logarithmic)"
    rates = [row.throughput.samples_per_s.middle for row in plan.rows if row.throughput]
    rate = "samples/s" if max(rates) <= 20 * min(rates) else "samples/s (logarithmic)"
    line = f"{word}: {size_of(plan)}"
    plan_chart.draw(plan, tmp_path / "plan.svg")
    texts = texts_of(tmp_path / "plan.svg")
    assert {rate, "efficiency, %", time, "cost, node-hours"} <= set(texts)
    assert (texts.count(line), texts.count("nodes")) == (4, 4)
    assert "cifar at perlmutter (gpu40); with 80 % intervals" in texts


@pytest.mark.parametrize(("job", "scale"), [("cosmoflow", "log"), ("cifar", "linear")])
def test_every_point_is_inside_its_panel_and_the_axis_is_named(job: str, scale: str) -> None:
    """A logarithmic axis that began at 0 once pressed all times into one line at the top."""
    from matplotlib.figure import Figure

    plan = plan_of(bundled_job(job))
    for panel in (node_panels.time, node_panels.frontier, node_panels.cost, node_panels.throughput):
        axes: Any = Figure().subplots()
        panel(axes, plan)
        for axis, limits in ((axes.yaxis, axes.get_ylim()), (axes.xaxis, axes.get_xlim())):
            marks = [mark for mark in axis.get_majorticklocs() if limits[0] <= mark <= limits[1]]
            assert len(marks) >= min(2, len(node_panels.points_of(plan))), panel.__name__
        points = axes.transLimits.transform(axes.transScale.transform(axes.lines[0].get_xydata()))
        assert ((points >= 0) & (points <= 1)).all(), panel.__name__
    axes = Figure().subplots()
    node_panels.time(axes, plan)
    assert axes.get_yscale() == scale
    if scale == "log":
        heights = axes.transLimits.transform(axes.transScale.transform(axes.lines[0].get_xydata()))[:, 1]
        assert max(heights) - min(heights) > 0.5


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
        plan_chart.draw(plan_of(a_trained_job({})), tmp_path / "plan.svg")
    assert "leave --plot out" in refused.value.faults[0].next
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(Refused, match="cannot be written"):
        plan_chart.draw(plan_of(), tmp_path / "folder.svg")
    with pytest.raises(InvalidRequest, match="no known format"):
        plan_chart.check_plot(tmp_path / "plan.pdf", "nodes")
    with pytest.raises(InvalidRequest, match="'pareto' is not allowed") as unknown:
        plan_chart.check_plot(tmp_path / "plan.svg", "pareto")
    assert unknown.value.faults[0].allowed == "nodes, frontier, gradient, steps, noise, all"


NOISE = NoiseScale(value=900, low=700, high=1200, steps=2000)
BATCH = "global batch size, samples"


def panels(plan: Forecast, kind: str) -> list[Any]:
    return list(plan_chart.figure_of(plan, kind).axes)


def series(axes: Any, label: str) -> list[tuple[float, float]]:
    """The points of the line with this label in the legend."""
    (line,) = [line for line in axes.lines if line.get_label() == label]
    return list(zip(map(float, line.get_xdata()), map(float, line.get_ydata()), strict=True))


def bars(axes: Any) -> list[tuple[float, float, float]]:
    """(nodes, low, high) of every error bar."""
    _, _, (segments,) = axes.containers[0]
    return [(float(low[0]), float(low[1]), float(high[1])) for low, high in segments.get_segments()]


@pytest.mark.parametrize(
    ("kind", "axes"),
    [
        ("frontier", {("steps to the target (time)", "samples to process (compute)")}),
        ("gradient", {(BATCH, "error of the gradient, relative"), (BATCH, "progress of a step, relative to the most")}),
        ("steps", {(BATCH, "steps to the target")}),
        ("noise", {("gradient noise scale", "critical batch size")}),
        ("nodes", {("nodes", "samples/s (logarithmic)"), ("nodes", "efficiency, %"), ("nodes", "cost, node-hours")}),
    ],
)
def test_every_kind_has_its_panels_and_all_has_them_all(kind: str, axes: set[tuple[str, str]]) -> None:
    plan = plan_of()
    drawn = [(panel.get_xlabel(), panel.get_ylabel()) for panel in panels(plan, kind)]
    assert axes <= set(drawn)
    assert set(drawn) <= {(panel.get_xlabel(), panel.get_ylabel()) for panel in panels(plan, "all")}
    assert all(panel.get_legend().get_texts() for panel in panels(plan, kind))


def test_time_and_cost_against_nodes_are_those_of_the_table() -> None:
    plan = plan_of()
    runs = [row.candidate for row in plan.rows if row.candidate]
    _, _, time, cost = panels(plan, "nodes")
    assert time.get_ylabel() == "time to the target (logarithmic)"
    unit = 1.0  # a logarithmic axis names times, and counts seconds
    at = [row.ranks / 4 for row in plan.rows if row.candidate]
    expected = [(nodes, run.time_s.low / unit, run.time_s.high / unit) for nodes, run in zip(at, runs, strict=True)]
    assert bars(time) == [pytest.approx(one) for one in expected]
    costs = [(nodes, run.cost.low, run.cost.high) for nodes, run in zip(at, runs, strict=True)]
    assert bars(cost) == [pytest.approx(one) for one in costs]
    frontier = panels(plan, "frontier")[1]
    middles = {(float(bar.lines[0].get_xdata()[0]), float(bar.lines[0].get_ydata()[0])) for bar in frontier.containers}
    assert middles == {(run.time_s.middle / unit, run.cost.middle) for run in runs}


def test_steps_follow_the_law_and_leave_perfect_scaling_beyond_it() -> None:
    plan = plan_of(bundled_job("cosmoflow"), nodes=64)
    (axes,) = panels(plan, "steps")
    assert plan.efficiency is not None and plan.chosen is not None and plan.chosen.batch is not None
    law, samples = plan.efficiency.epochs_model, plan.efficiency.samples
    curve = series(axes, "E_min (1 + B / B_crit) epochs")
    assert all(steps == pytest.approx(law.at(batch).middle * samples / batch) for batch, steps in curve)
    perfect = series(axes, "perfect scaling")
    assert [steps * batch for batch, steps in perfect] == [pytest.approx(perfect[0][0] * perfect[0][1])] * len(perfect)
    assert curve[0] == pytest.approx(perfect[0]) and curve[-1][1] > 2 * perfect[-1][1]
    assert [batch for batch, _ in series(axes, "this plan's counts")] == sorted(
        {row.batch.total for row in plan.rows if row.batch}
    )
    assert series(axes, f"this plan: B = {plan.chosen.batch.total}")[0][0] == plan.chosen.batch.total


def test_the_frontier_is_compute_against_time() -> None:
    plan = plan_of(bundled_job("cosmoflow"))
    law, _ = panels(plan, "frontier")
    assert plan.efficiency is not None and plan.chosen is not None and plan.chosen.batch is not None
    batch, epochs = plan.chosen.batch.total, plan.efficiency.epochs_model.at(plan.chosen.batch.total).middle
    ((steps, samples),) = series(law, f"this plan: B = {batch}")
    assert (steps * batch, samples) == (pytest.approx(samples), pytest.approx(epochs * plan.efficiency.samples))


@pytest.mark.parametrize(("noise", "at"), [(NOISE, 900.0), (None, 15_000.0)])
def test_the_gradient_of_a_batch_as_large_as_the_noise_scale_is_half_noise(noise: NoiseScale | None, at: float) -> None:
    plan = plan_of(evidence=Evidence(noise=noise))
    error, speed = panels(plan, "gradient")
    for batch, relative in series(error, "error of the gradient"):
        assert relative == pytest.approx((at / batch) ** 0.5)
    for batch, progress in series(speed, "progress of a step"):
        assert progress == pytest.approx(1 / (1 + at / batch))
    words = "noise scale = 900, measured" if noise else "noise scale taken as B_crit = 15000, by default"
    assert series(speed, words) == [(at, 0.5)]


def test_the_noise_scales_of_published_tasks_stand_beside_the_jobs_own() -> None:
    (axes,) = panels(plan_of(evidence=Evidence(noise=NOISE)), "noise")
    assert series(axes, "McCandlish et al. 2018") == [(row.noise, row.critical) for row in TABLE]
    assert {row.task for row in TABLE} <= {text.get_text() for text in axes.texts}
    words = {text.get_text() for text in axes.get_legend().get_texts()}
    assert "train, measured" in words
    (unmeasured,) = panels(plan_of(), "noise")
    assert "train: B_crit = 15000, by default" in {text.get_text() for text in unmeasured.get_legend().get_texts()}


def test_the_command_draws_and_tells_where(desk: Desk) -> None:
    from matplotlib import get_cachedir

    done = desk.type("plan", "cifar", "--site", "perlmutter", "--plot", "plan.svg", MPLCONFIGDIR=get_cachedir())
    assert (done.code, "the plan is drawn in plan.svg" in done.err) == (0, True)
    assert any(text.startswith("chosen: 1") for text in texts_of(desk.project / "plan.svg"))


def test_short_times_are_told_apart_beside_days() -> None:
    from matplotlib.figure import Figure  # heavy

    wide, narrow = plan_of(bundled_job("cosmoflow")), plan_of(bundled_job("cifar"))
    for plan, scale in ((wide, "log"), (narrow, "linear")):
        time, frontier = Figure().subplots(1, 2)
        node_panels.time(time, plan)
        node_panels.frontier(frontier, plan)
        assert (time.get_yscale(), frontier.get_xscale()) == (scale, scale)
