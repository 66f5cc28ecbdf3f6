"""The page of several runs, such as those of a job array: a table, curves over each other, and results by value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from hpclaunch.core.json_values import finite
from hpclaunch.core.run_states import FINAL
from hpclaunch.core.units import count
from hpclaunch.reports.charts.study_chart import Panel, Series
from hpclaunch.reports.page.amounts import duration, short, time_in_words
from hpclaunch.reports.page.model import Block, Fact, Figure, Listing, Page, PageSection, Sentence, Value
from hpclaunch.reports.page.recorded import RecordedRun
from hpclaunch.reports.page.run_page import NO_RESULTS, results_of, with_unique_names
from hpclaunch.reports.page.sections.asked import asked_section, script_section
from hpclaunch.reports.page.sections.course import tone_of
from hpclaunch.reports.page.sections.curves import curve_of, epoch_numbers, file_name, metric_groups, short_name
from hpclaunch.reports.page.sections.measured_plan import charged, node_hours
from hpclaunch.reports.page.sections.repeat import repeat_section
from hpclaunch.reports.page.sections.speed import typical_rate

MOST_READ = 200
"""Runs of an array whose files are read; a larger array has a sentence that says so."""
_FEW = 6
"""So many curves have a colour and a name each; of more, only the best, the middle and the worst."""
_MOST_METRICS, _MOST_RESULTS, _MOST_VALUES = 3, 6, 8
_SMALLER_IS_BETTER = ("loss", "error", "perplexity", "mae", "mse", "rmse")
_WIDE = 50.0
"""The ratio of the largest to the smallest value from which an axis is logarithmic."""


def runs_page(whole: RecordedRun | None, found: Sequence[RecordedRun], now: float, version: str) -> Page:
    """Return the page of several runs. ``whole``: the array to which all of them belong, if they do."""
    states = Counter(one.run.state for one in found)
    sections = [_overview(whole, found), _curves_section(found), _values_section(found), _cost_section(found)]
    if whole is not None:
        sections += [asked_section(whole), script_section(whole), repeat_section(whole)]
    state = "SEVERAL STATES"
    if whole is not None:
        state = whole.run.state
    elif len(states) == 1:
        [state] = states
    return Page(
        title=whole.run.label if whole is not None else count(len(found), "run"),
        state=state,
        tone=max((tone_of(one.run.state) for one in found), key=("good", "plain", "warning", "bad").index),
        lead=_lead(whole, found, states),
        key_figures=tuple(_key_figures(found, states)),
        sections=with_unique_names(sections),
        made=time_in_words(now),
        version=version,
        sources=tuple(str(one.run.path) for one in ([whole] if whole is not None else found)),
    )


def labels_of(found: Sequence[RecordedRun]) -> list[str]:
    """Return a short label for each run: in an array its number and its values, else its name."""
    return [
        f"{one.run.path.name} {' '.join(f'{name}={text}' for name, text in one.values.items())}".strip()
        if one.run.index >= 0
        else one.run.label
        for one in found
    ]


def metric_figure(found: Sequence[RecordedRun], labels: Sequence[str], metric: str) -> Figure | None:
    """Return a metric by epoch, the curves of all runs over each other; None if no run has it."""
    curves: list[tuple[str, list[float], list[float | None]]] = []
    for one, label in zip(found, labels, strict=True):
        places, values = epoch_numbers(one.epochs), [finite(epoch.get(metric)) for epoch in one.epochs]
        if any(value is not None for value in values):
            curves.append((label, places, values))
    if not curves:
        return None
    named = _names_of_curves(metric, curves)
    drawn: list[Series] = []
    for place, (label, places, values) in enumerate(curves):
        if place not in named and (curve := curve_of(label, places, values)) is not None:
            drawn.append(Series(label=label, x=curve.x, y=curve.y, quiet=True))
    for place, words in named.items():
        label, places, values = curves[place]
        if (curve := curve_of(f"{words}{label}", places, values, _line(place))) is not None:
            drawn.append(curve)
    rows = tuple((label, place, value) for label, x, y in curves for place, value in zip(x, y, strict=True))
    finals = [(value, label) for label, _, values in curves if (value := _last_value(values)) is not None]
    low, high = min(finals), max(finals)
    return Figure(
        name=file_name(metric),
        title=f"{short_name(metric)} of {count(len(curves), 'run')} by epoch",
        words=f"At the end: least {low[0]:.4g} ({low[1]}), most {high[0]:.4g} ({high[1]}).",
        drawings=(Panel(title=short_name(metric), x_label="epoch", y_label=short_name(metric), series=drawn),),
        columns=("run", "epoch", metric),
        rows=rows,
    )


def _line(place: int) -> str:
    return ("-", "--", "-.", ":")[place % 4]


def _names_of_curves(metric: str, curves: Sequence[tuple[str, list[float], list[float | None]]]) -> dict[int, str]:
    """Return place -> words of the curves that get a colour and a name."""
    if len(curves) <= _FEW:
        return dict.fromkeys(range(len(curves)), "")
    finals = [
        (value, place) for place, (_, _, values) in enumerate(curves) if (value := _last_value(values)) is not None
    ]
    ordered = [place for _, place in sorted(finals, reverse=not is_smaller_better(metric))]
    return {ordered[0]: "best: ", ordered[len(ordered) // 2]: "middle: ", ordered[-1]: "worst: "}


def is_smaller_better(metric: str) -> bool:
    """Whether a metric's name says that smaller is better, as of a loss or an error."""
    return any(word in _SMALLER_IS_BETTER for word in metric.lower().replace("-", "_").split("_"))


