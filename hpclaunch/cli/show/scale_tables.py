"""Shows a scaling study, on a terminal and as ``--json``; it decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hpclaunch.actions.measuring.scale import StudyDesign
from hpclaunch.actions.measuring.scale_results import StudyResults, StudyRow, write_results
from hpclaunch.actions.measuring.scale_runs import words_of
from hpclaunch.actions.system import System
from hpclaunch.cli.show.console import say, table, warn, write_json
from hpclaunch.cli.show.profile_tables import cost_in_words
from hpclaunch.core.errors import Fault, InvalidRequest
from hpclaunch.core.units import count, format_walltime
from hpclaunch.runs.scaling_study import STUDY, ScalingStudy, load_study

MILLI = 1e3


def study_named(system: System, name: str) -> ScalingStudy:
    """Return the study in a folder, or of that name beside the runs of this project. Raises HpclaunchError."""
    for folder in (Path(name), *(runs / name for runs in system.run_folders)):
        if (folder / STUDY).is_file():
            return load_study(folder.absolute())
    what = f"{name!r} is not the folder of a study, so --nodes is missing"
    raise InvalidRequest(Fault(where="--nodes", what=what, next=f"hpclaunch scale {name} --nodes 1,2,4"))


def show_design(design: StudyDesign, as_json: bool) -> None:
    """Show the layouts of a study, each with site, limits, predicted speed and highest cost."""
    if as_json:
        write_json("scaling_design", design.to_json())
        return
    study = design.study
    kept = f"global batch {study.batch}" if study.mode == "strong" else f"{study.batch} samples per rank"
    say(f"{study.name}: {study.mode} scaling of {study.job} at {study.site}, {kept}, {count(design.repeats, 'repeat')}")
    limits = {(one.spec.layout.nodes, one.spec.layout.tasks_per_node): one.spec for one in design.prepared}
    for point in study.points:
        spec = limits[point.shape]
        cost = cost_in_words(spec.cost.amount, spec.cost.unit) if spec.cost else "cost unknown"
        where = " ".join(filter(None, (spec.partition, spec.qos)))
        rate = f", predicted {point.predicted[1]:.4g} samples/s" if point.predicted else ""
        limit = f"at most {format_walltime(spec.walltime)}, {cost}" if spec.walltime else cost
        say(f"  {words_of(point)}: {' '.join(filter(None, (spec.site, where)))}, {limit}{rate}")
    cost_of_all = design.cost()
    if cost_of_all:
        say(f"  all together at most {cost_in_words(*cost_of_all)}")
    for remark in design.remarks:
        say(f"  {remark}")


def show_results(results: StudyResults, plot: Path | None, as_json: bool) -> None:
    """Show the results, and write them into the study's folder: JSON, CSV and the text of a proposal."""
    from hpclaunch.reports.scaling_text import csv_text, latex_text, markdown_text

    values = results.to_json()
    has_results = any(row.measured for row in results.rows)
    texts = {"results.csv": csv_text(values)}
    if has_results:
        texts |= {"proposal.md": markdown_text(values), "proposal.tex": latex_text(values)}
    write_results(results, texts)
    if plot is not None and has_results:
        from hpclaunch.reports.charts.scaling_chart import draw_study

        draw_study(values, plot)
        say(f"the study is drawn in {plot}")
    if as_json:
        write_json("scaling_study", values)
    elif has_results:
        _show_tables(results)
    _say_state(results)


def _show_tables(results: StudyResults) -> None:
    samples = results.study.samples
    unit = next((row.point.unit for row in results.rows if row.point.unit), "")
    header = ["nodes", "ranks", "batch per rank", "samples/s", "speed-up", "efficiency", "predicted", "error"]
    header += [f"{unit}s per epoch"] if unit else []
    table(header, [_speed_cells(row, samples, with_cost=bool(unit)) for row in results.rows])
    if any(row.measured and row.measured.split for row in results.rows):
        parts = ("nodes", "ranks", "step ms", "compute", "communication", "slowest rank", "input", "other")
        table(parts, [_step_cells(row) for row in results.rows if row.measured])


def _speed_cells(row: StudyRow, samples: int, *, with_cost: bool) -> Sequence[str]:
    point, measured, scaled = row.point, row.measured, row.scaled
    parts = f" x {point.accumulation}" if point.accumulation > 1 else ""
    error, cost = row.prediction_error, row.cost_of_epoch(samples)
    rate = "-"
    if measured:
        rate = _rate(row)
    elif row.open:
        rate = f"{count(row.open, 'run')} open"
    cells = [
        str(point.nodes),
        str(point.ranks),
        f"{point.per_rank}{parts}",
        rate,
        f"{scaled.speed_up:.2f}" if scaled else "-",
        f"{scaled.efficiency:.0%}" if scaled else "-",
        f"{point.predicted[1]:.4g}" if point.predicted else "-",
        "-" if error is None else f"{error:+.0%}",
    ]
    if with_cost:
        cells.append("-" if cost is None else f"{cost:.3g}")
    return cells


def _rate(row: StudyRow) -> str:
    assert row.measured is not None
    spread = row.measured.deviation
    rate = f"{row.measured.samples_per_s:.4g}"
    return rate if spread is None else f"{rate} +- {spread:.1%}"


def _step_cells(row: StudyRow) -> Sequence[str]:
    assert row.measured is not None
    split, step = row.measured.split, row.measured.step_s
    cells = [str(row.point.nodes), str(row.point.ranks), f"{MILLI * step:.3g}"]
    if split is None:
        return [*cells, *["-"] * 5]
    parts = (split.compute_s, split.communication_s, split.waiting_s, split.input_s, step - split.total_s)
    return [*cells, *(f"{MILLI * part:.3g}" for part in parts)]


def _say_state(results: StudyResults) -> None:
    """Write what is open, what failed, what is slower than one process, and where the results are."""
    study = results.study
    for warning in results.warnings:
        warn(warning)
    for problem in results.problems:
        warn(problem)
    if results.spent is not None:
        say(f"the runs of the study have cost {cost_in_words(results.spent, results.unit)}")
    if results.place:
        say(f"stored in {results.place}; later plans use it")
    say(f"results.json, results.csv and the proposal's text (proposal.md, proposal.tex) are in {study.path}")
    if results.open:
        say(
            f"{count(results.open, 'run')} of the study have not ended; the same command shows the results\n"
            f"  hpclaunch scale {study.path} --wait"
        )
    elif results.problems:
        say("runs that failed are submitted again by the same command with --resubmit")
