"""A forecast as lines of text: the table, and the reasoning rule by rule; 80 columns, no colour, no decision."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from hpclaunch.guidelines.reasoning import Interval, Number, Reason
from hpclaunch.planner.values import Forecast, PlanRow, PlanSection, Split

WIDTH = 80
_HEADER = ("nodes", "ranks", "B", "samples/s", "eff.", "marg.", "epochs", "time")
_WIDTHS = (5, 5, 6, 11, 5, 5, 6, 13)
_UNITS = ((1, "s"), (60, "min"), (3600, "h"), (86400, "d"))
_SUFFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def table_of(plan: Forecast) -> list[str]:
    """Return the plan in short: choice and reason, table, settings, assumptions, warnings, and the command to type."""
    lines = _wrap_text(f"{plan.job} at {plan.site} ({plan.node_type}): ", plan.summary)
    if plan.parallelism is not None:
        lines += _wrap_text("", plan.parallelism.reason.verdict)
    if plan.split is not None:
        lines += _split_lines(plan.split)
    if any(row.batch is not None for row in plan.rows):
        lines += ["", *_rows(plan)]
    if plan.settings:
        lines += ["", *_wrap_text("set: ", ", ".join(f"{key}={value}" for key, value in plan.settings))]
    for label, text in _remarks(plan):
        lines += _wrap_text(f"{label}: ", text)
    if plan.split is not None:
        lines += ["", "submit refuses this plan: hpclaunch cannot split a job's model over GPUs yet"]
    elif plan.feasible:
        lines += ["", *_command(plan.command)]
    return lines


def _remarks(plan: Forecast) -> Iterator[tuple[str, str]]:
    """Yield (label, text) of what the plan rests on, what it warns of, and how it is run."""
    for label, text in (("precision", plan.precision_words), ("measured", plan.measured), ("queue", plan.queue)):
        if text:
            yield label, text
    for text in plan.assumed:
        yield "assumed", text
    for text in plan.warnings:
        yield "warning", text
    if plan.jobs > 1:
        yield "chain", f"{plan.jobs} jobs in sequence, joined by checkpoints: a single job may not run that long"


def _rows(plan: Forecast) -> list[str]:
    header = (*_HEADER, plan.unit + "s")
    lines = [_line("  ", header)]
    for row in plan.rows:
        mark = "> " if row is plan.chosen else "  "
        lines.append(_line(mark, _cells(row)))
        lines += [line for text in row.obstacles for line in _wrap_text("        - ", text, indent=10)]
    if any(row.candidate for row in plan.rows):
        lines.append("  ranges: 80 % intervals, if the assumptions below hold")
        lines.append("  eff.: throughput per rank, relative to one rank that trains alone")
        lines.append("  marg.: throughput per node, relative to that before the last doubling")
    return lines


def _line(mark: str, cells: Iterable[str]) -> str:
    *fixed, last = cells
    text = " ".join(cell.rjust(width) for cell, width in zip(fixed, _WIDTHS, strict=True))
    return f"{mark}{text} {last.rjust(WIDTH - len(mark) - len(text) - 1)}".rstrip()


def _cells(row: PlanRow) -> tuple[str, ...]:
    batch = str(row.batch.total) if row.batch else "-"
    if row.throughput is None or row.candidate is None:
        return (str(row.nodes), str(row.ranks), batch, *["-"] * 6)
    return (
        str(row.nodes),
        str(row.ranks),
        batch,
        _range(row.throughput.samples_per_s),
        f"{row.throughput.efficiency:.0%}",
        "-" if row.marginal is None else f"{row.marginal:.0%}",
        f"{row.candidate.epochs.middle:.3g}",
        _time_range(row.candidate.time_s),
        _range(row.candidate.cost),
    )


def _range(interval: Interval) -> str:
    return f"{_shorten(interval.low)}-{_shorten(interval.high)}"


def _shorten(value: float) -> str:
    """Return two significant digits, or up to three digits before a suffix: 0.021, 5.2, 640, 12k."""
    # From 99.5 on .2g would write an exponent: 1e+02.
    for size, suffix in _SUFFIXES:
        if value >= size:
            scaled = value / size
            return f"{scaled:.2g}{suffix}" if scaled < 99.5 else f"{scaled:.0f}{suffix}"
    if value < 0.01:
        return f"{value:.1g}"
    return f"{value:.2g}" if value < 99.5 else f"{value:.0f}"


def _time_range(interval: Interval) -> str:
    # From two of a unit on: 90 min reads better than 1.5 h.
    size, unit = next(((size, unit) for size, unit in reversed(_UNITS) if interval.middle >= 2 * size), _UNITS[0])
    return f"{_shorten(interval.low / size)}-{_shorten(interval.high / size)} {unit}"


def _split_lines(split: Split) -> list[str]:
    lines = [f"  {split.gpus} GPUs hold one replica of {split.replicas}; {split.layout}"]
    memory = split.memory
    lines.append(f"  memory of a GPU: {memory.total / 1e9:.1f} of {memory.usable / 1e9:.1f} GB")
    bound = "at most about " if split.communication_guessed else ""
    lines.append(f"  communication between layers: {bound}{_describe_seconds(split.communication_s)} per step")
    lines.append(f"  try first: {', '.join(split.try_first)}")
    return [piece for line in lines for piece in _wrap_text("", line.strip(), indent=2)]


def _describe_seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def _command(command: str) -> list[str]:
    """Return the command in several lines, broken before options with a backslash, so that it can be pasted."""
    pieces = command.replace(" --", "\n--").split("\n")
    lines, current = [], ""
    for piece in pieces:
        if current and len(current) + len(piece) + 3 > WIDTH:
            lines.append(current + " \\")
            current = "    " + piece
        else:
            current = f"{current} {piece}" if current else piece
    return [*lines, current]


def explanation_of(plan: Forecast) -> list[str]:
    """Return the reasoning: every section, rule by rule, with numbers, verdict, source and declined alternatives."""
    return [line for section in plan.sections for line in (_heading(section.title), *_section(section), "")]


def _heading(title: str) -> str:
    return title.upper()


def _section(section: PlanSection) -> list[str]:
    lines: list[str] = []
    for reason in section.reasons:
        lines += _reason(reason)
    for passed in section.declined:
        lines += _wrap_text("not      ", f"{passed.name}: {passed.why} [{passed.source}]", indent=9)
    for remark in section.remarks:
        lines += _wrap_text("note     ", remark, indent=9)
    return lines


def _reason(reason: Reason) -> list[str]:
    lines = _wrap_text("rule     ", reason.rule, indent=9)
    if reason.numbers:
        lines += _wrap_text("numbers  ", "; ".join(map(_number, reason.numbers)), indent=9)
    lines += _wrap_text("verdict  ", reason.verdict, indent=9)
    lines += _wrap_text("source   ", reason.source, indent=9)
    return lines + (_wrap_text("warning  ", reason.warning, indent=9) if reason.warning else [])


def _number(number: Number) -> str:
    value = f"{number.value:,.0f}" if abs(number.value) >= 1000 else f"{number.value:.4g}"
    unit = f" {number.unit}" if number.unit else ""
    return f"{number.name} = {value}{unit}" + (f" ({number.origin})" if number.origin != "computed" else "")


def _wrap_text(label: str, text: str, indent: int = 2) -> list[str]:
    return textwrap.wrap(
        label + text, WIDTH, subsequent_indent=" " * indent, break_long_words=True, break_on_hyphens=False
    )
