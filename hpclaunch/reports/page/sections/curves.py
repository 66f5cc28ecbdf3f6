"""The section of a training: loss and metrics by epoch with the learning rate, and noise scale; it reads nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hpclaunch.core.json_values import finite, number
from hpclaunch.core.units import count
from hpclaunch.reports.charts.study_chart import Panel, Series
from hpclaunch.reports.page.amounts import readable, short
from hpclaunch.reports.page.model import Block, Drawing, Figure, PageSection, Sentence, Value
from hpclaunch.reports.page.recorded import RecordedRun
from hpclaunch.reports.page.thinning import thin_series

RATES = ("samples_per_s", "images_per_s")
_NOT_METRICS = frozenset(
    {
        "event",
        "time",
        "synthetic",
        "epoch",
        "seconds",
        "learning_rate",
        "validation_s",
        "step_s",
        "step_spread",
        "input_s",
    }
).union(RATES)
_PREFIXES = ("val_", "validation_", "test_")
_MOST_FIGURES = 6
_MOST_CURVES = 6
_LONGEST_NAME = 40
_WIDE = 50.0
"""The ratio of the largest to the smallest value from which an axis is logarithmic: two powers of ten stand on it."""


def training_section(recorded: RecordedRun) -> PageSection:
    """Return loss, metrics, learning rate and noise scale by epoch."""
    if not recorded.epochs:
        words = "The run wrote no epochs (lines with the event epoch in metrics.jsonl), so there are no curves."
        return PageSection(name="training", title="Loss and metrics", blocks=(Sentence(text=words),))
    groups = metric_groups(recorded.epochs)
    blocks: list[Block] = [Sentence(text=f"{recorded.thinned}.", tone="warning")] if recorded.thinned else []
    blocks += [_figure(recorded, name, names) for name, names in list(groups.items())[:_MOST_FIGURES]]
    left = list(groups)[_MOST_FIGURES:]
    if left:
        blocks.append(Sentence(text=f"Not drawn: {', '.join(left[:50])}."))
    if not groups:
        blocks.append(Sentence(text="The epochs have no metrics."))
    rates = [finite(epoch.get("learning_rate")) for epoch in recorded.epochs]
    known = {rate for rate in rates if rate is not None}
    if len(known) == 1:
        blocks.append(Sentence(text=f"The learning rate was {known.pop():.4g} at the end of every epoch."))
    elif known and not groups:
        blocks.append(_rate_figure(recorded))
    noise = _noise_figure(recorded)
    return PageSection(name="training", title="Loss and metrics", blocks=(*blocks, *((noise,) if noise else ())))


def metric_groups(epochs: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return metric -> its names (``loss``, ``val_loss``); the loss first, then in the order of their appearance."""
    names = dict.fromkeys(
        name
        for epoch in epochs
        for name, value in epoch.items()
        if name not in _NOT_METRICS and number(value) is not None
    )
    groups: dict[str, list[str]] = {"loss": []}
    for name in names:
        prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), "")
        groups.setdefault(name.removeprefix(prefix), []).append(name)
    return {name: members[:_MOST_CURVES] for name, members in groups.items() if members}


