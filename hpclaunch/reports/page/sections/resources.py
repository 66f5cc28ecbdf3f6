"""The section of what a run used of its nodes: CPU, memory, GPUs, I/O and energy over time; it reads nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from hpclaunch.core.records import record
from hpclaunch.core.units import count
from hpclaunch.reports.charts.study_chart import Panel, Series
from hpclaunch.reports.page.amounts import TimeAxis, bytes_in_words, percent, short, time_axis
from hpclaunch.reports.page.model import Block, Drawing, Figure, HeatMap, PageSection, Sentence, Value
from hpclaunch.reports.page.recorded import RecordedRun
from hpclaunch.reports.page.sections.curves import short_name
from hpclaunch.reports.page.thinning import pooled, thin_series
from hpclaunch.runs.samples import NodeSamples, Sample, gpu_time

_MOST_NODES = 8
"""Nodes with a curve of their own; of more, those with the highest and lowest mean."""
_MOST_COLUMNS = 150
_ROUNDING = 0.05
"""Parts of a column by which an interval may be longer or shorter, without a place in the next one."""
_MOST_RANKS = 1024


@record
class Timed:
    """A value at the end of each interval of one node; times are Unix seconds."""

    label: str
    times: tuple[float, ...]
    values: tuple[float, ...]


def resources_section(recorded: RecordedRun) -> PageSection:
    """Return figures of what was sampled on the nodes, and a sentence for what was not."""
    title = "Use of the machine"
    nodes = [node for node in recorded.nodes if node.samples]
    if not nodes:
        words = "Nothing was sampled on the nodes, so CPU, memory, GPUs, I/O and energy over time are not known."
        return PageSection(name="resources", title=title, blocks=(Sentence(text=words),))
    axis = time_axis([time for node in nodes for time in (node.began, node.ended)])
    blocks: list[Block] = [Sentence(text=_sources_in_words(nodes))]
    for figures in (
        _cpu(nodes, axis),
        _memory(nodes, axis),
        _gpu(nodes, axis),
        _bytes(nodes, axis),
        _energy(nodes, axis),
    ):
        blocks += figures
    return PageSection(name="resources", title=title, blocks=tuple(blocks))


def cpu_use(nodes: Sequence[NodeSamples]) -> float | None:
    """Return the share of the CPUs that was used, over all nodes and starts; None if it was not measured."""
    known = [(node.cpu, node.cpus * node.seconds) for node in nodes if node.cpu is not None and node.cpus]
    available = sum(whole for _, whole in known)
    return sum(used for used, _ in known) / available if available else None


def memory_share(nodes: Sequence[NodeSamples]) -> tuple[float, NodeSamples] | None:
    """Return the largest share of a node's memory limit that was used, and that node; None if it was not measured."""
    known = [(node.most_memory / node.memory_limit, node) for node in nodes if node.most_memory and node.memory_limit]
    return max(known, key=lambda pair: pair[0], default=None)


def energy(nodes: Sequence[NodeSamples]) -> tuple[float, str] | None:
    """Return the measured energy in joules and its sources; None if it was not measured."""
    known = [node for node in nodes if node.joules is not None]
    sources = sorted({node.sources.get("energy", "") for node in known} - {""})
    return (sum(node.joules or 0.0 for node in known), ", ".join(sources)) if known else None


def _sources_in_words(nodes: Sequence[NodeSamples]) -> str:
    sources = {name: text for node in nodes for name, text in node.sources.items()}
    shown = ", ".join(f"{name} from {text}" for name, text in sorted(sources.items()))
    places = len({node.node for node in nodes})
    interval = max(node.interval for node in nodes)
    return f"Sampled on {count(places, 'node')}, at most every {interval:g} s. Measured: {shown or 'nothing named'}."


