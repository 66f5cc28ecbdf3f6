"""The page of a scaling study, from its results; it reads nothing and computes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hpclaunch.core.json_values import finite
from hpclaunch.core.units import count
from hpclaunch.reports.charts.scaling_chart import PARTS, panels_of
from hpclaunch.reports.charts.study_chart import Panel
from hpclaunch.reports.page.amounts import percent, short, time_in_words
from hpclaunch.reports.page.model import (
    Block,
    CodeText,
    Fact,
    Facts,
    Figure,
    Listing,
    Page,
    PageSection,
    Sentence,
    Value,
)
from hpclaunch.reports.page.run_page import with_unique_names
from hpclaunch.reports.page.sections.curves import file_name
from hpclaunch.runs.scaling_study import ScalingStudy

_COLUMNS = {
    "nodes": "nodes",
    "ranks": "ranks",
    "global_batch": "global batch",
    "samples_per_s": "samples/s",
    "speed_up": "speed-up",
    "efficiency": "efficiency",
    "predicted": "predicted samples/s",
    "prediction_error": "error of the prediction",
    "cost_of_epoch": "cost of an epoch",
}
"""Key of a row -> the name of its column."""
_SHARES = ("efficiency", "prediction_error")


def study_page(study: ScalingStudy, results: Mapping[str, Any], now: float, version: str) -> Page:
    """Return the page of a study. ``results``: the content of its results.json; empty before there are any."""
    recorded, open_runs = results.get("rows"), finite(results.get("open"))
    rows = [row for row in recorded if isinstance(row, dict)] if isinstance(recorded, list) else []
    state = "INCOMPLETE"
    if results.get("complete") is True:
        state = "COMPLETE"
    elif open_runs:
        state = "RUNS ARE OPEN"
    kept = "global batch" if study.mode == "strong" else "batch per rank"
    return Page(
        title=study.name,
        state=state,
        tone="good" if state == "COMPLETE" else "warning",
        lead=f"{study.mode} scaling of {study.job} at {study.site} on {study.node_type} nodes; {kept} {study.batch:,}.",
        key_figures=_key_figures(rows, results),
        sections=with_unique_names(
            [_warnings(results), _layouts(rows), _figures_section(rows), _asked_section(study), _repeat(study)]
        ),
        made=time_in_words(now),
        version=version,
        sources=(str(study.path),),
    )


def _key_figures(rows: Sequence[Mapping[str, Any]], results: Mapping[str, Any]) -> tuple[Fact, ...]:
    facts = [Fact(name="layouts", value=str(len(rows)))]
    known = [row for row in rows if finite(row.get("speed_up")) is not None]
    if known:
        best = max(known, key=lambda row: finite(row["speed_up"]) or 0.0)
        facts.append(Fact(name="largest speed-up", value=f"{short(best['speed_up'])} on {best.get('ranks')} ranks"))
        efficiency = finite(best.get("efficiency"))
        facts += [Fact(name="its efficiency", value=percent(efficiency))] if efficiency is not None else []
    spent = finite(results.get("spent"))
    if spent is not None:
        facts.append(Fact(name="cost of all runs", value=f"{short(spent)} {results.get('unit', '')}s"))
    return tuple(facts)


def _warnings(results: Mapping[str, Any]) -> PageSection:
    def texts(name: str) -> list[str]:
        found = results.get(name)
        return [str(text) for text in found] if isinstance(found, list) else []

    blocks: list[Block] = [Sentence(text=text, tone="bad") for text in texts("problems")]
    blocks += [Sentence(text=text, tone="warning") for text in texts("warnings")]
    if results.get("synthetic") is True:
        blocks.append(Sentence(text="The samples were generated: loading real data is not part of it.", tone="warning"))
    nothing = Sentence(text="There are no warnings.", tone="good")
    return PageSection(name="warnings", title="Warnings", blocks=tuple(blocks) or (nothing,))


def _layouts(rows: Sequence[Mapping[str, Any]]) -> PageSection:
    if not rows:
        words = "There are no results yet: hpclaunch scale STUDY collects them."
        return PageSection(name="layouts", title="The layouts", blocks=(Sentence(text=words),))
    keys = [key for key in _COLUMNS if any(row.get(key) is not None for row in rows)]
    table = Listing(
        title="Each layout with what was measured",
        columns=(*(_COLUMNS[key] for key in keys), "verdict"),
        rows=tuple((*(_cell(key, row.get(key)) for key in keys), str(row.get("verdict") or "")) for row in rows),
    )
    return PageSection(name="layouts", title="The layouts", blocks=(table,))


def _cell(key: str, value: Any) -> Value:
    number = finite(value)
    if number is None:
        return None
    if key in _SHARES:
        return percent(number)
    return int(number) if isinstance(value, int) else number


def _figures_section(rows: Sequence[Mapping[str, Any]]) -> PageSection:
    """Return the figures of the study; a sentence if its results are damaged or not there."""
    try:
        panels = panels_of({"rows": rows})
    except (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError):
        panels = []
    blocks: tuple[Block, ...] = tuple(_figure(panel, rows) for panel in panels)
    none = Sentence(text="Nothing can be drawn: no layout has a speed-up.")
    return PageSection(name="figures", title="Speed-up, efficiency, parts of a step", blocks=blocks or (none,))


def _figure(panel: Panel, rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Return a panel of the study as a figure, with the data of its layouts."""
    if panel.kind == "stacked":
        divided = [row for row in rows if isinstance(row.get("split"), dict)]
        columns = ("ranks", *(name for name, _ in PARTS))
        cells = [(row.get("ranks"), *(finite(row["split"].get(name)) for name, _ in PARTS)) for row in divided]
        words = "Where the time of a step goes. The waiting for the slowest rank is part of the communication."
    else:
        columns = ("ranks", "speed_up", "efficiency", "samples_per_s", "predicted")
        cells = [(row.get("ranks"), *(finite(row.get(name)) for name in columns[1:])) for row in rows]
        words = "Measured, with the lowest and the highest run of each layout; the ideal is that of a perfect scaling."
    return Figure(
        name=file_name(panel.title),
        title=panel.title.capitalize(),
        words=words,
        drawings=(panel,),
        columns=columns,
        rows=tuple(cells),
    )


def _asked_section(study: ScalingStudy) -> PageSection:
    rows = (
        Fact(name="job", value=study.job),
        Fact(name="device of a rank", value=study.device),
        Fact(name="samples of an epoch", value=f"{study.samples:,}"),
        Fact(name="steps of an epoch, at most", value=str(study.steps)),
        Fact(name="created", value=study.created),
    )
    points = [
        (
            point.ranks,
            point.nodes,
            point.tasks_per_node,
            point.per_rank,
            point.accumulation,
            count(len(point.run_dirs), "run"),
        )
        for point in study.points
    ]
    columns = ("ranks", "nodes", "ranks per node", "batch per rank", "accumulation", "runs")
    blocks = (Facts(title="The study", rows=rows), Listing(title="Its layouts", columns=columns, rows=tuple(points)))
    return PageSection(name="asked", title="What was asked", blocks=blocks)


def _repeat(study: ScalingStudy) -> PageSection:
    nodes = ",".join(str(number) for number in sorted({point.nodes for point in study.points}))
    text = f"hpclaunch scale {study.path} --json\nhpclaunch scale {study.target} --nodes {nodes}"
    words = "The first command shows the results again. The second begins a study of the same node counts."
    blocks = (CodeText(title="Commands", text=text), Sentence(text=words))
    return PageSection(name="repeat", title="How to repeat it", blocks=blocks)