def epoch_numbers(epochs: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the number of every epoch; where one is missing, the numbers from 1 on."""
    found = [finite(epoch.get("epoch")) for epoch in epochs]
    known = [place for place in found if place is not None]
    return known if len(known) == len(found) else [float(place) for place in range(1, len(found) + 1)]


def curve_of(label: str, places: Sequence[float], values: Sequence[Any], line: str = "-") -> Series | None:
    """Return a curve of recorded values, with gaps where none is; None if there is no finite value."""
    y = [math.nan if (found := finite(value)) is None else found for value in values]
    shown = short_name(label)
    return thin_series(shown, places, y, line) if any(map(math.isfinite, y)) else None


def short_name(name: str) -> str:
    """Return a name for a legend: not endless, and without the ``_`` at its front that would hide it there."""
    name = readable(" ".join(name.split("\n")))
    cut = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"
    return f" {cut}" if cut.startswith("_") else cut


def rate_panel(recorded: RecordedRun, places: Sequence[float]) -> Panel | None:
    """Return the learning rate by epoch; None if it does not change."""
    rates = [epoch.get("learning_rate") for epoch in recorded.epochs]
    curve = curve_of("learning rate", places, rates)
    if curve is None or len({rate for rate in rates if finite(rate) is not None}) < 2:
        return None
    return Panel(title="Learning rate", x_label="epoch", y_label="learning rate", series=(curve,))


def _restarts(recorded: RecordedRun) -> list[float]:
    """Return the epochs at which the run continued after a restart."""
    return [place for event in recorded.named("resume") if (place := finite(event.get("epoch"))) is not None][:100]


def _figure(recorded: RecordedRun, metric: str, names: Sequence[str]) -> Figure:
    places = epoch_numbers(recorded.epochs)
    columns = [[epoch.get(name) for epoch in recorded.epochs] for name in names]
    curves = [
        curve_of(name, places, column, "-" if name == metric else "--")
        for name, column in zip(names, columns, strict=True)
    ]
    drawn = tuple(curve for curve in curves if curve is not None)
    panel = Panel(
        title=short_name(metric),
        x_label="epoch",
        y_label=short_name(metric),
        series=drawn,
        uprights=_restarts(recorded),
        upright_name="continued after a restart",
    )
    rate = rate_panel(recorded, places) if metric == "loss" else None
    header, cells = [*names], columns
    if rate is not None:
        header, cells = [*names, "learning_rate"], [*columns, [epoch.get("learning_rate") for epoch in recorded.epochs]]
    drawings: tuple[Drawing, ...] = (panel, rate) if rate is not None else (panel,)
    return Figure(
        name=file_name(metric),
        title=f"{short_name(metric)} by epoch" + (", with the learning rate" if rate else ""),
        words=" ".join(_range_in_words(name, column) for name, column in zip(names, columns, strict=True)),
        drawings=drawings,
        columns=("epoch", *header),
        rows=tuple(_cells(row) for row in zip(places, *cells, strict=True)),
    )


def _range_in_words(name: str, column: Sequence[Any]) -> str:
    """Return where a curve begins, ends and is best or worst."""
    known = [value for one in column if (value := finite(one)) is not None]
    bad = sum(1 for one in column if number(one) is not None and finite(one) is None)
    if not known:
        return f"{short_name(name)} was never a finite number."
    words = f"{short_name(name)} went from {known[0]:.4g} to {known[-1]:.4g}"
    words += f" (least {min(known):.4g}, most {max(known):.4g})"
    return f"{words}; not a finite number {count(bad, 'time')}." if bad else f"{words}."


def _rate_figure(recorded: RecordedRun) -> Figure:
    places = epoch_numbers(recorded.epochs)
    panel = rate_panel(recorded, places)
    rates = [epoch.get("learning_rate") for epoch in recorded.epochs]
    return Figure(
        name="learning-rate",
        title="Learning rate by epoch",
        words="At the end of every epoch.",
        drawings=(panel,) if panel else (),
        columns=("epoch", "learning_rate"),
        rows=tuple(_cells(row) for row in zip(places, rates, strict=True)),
    )


def global_batch(recorded: RecordedRun) -> int | None:
    """Return the global batch size in samples, as the run reported it, else as it was resolved; None: not known."""
    recipe = recorded.spec.get("recipe")
    resolved = recipe.get("global_batch") if isinstance(recipe, dict) else None
    reported = next((event.get("global_batch_size") for event in reversed(recorded.named("start"))), None)
    return next((size for size in (reported, resolved) if isinstance(size, int) and 0 < size < 2**53), None)


def _noise_figure(recorded: RecordedRun) -> Figure | None:
    events = recorded.named("noise_scale")
    rows: list[tuple[float, float, float, float]] = []
    for place, event in enumerate(events, start=1):
        values = [finite(event.get(name)) for name in ("noise_scale", "low", "high")]
        if all(value is not None and value > 0 for value in values):
            epoch = finite(event.get("epoch")) or float(place)
            rows.append((epoch, *(value for value in values if value is not None)))  # type: ignore[arg-type]
    if not rows:
        return None
    batch = global_batch(recorded)
    series = Series(
        label="noise scale, 80 % interval",
        x=[row[0] for row in rows],
        y=[row[1] for row in rows],
        low=[row[2] for row in rows],
        high=[row[3] for row in rows],
    )
    marks = (("global batch size", float(batch)),) if batch else ()
    ends = [*(row[2] for row in rows), *(row[3] for row in rows), *(height for _, height in marks)]
    is_wide = max(ends) >= _WIDE * min(ends)
    panel = Panel(
        title="Noise scale and batch",
        x_label="epoch",
        y_label="samples",
        series=(series,),
        logarithmic="y" if is_wide else "",
        marks=marks,
        from_zero=not is_wide,
    )
    return Figure(
        name="noise-scale",
        title="Gradient noise scale against the batch size",
        words=_noise_in_words(rows[-1][1], batch),
        drawings=(panel,),
        columns=("epoch", "noise_scale", "low", "high", "global_batch_size"),
        rows=tuple((*row, batch) for row in rows),
    )


def _noise_in_words(noise: float, batch: int | None) -> str:
    """Return what the noise scale says about the batch. Source: McCandlish et al. 2018, arXiv 1812.06162."""
    words = f"The last noise scale is {short(noise)} samples. Batches much larger than this gain little."
    if batch is None:
        return words
    ratio = noise / batch
    if ratio >= 2:
        return f"{words} The batch of {batch:,} is {ratio:.1f} times smaller, so a larger one still helps."
    if ratio <= 0.5:
        return f"{words} The batch of {batch:,} is {1 / ratio:.1f} times larger, so it needs more samples."
    return f"{words} The batch of {batch:,} is near it."


def file_name(text: str) -> str:
    """Return a name for files and anchors: small letters, digits and ``-``."""
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in text.lower())
    return "-".join(part for part in plain.split("-") if part)[:40] or "metric"


def _cells(row: Sequence[Any]) -> tuple[Value, ...]:
    return tuple(number(value) for value in row)