def _last_value(values: Sequence[float | None]) -> float | None:
    return next((value for value in reversed(values) if value is not None), None)


def _lead(whole: RecordedRun | None, found: Sequence[RecordedRun], states: Counter[str]) -> str:
    words = ", ".join(f"{number} {state}" for state, number in states.most_common())
    total = whole.run.tasks if whole is not None else len(found)
    text = f"{count(total, 'run')}: {words}."
    return f"{text} The first {len(found)} were read." if total > len(found) else text


def _key_figures(found: Sequence[RecordedRun], states: Counter[str]) -> Iterator[Fact]:
    yield Fact(name="runs", value=str(len(found)))
    yield Fact(name="completed", value=str(states["COMPLETED"]))
    yield Fact(
        name="ended otherwise", value=str(sum(n for state, n in states.items() if state in FINAL) - states["COMPLETED"])
    )
    times = [one.seconds for one in found if one.seconds is not None]
    if times:
        yield Fact(name="computed together", value=duration(sum(times)))


def _overview(whole: RecordedRun | None, found: Sequence[RecordedRun]) -> PageSection:
    swept = list(dict.fromkeys(name for one in found for name in one.values))[:_MOST_VALUES]
    results = list(dict.fromkeys(name for one in found for name in results_of(one) if name not in NO_RESULTS))[
        :_MOST_RESULTS
    ]
    columns = ("run", *swept, "state", "took", "samples/s", *results)
    rows: list[tuple[Value, ...]] = []
    for one in found:
        rate, result = typical_rate(one.epochs), results_of(one)
        middle = (one.run.state, duration(one.seconds), rate)
        own = (one.values.get(name) for name in swept)
        name = one.run.path.name if whole is not None else one.run.label
        rows.append((name, *own, *middle, *(result.get(name) for name in results)))
    blocks: list[Block] = [Listing(title="The runs", columns=columns, rows=tuple(rows))]
    failed = [one.run for one in found if one.run.final and one.run.state != "COMPLETED"]
    if failed:
        names = ", ".join(f"{run.label} ({run.state})" for run in failed[:10])
        more = f" and {len(failed) - 10} more" if len(failed) > 10 else ""
        words = f"{count(len(failed), 'run')} did not complete: {names}{more}. hpclaunch logs RUN shows why."
        blocks.insert(0, Sentence(text=words, tone="bad"))
    if whole is not None and whole.run.reason:
        blocks.append(Sentence(text=f"The array: {whole.run.reason}."))
    return PageSection(name="runs", title="The runs and their results", blocks=tuple(blocks))


