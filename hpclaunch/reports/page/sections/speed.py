"""The section of a run's speed: throughput, the parts of a step, and the step time of every rank; it reads nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from hpclaunch.core.json_values import finite
from hpclaunch.core.records import record
from hpclaunch.reports.charts.study_chart import Panel, Series
from hpclaunch.reports.page.amounts import duration, percent, ranks_in_words, short
from hpclaunch.reports.page.model import Block, Figure, HeatMap, PageSection, Sentence, Value
from hpclaunch.reports.page.recorded import RecordedRun
from hpclaunch.reports.page.sections.curves import RATES, curve_of, epoch_numbers
from hpclaunch.reports.page.thinning import MOST_POINTS, pooled

WARM_UP = 1
"""First epochs that do not count: in the first one TensorFlow traces the step (as planner.measured counts)."""
STRAGGLES = 1.10
"""A rank is called a straggler if its own steps take 10 % longer than those of the median rank; our own number."""
_PARTS = ("compute", "communication", "input")
_MOST_RANKS, _MOST_COLUMNS = 1024, MOST_POINTS // 2


def speed_section(recorded: RecordedRun) -> PageSection:
    """Return throughput and step times; a sentence for what was not measured."""
    blocks: list[Block] = []
    for make, missing in (
        (_throughput, "The epochs have no throughput (samples_per_s or images_per_s)."),
        (_step_parts, "The time of a step was not divided into computing, communication and input."),
        (_rank_times, "The step times of single ranks were not measured."),
    ):
        blocks.append(make(recorded) or Sentence(text=missing))
    if not recorded.epochs:
        blocks = [Sentence(text="The run wrote no epochs, so its speed is not known.")]
    return PageSection(name="speed", title="Speed: throughput and step time", blocks=tuple(blocks))


def rate_of(epoch: Mapping[str, Any]) -> float | None:
    """Return the samples per second of all ranks in an epoch; None if they are not recorded."""
    return next((rate for name in RATES if (rate := finite(epoch.get(name))) is not None and rate > 0), None)


def typical_rate(epochs: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the median throughput of the epochs after the first one; of a single epoch its own."""
    rates = [rate for epoch in epochs if (rate := rate_of(epoch)) is not None]
    return median(rates[WARM_UP:] or rates) if rates else None


def rank_times(epochs: Sequence[Mapping[str, Any]]) -> list[tuple[int, list[float]]]:
    """Return (place of the epoch, seconds of each rank's mean step) where they were measured for the same ranks."""
    found = []
    for place, epoch in enumerate(epochs):
        listed = epoch.get("step_seconds_by_rank")
        values = [finite(one) for one in listed] if isinstance(listed, list) and len(listed) <= _MOST_RANKS else []
        known = [value for value in values if value is not None and value >= 0]
        if known and len(known) == len(values):
            found.append((place, known))
    ranks = len(found[-1][1]) if found else 0  # another number before a resume with other nodes
    return [(place, times) for place, times in found if len(times) == ranks]


@record
class Straggler:
    """The slowest rank over all epochs, and how many times longer its own steps are than those of the median rank."""

    rank: int
    ratio: float
    seconds: float

    @property
    def counts(self) -> bool:
        """Whether it is slow enough to be called a straggler."""
        return self.ratio >= STRAGGLES


def slowest_rank(epochs: Sequence[Mapping[str, Any]]) -> Straggler | None:
    """Return the slowest rank, by the median over the epochs after the first; None below two ranks."""
    times = [row for _, row in rank_times(epochs)]
    times = times[WARM_UP:] or times
    if not times or len(times[0]) < 2:
        return None
    typical = [median(column) for column in zip(*times, strict=True)]
    middle = median(typical)
    rank = max(range(len(typical)), key=typical.__getitem__)
    return Straggler(rank=rank, ratio=typical[rank] / middle, seconds=typical[rank]) if middle > 0 else None