def _values_over_time(
    nodes: Sequence[NodeSamples], value: Callable[[NodeSamples, Sample, float], float | None]
) -> list[Timed]:
    """Return a curve for each node: ``value`` gets the node, the sample, and the length of its interval in seconds."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    for node in nodes:
        times, values = found.setdefault(node.node, ([], []))
        before = node.began
        if times:  # a gap between two starts
            times.append(before)
            values.append(math.nan)
        for sample in node.samples:
            length = sample.t - before
            amount = value(node, sample, length) if length > 0 else None
            if amount is not None:
                times.append(sample.t)
                values.append(amount)
            before = sample.t
    known = {name: pair for name, pair in found.items() if any(map(math.isfinite, pair[1]))}
    return [Timed(label=name, times=tuple(times), values=tuple(values)) for name, (times, values) in known.items()]


def _some(curves: Sequence[Timed]) -> list[Timed]:
    """Return the curves to draw: of many nodes those with the highest and lowest means."""
    if len(curves) <= _MOST_NODES:
        return list(curves)
    ordered = sorted(curves, key=lambda curve: sum(filter(math.isfinite, curve.values)) / len(curve.values))
    return [*ordered[: _MOST_NODES // 2], *ordered[-_MOST_NODES // 2 :]]


def _series(curves: Sequence[Timed], axis: TimeAxis, scale: float = 1.0) -> tuple[Series, ...]:
    shown = _some(curves)
    return tuple(
        thin_series(
            short_name(curve.label), [axis.at(time) for time in curve.times], [value * scale for value in curve.values]
        )
        for curve in shown
    )


def _rows(named: Sequence[tuple[str, Sequence[Timed]]], axis: TimeAxis) -> tuple[tuple[Value, ...], ...]:
    """Return (node, seconds since the start, a value of each of several quantities) in the order of time."""
    cells: dict[tuple[float, str], dict[str, float]] = {}
    for name, curves in named:
        for curve in curves:
            for time, value in zip(curve.times, curve.values, strict=True):
                if math.isfinite(value):
                    cells.setdefault((time, curve.label), {})[name] = value
    names = [name for name, _ in named]
    return tuple(
        (label, round(time - axis.zero, 3), *(values.get(name) for name in names))
        for (time, label), values in sorted(cells.items())
    )


def _cpu(nodes: Sequence[NodeSamples], axis: TimeAxis) -> Iterator[Figure]:
    def share(node: NodeSamples, one: Sample, length: float) -> float | None:
        return one.cpu / length / node.cpus if one.cpu is not None and node.cpus else None

    curves = _values_over_time(nodes, share)
    if curves:
        use = cpu_use(nodes)
        words = f"On average {percent(use)} of the job's CPUs computed." if use is not None else ""
        panel = Panel(
            title="CPU use",
            x_label=axis.label,
            y_label="% of the CPUs",
            series=_series(curves, axis, 100),
            from_zero=True,
        )
        yield _figure("cpu", "CPU use of each node", words, (panel,), [("cpu_share", curves)], axis)
    heat_map = _rank_cpu(nodes, axis)
    if heat_map is not None:
        yield heat_map


def _cores_of_ranks(nodes: Sequence[NodeSamples]) -> dict[int, list[tuple[float, float, float]]]:
    """Return rank -> (begin, end, mean number of cores) of each interval; times are Unix seconds."""
    cells: dict[int, list[tuple[float, float, float]]] = {}
    for node in nodes:
        before = node.began
        for sample in node.samples:
            length = sample.t - before
            for rank, one in sample.ranks.items():
                if one.cpu is not None and length > 0:
                    cells.setdefault(rank, []).append((before, sample.t, one.cpu / length))
            before = sample.t
    return cells


def _rank_cpu(nodes: Sequence[NodeSamples], axis: TimeAxis) -> Figure | None:
    """Return the cores that each rank used over time."""
    cells = _cores_of_ranks(nodes)
    ranks = sorted(cells)[:_MOST_RANKS]
    if not ranks:
        return None
    end = max(time for rank in ranks for _, time, _ in cells[rank])
    width = (end - axis.zero) / min(_MOST_COLUMNS, max(len(cells[rank]) for rank in ranks)) or 1.0
    columns = max(1, math.ceil((end - axis.zero) / width))
    values: list[list[float | None]] = [[None] * columns for _ in ranks]
    for row, rank in zip(values, ranks, strict=True):
        for begin, time, cores in cells[rank]:
            first, last = (
                int((begin - axis.zero) / width + _ROUNDING),
                math.ceil((time - axis.zero) / width - _ROUNDING),
            )
            for place in range(first, min(columns, max(first + 1, last))):  # all that the interval touches
                row[place] = max(cores, row[place] or 0.0)
    labels, shown = pooled([str(rank) for rank in ranks], values)
    heat_map = HeatMap(
        title="Cores that each rank used",
        x_label=axis.label,
        y_label="rank",
        unit="cores",
        columns=[(place + 0.5) * width / axis.size for place in range(columns)],
        rows=labels,
        values=shown,
    )
    rows = [
        (rank, round(time - axis.zero, 3), round(cores, 4)) for rank in sorted(cells) for _, time, cores in cells[rank]
    ]
    words = "Each cell shows the most cores that a rank used in that time. An empty cell was not measured."
    return Figure(
        name="rank-cpu",
        title="CPU use of each rank",
        words=words,
        drawings=(heat_map,),
        columns=("rank", "seconds", "cores"),
        rows=tuple(rows),
    )


def _memory(nodes: Sequence[NodeSamples], axis: TimeAxis) -> Iterator[Figure]:
    curves = _values_over_time(nodes, lambda node, one, length: one.memory)
    if not curves:
        return
    share, limits = memory_share(nodes), {node.memory_limit for node in nodes} - {None}
    most = max(node.most_memory or 0 for node in nodes)
    words = f"At most {bytes_in_words(most)} on one node"
    words += f", {percent(share[0])} of its limit." if share else "; no limit is known."
    marks = tuple(("limit", limit / 1e9) for limit in limits if limit is not None and limit <= 4 * most)
    panel = Panel(
        title="Memory",
        x_label=axis.label,
        y_label="GB",
        series=_series(curves, axis, 1e-9),
        from_zero=True,
        marks=marks if len(limits) == 1 else (),
    )
    yield _figure("memory", "Memory of the job on each node", words, (panel,), [("memory_bytes", curves)], axis)


def _gpu(nodes: Sequence[NodeSamples], axis: TimeAxis) -> Iterator[Figure]:
    quantities: tuple[tuple[str, str, str, float, Callable[[Sample], Sequence[float | None]]], ...] = (
        ("gpu_use", "GPU use", "%", 100.0, lambda one: [gpu.use for gpu in one.gpus]),
        ("gpu_memory_bytes", "GPU memory", "GB", 1e-9, lambda one: [gpu.memory for gpu in one.gpus]),
        ("gpu_watts", "GPU power", "W", 1.0, lambda one: [gpu.power for gpu in one.gpus]),
    )
    drawings: list[Drawing] = []
    named: list[tuple[str, Sequence[Timed]]] = []
    for name, title, unit, scale, values in quantities:
        curves = [curve for place in range(_most_gpus(nodes)) for curve in _gpu_curves(nodes, place, values)]
        if curves:
            drawings.append(
                Panel(
                    title=title, x_label=axis.label, y_label=unit, series=_series(curves, axis, scale), from_zero=True
                )
            )
            named.append((name, curves))
    if drawings:
        use = gpu_time(nodes)
        words = ""
        if use is not None and use.is_judged:
            words = f"On average the GPUs computed {percent(use.mean)} of the time ({use.evidence})."
        elif use is not None:
            words = f"The use of the GPUs: too short to judge ({use.evidence})."
        yield _figure("gpu", "Use, memory and power of each GPU", words, tuple(drawings), named, axis)


def _most_gpus(nodes: Sequence[NodeSamples]) -> int:
    return min(16, max(len(sample.gpus) for node in nodes for sample in node.samples))


def _gpu_curves(
    nodes: Sequence[NodeSamples], place: int, values: Callable[[Sample], Sequence[float | None]]
) -> list[Timed]:
    def of_gpu(node: NodeSamples, one: Sample, length: float) -> float | None:
        return values(one)[place] if place < len(one.gpus) else None  # a node may have fewer GPUs than another

    found = _values_over_time(nodes, of_gpu)
    return [Timed(label=f"{curve.label} GPU {place}", times=curve.times, values=curve.values) for curve in found]


def _bytes(nodes: Sequence[NodeSamples], axis: TimeAxis) -> Iterator[Figure]:
    def of_ranks(one: Sample, name: str) -> float | None:
        known = [amount for rank in one.ranks.values() if (amount := getattr(rank, name)) is not None]
        return sum(known) if known else None

    quantities: tuple[tuple[str, str, Callable[[Sample], float | None]], ...] = (
        ("read", "Read by the ranks", lambda one: of_ranks(one, "read")),
        ("written", "Written by the ranks", lambda one: of_ranks(one, "write")),
        ("received", "Received by the node", lambda one: one.received),
        ("sent", "Sent by the node", lambda one: one.sent),
    )
    drawings: list[Drawing] = []
    named: list[tuple[str, Sequence[Timed]]] = []
    for name, title, value in quantities:
        curves = _values_over_time(nodes, lambda node, one, length, value=value: _rate(value(one), length))  # type: ignore[misc]
        highest = max((amount for curve in curves for amount in curve.values if amount > 0), default=0)
        if highest:
            scale, unit = _unit_of_rate(highest)
            series = _series(curves, axis, scale)
            drawings.append(Panel(title=title, x_label=axis.label, y_label=unit, series=series, from_zero=True))
            named.append((f"{name}_bytes_per_s", curves))
    if drawings:
        words = "The network is that of the whole node, with all of its interfaces."
        yield _figure("input-output", "Input, output and network", words, tuple(drawings), named, axis)


def _unit_of_rate(most: float) -> tuple[float, str]:
    """Return the factor and the unit for bytes per second of at most so many."""
    units = ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"))
    return next(((1 / size, unit) for size, unit in units if most >= size), (1.0, "B/s"))


def _rate(amount: float | None, length: float) -> float | None:
    return None if amount is None else amount / length


def _energy(nodes: Sequence[NodeSamples], axis: TimeAxis) -> Iterator[Block]:
    curves = _values_over_time(nodes, lambda node, one, length: _rate(one.joules, length))
    total = energy(nodes)
    if not curves or total is None:
        yield Sentence(text="Energy was not measured on these nodes.")
        return
    joules, source = total
    origin = source or "a source that is not named"
    words = f"Measured: {short(joules / 3600)} Wh ({short(joules)} J) in all, from {origin}."
    panel = Panel(title="Power", x_label=axis.label, y_label="W", series=_series(curves, axis), from_zero=True)
    yield _figure("energy", "Power over time", words, (panel,), [("watts", curves)], axis)


def _figure(
    name: str,
    title: str,
    words: str,
    drawings: tuple[Drawing, ...],
    named: Sequence[tuple[str, Sequence[Timed]]],
    axis: TimeAxis,
) -> Figure:
    return Figure(
        name=name,
        title=title,
        words=words,
        drawings=drawings,
        columns=("node", "seconds", *(column for column, _ in named)),
        rows=_rows(named, axis),
    )