def _curves_section(found: Sequence[RecordedRun]) -> PageSection:
    metrics: Counter[str] = Counter(
        name for one in found for names in metric_groups(one.epochs).values() for name in names
    )
    chosen = sorted(metrics, key=lambda name: (name != "loss", name != "val_loss", -metrics[name]))[:_MOST_METRICS]
    labels = labels_of(found)
    figures = [figure for name in chosen if (figure := metric_figure(found, labels, name)) is not None]
    blocks: tuple[Block, ...] = tuple(figures) or (Sentence(text="No run wrote epochs, so there are no curves."),)
    thinned = [f"{one.run.label}: {one.thinned}." for one in found if one.thinned]
    notes = tuple(Sentence(text=text, tone="warning") for text in thinned)
    return PageSection(name="training", title="Loss and metrics", blocks=(*notes, *blocks))


def _values_section(found: Sequence[RecordedRun]) -> PageSection:
    """Return the result against each swept parameter that has numbers as values."""
    swept = list(dict.fromkeys(name for one in found for name in one.values))[:_MOST_VALUES]
    results: Counter[str] = Counter(name for one in found for name in results_of(one) if name not in NO_RESULTS)
    drawn = [_value_figure(found, name, result) for result in list(results)[:2] for name in swept]
    figures = [figure for figure in drawn if figure is not None]
    none = Sentence(text="There is no swept parameter with numbers and results to draw.")
    return PageSection(name="values", title="Results by value", blocks=tuple(figures) or (none,))


def _value_figure(found: Sequence[RecordedRun], name: str, result: str) -> Figure | None:
    points: list[tuple[float, float, str]] = []
    for one in found:
        try:
            place = finite(float(one.values.get(name, "")))
        except ValueError:
            return None
        value = results_of(one).get(result)
        if place is not None and value is not None:
            points.append((place, value, one.run.label))
    places = sorted({place for place, _, _ in points})
    if len(places) < 2:
        return None
    wide = places[0] > 0 and places[-1] / places[0] >= _WIDE
    series = Series(label=short_name(result), x=[p[0] for p in points], y=[p[1] for p in points], line="")
    smaller = is_smaller_better(result)
    best = (min if smaller else max)(points, key=lambda point: point[1])
    return Figure(
        name=file_name(f"{result}-by-{name}"),
        title=f"{short_name(result)} by {short_name(name)}",
        words=f"{'Least' if smaller else 'Most'}: {short(best[1])} at {name}={best[0]:g} ({best[2]}).",
        drawings=(
            Panel(
                title=f"{short_name(result)} by {short_name(name)}",
                x_label=short_name(name),
                y_label=short_name(result),
                series=(series,),
                logarithmic="x" if wide else "",
            ),
        ),
        columns=("run", name, result),
        rows=tuple((label, place, value) for place, value, label in points),
    )


def _cost_section(found: Sequence[RecordedRun]) -> PageSection:
    hours = [amount for one in found if (amount := node_hours(one)) is not None]
    costs = [cost for one in found if (cost := charged(one)) is not None]
    words = [f"The starts of {count(len(hours), 'run')} used {short(sum(hours))} node-hours."] if hours else []
    if costs and len({unit for _, _, unit in costs}) == 1:
        used, most = sum(cost[0] for cost in costs), sum(cost[1] for cost in costs)
        words.append(f"About {short(used)} {costs[0][2]}s by the measured time, of at most {short(most)}.")
    blocks = tuple(Sentence(text=text) for text in words or ["The cost is not known."])
    return PageSection(name="cost", title="Cost", blocks=blocks)