def _throughput(recorded: RecordedRun) -> Figure | None:
    rates = [rate_of(epoch) for epoch in recorded.epochs]
    places = epoch_numbers(recorded.epochs)
    curve = curve_of("throughput", places, rates)
    typical = typical_rate(recorded.epochs)
    if curve is None or typical is None:
        return None
    words = (
        f"The median of the epochs after the first one is {short(typical)} samples per second of all ranks together."
    )
    steps = [finite(epoch.get("step_s")) for epoch in recorded.epochs]
    panel = Panel(
        title="Throughput",
        x_label="epoch",
        y_label="samples/s",
        series=(curve,),
        marks=(("median after the first epoch", typical),),
        from_zero=True,
    )
    return Figure(
        name="throughput",
        title="Throughput by epoch",
        words=words,
        drawings=(panel,),
        columns=("epoch", "samples_per_s", "seconds", "step_s"),
        rows=tuple(
            (place, rate, finite(epoch.get("seconds")), step)
            for place, rate, epoch, step in zip(places, rates, recorded.epochs, steps, strict=True)
        ),
    )


def _step_parts(recorded: RecordedRun) -> Figure | None:
    places = epoch_numbers(recorded.epochs)
    rows: list[tuple[float, ...]] = []
    for place, epoch in zip(places, recorded.epochs, strict=True):
        parts = epoch.get("step_seconds")
        values = [finite(parts.get(name)) for name in _PARTS] if isinstance(parts, dict) else []
        known = [value for value in values if value is not None]
        if len(known) == len(_PARTS):
            rows.append((place, *known))
    if not rows:
        return None
    curves = [curve_of(name, [row[0] for row in rows], [row[at] for row in rows]) for at, name in enumerate(_PARTS, 1)]
    means = [sum(row[at] for row in rows) / len(rows) for at in range(1, len(_PARTS) + 1)]
    whole = sum(means) or 1.0
    shares = ", ".join(f"{percent(mean / whole)} {name}" for name, mean in zip(_PARTS, means, strict=True))
    drawn: tuple[Series, ...] = tuple(curve for curve in curves if curve is not None)
    return Figure(
        name="step-parts",
        title="The parts of a step",
        words=f"A step takes {duration(whole)} on average: {shares}. Communication contains the wait for slower ranks.",
        drawings=(
            Panel(title="Parts of a step", x_label="epoch", y_label="seconds per step", series=drawn, from_zero=True),
        ),
        columns=("epoch", *(f"{name}_s" for name in _PARTS)),
        rows=tuple(rows),
    )


def _rank_times(recorded: RecordedRun) -> Figure | None:
    found = rank_times(recorded.epochs)
    if not found:
        return None
    numbers = epoch_numbers(recorded.epochs)
    places, times = [numbers[place] for place, _ in found], [row for _, row in found]
    ranks = len(times[0])
    # Where there are more epochs than columns, a column shows the largest of its epochs, so that no slow one is lost.
    step = -(-len(places) // _MOST_COLUMNS)
    columns = places[::step]
    values = [
        [max(row[rank] for row in times[at : at + step]) * 1000 for at in range(0, len(times), step)]
        for rank in range(ranks)
    ]
    rows: list[tuple[Value, ...]] = [(place, *row) for place, row in zip(places, times, strict=True)]
    labels, shown = pooled([str(rank) for rank in range(ranks)], values)
    heat_map = HeatMap(
        title="Own step time of each rank",
        x_label="epoch",
        y_label="rank",
        unit="ms per step",
        columns=columns,
        rows=labels,
        values=shown,
    )
    return Figure(
        name="rank-step-time",
        title="Step time by rank",
        words=_straggler_in_words(recorded, ranks),
        drawings=(heat_map,),
        columns=("epoch", *(f"rank_{rank}_s" for rank in range(ranks))),
        rows=tuple(rows),
    )


def _straggler_in_words(recorded: RecordedRun, ranks: int) -> str:
    words = "The time that each rank needs for its own step, without waiting for others."
    slowest = slowest_rank(recorded.epochs)
    if slowest is None:
        return words
    if slowest.counts:
        longer = percent(slowest.ratio - 1)
        return (
            f"{words} Rank {slowest.rank} is a straggler: its steps take {longer} longer than those of the median rank."
        )
    return f"{words} None of {ranks_in_words(ranks)} is {percent(STRAGGLES - 1)} slower than the median rank."
