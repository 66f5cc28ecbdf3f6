"""A forecast as lines of text: headlines, table, and the reasoning rule by rule; 80 columns, no colour."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from hpclaunch.guidelines.intervals import scaled
from hpclaunch.guidelines.reasoning import Number, Reason
from hpclaunch.planner.amounts import BYTES, memory_of, range_of, shorten, time_of, time_range_of
from hpclaunch.planner.values import Forecast, Headline, OwnProgram, PlanRow, PlanSection, Split

WIDTH = 80
_HEADER = ("nodes", "ranks", "B", "samples/s", "eff.", "marg.", "epochs", "time")
_WIDTHS = (5, 5, 6, 11, 5, 5, 6, 13)


def text_of(plan: Forecast, explain: bool = False) -> list[str]:
    """Return the whole plan: five lines, what to type, the table, and with ``explain`` the reasoning."""
    lines = [*headline_lines(plan), "", *table_of(plan)]
    return [*lines, "", *explanation_of(plan)] if explain else lines


def headline_lines(plan: Forecast) -> list[str]:
    """Return the first five lines, each with its range in brackets and its mark of trust at the end."""
    return [line for headline in plan.headlines for line in _headline(headline)]


def _headline(headline: Headline) -> list[str]:
    reach = "" if headline.range == headline.value else f" ({headline.range})"
    words = f"{headline.name:<6} {headline.value}{reach}"
    gap = WIDTH - len(words) - len(headline.trust)
    return [words + " " * gap + headline.trust] if gap > 1 else _wrap_text("", f"{words}  {headline.trust}", indent=7)


def table_of(plan: Forecast) -> list[str]:
    """Return the rest: what to type, the choice and its reason, the table, settings, assumptions and warnings."""
    lines = _action_lines(plan)
    lines += _wrap_text(f"{plan.job} at {plan.site} ({plan.node_type}): ", plan.summary)
    if plan.parallelism is not None:
        lines += _wrap_text("", plan.parallelism.reason.verdict)
    if plan.program is not None:
        lines += _program_lines(plan.program)
    if plan.split is not None:
        lines += _split_lines(plan.split, plan.device)
    if plan.climbs and plan.program is None:
        lines += ["", *_ladder_lines(plan)]
    if any(row.batch is not None for row in plan.rows):
        lines += ["", *_rows(plan), ""]
    if plan.settings:
        lines += _wrap_text("set: ", ", ".join(f"{key}={value}" for key, value in plan.settings))
    for label, text in _remarks(plan):
        lines += _wrap_text(f"{label}: ", text)
    return lines


def _action_lines(plan: Forecast) -> list[str]:
    """Return the warnings and the command that runs the plan, or why there is none."""
    parts = [[line for text in plan.warnings for line in _wrap_text("warning: ", text)]]
    if plan.feasible:
        parts.append(_command(plan.command))
    if plan.measuring:
        runs = "three short runs" if plan.known else "short runs"
        parts.append([f"to measure it first, in {runs}:", *_command(plan.measuring)])
    return [line for part in parts if part for line in (*part, "")]


def _remarks(plan: Forecast) -> Iterator[tuple[str, str]]:
    """Yield (label, text) of what the plan rests on, and how it is run."""
    measured = [("measured", text) for text in (plan.measured, *plan.links)]
    saving = plan.checkpoints.words if plan.checkpoints else ""
    utilized = plan.mfu.words if plan.mfu else ""
    for label, text in (
        ("MFU", utilized),
        ("precision", plan.precision_words),
        *measured,
        ("queue", plan.queue),
        ("saving", saving),
    ):
        if text:
            yield label, text
    for text in plan.notes:
        yield "note", text
    for text in plan.assumed:
        yield "assumed", text
    if plan.jobs > 1:
        run = plan.chosen.candidate if plan.chosen else None
        expected = f" ({run.jobs} expected)" if run is not None and run.jobs < plan.jobs else ""
        many = f"up to {plan.jobs} jobs in sequence{expected}"
        yield "chain", f"{many}, joined by checkpoints: a single job may not run that long"


def _rows(plan: Forecast) -> list[str]:
    tokens = plan.tokens_per_sample
    own = plan.measured_program
    unit = own.unit if own else "samples"
    if tokens:
        unit = "tokens"
    names = (f"{unit}/s" if name == "samples/s" else name for name in _HEADER)
    lines = [_line("  ", (*names, plan.unit + "s"))]
    for row in plan.rows:
        mark = "> " if row is plan.chosen else "  "
        cells = _cells(row, tokens or 1)
        if own is not None:  # it has no epochs
            cells = (*cells[:2], "own" if own.own_batch and row.batch else cells[2], *cells[3:6], "-", *cells[7:])
        lines.append(_line(mark, cells))
        lines += [line for text in row.obstacles for line in _wrap_text("        - ", text, indent=10)]
    if any(row.candidate for row in plan.rows):
        fitting = "what fits the measured points" if own else "80 % intervals"
        lines.append(f"  ranges: {fitting}, if the assumptions below hold")
        alone = "" if plan.batch_alone is None else f" with batches of {plan.batch_alone}"
        of = (
            "share of a step that is computation" if plan.program else "throughput per rank, relative to one rank alone"
        )
        of = "throughput per rank, relative to the fewest measured nodes" if own else of
        lines.append(f"  eff.: {of}{alone}")
        lines.append("  marg.: gain of the last doubling; 100 %: half the time or less, 50 %: no less")
    return lines


def _line(mark: str, cells: Iterable[str]) -> str:
    *fixed, last = cells
    text = " ".join(cell.rjust(width) for cell, width in zip(fixed, _WIDTHS, strict=True))
    return f"{mark}{text} {last.rjust(WIDTH - len(mark) - len(text) - 1)}".rstrip()


def _cells(row: PlanRow, unit: int) -> tuple[str, ...]:
    """Return the cells of a row; ``unit``: what a sample counts as, its tokens or 1."""
    batch = str(row.batch.total) if row.batch else "-"
    if row.throughput is None or row.candidate is None:
        return (str(row.nodes), str(row.ranks), batch, *["-"] * 6)
    return (
        str(row.nodes),
        str(row.ranks),
        batch,
        range_of(scaled(row.throughput.samples_per_s, unit)),
        f"{row.throughput.efficiency:.0%}",
        "-" if row.marginal is None else f"{row.marginal:.0%}",
        f"{row.candidate.epochs.middle:.3g}",
        time_range_of(row.candidate.time_s),
        range_of(row.candidate.cost),
    )


def _ladder_lines(plan: Forecast) -> list[str]:
    """Return the ladder as a table, with the reason why each rung is taken or passed over."""
    lines = [
        _ladder_line("  ", ("to make it fit", "nodes", f"memory of a {plan.device}", "step", "epoch", plan.unit + "s"))
    ]
    for rung in plan.ladder:
        mark = "> " if rung.verdict == "taken" else "  "
        where = f"{rung.nodes} {rung.node_type}" if rung.memory else "-"
        times = tuple("-" if value is None else time_of(value) for value in (rung.step_s, rung.epoch_s))
        cost = "-" if rung.cost is None else shorten(rung.cost)
        lines.append(
            _ladder_line(mark, (rung.name, where, memory_of(rung.memory) if rung.memory else "-", *times, cost))
        )
        if rung.verdict != "not needed":
            lines += _wrap_text("    - ", rung.why, indent=6)
    return [*lines, "  step, epoch: on these nodes, the fewest that hold the model, or those typed"]


def _ladder_line(mark: str, cells: tuple[str, ...]) -> str:
    name, where, memory, *times, cost = cells
    columns = (name.ljust(19), where[:13].ljust(13), memory.rjust(16), *(text.rjust(7) for text in times))
    text = mark + " ".join(columns)
    return f"{text} {cost.rjust(WIDTH - len(text) - 1)}"[:WIDTH].rstrip()


def _program_lines(program: OwnProgram) -> list[str]:
    """Return the layout of a program of one's own, its memory and its speed."""
    size = 2**30
    micro = f"micro-batches of {program.micro_batch}, {program.micro_batches} a step"
    waits = f", in which a stage waits {100 * program.bubble:.2g} % of the time" if program.pipeline > 1 else ""
    speed = f"{range_of(program.tokens_per_s, ' to ')} tokens/s, {shorten(program.tokens_in_all)} tokens in all"
    lines = (
        f"layout: {program.layout}; {micro}{waits}",
        f"memory of a GPU: {program.memory / size:.3g} of {program.usable / size:.3g} GB",
        f"speed: {speed}",
        program.rate_source,
        "train.py: a program of yours that shares the model so, with PyTorch's FSDP or Megatron-LM",
    )
    return [*(piece for line in lines for piece in _wrap_text("", line, indent=2)), "", *_rung_lines(program)]


def _rung_lines(program: OwnProgram) -> list[str]:
    """Return the ways to hold the model as a table: the fastest layout of each, its memory and its speed."""
    lines = ["  to hold it           memory of a GPU  tokens/s micro  layout"]
    for rung in program.rungs:
        mark, speed = "> " if rung.verdict == "taken" else "  ", shorten(rung.tokens_per_s)
        memory = f"{shorten(rung.memory / 2**30)} of {shorten(program.usable / 2**30)} GB"
        words = rung.layout if rung.verdict != "too large" else "too large"
        lines += _wrap_text(f"{mark}{rung.name:<19}{memory:>17}  {speed:>8} {rung.micro_batch:>5}  ", words, indent=56)
    return lines


def _split_lines(split: Split, device: str) -> list[str]:
    lines = [f"  {split.gpus} {device}s hold one replica of {split.replicas}; {split.layout}"]
    lines.append(f"  memory of a {device}: {memory_of(split.memory)}")
    bound = "at most about " if split.communication_guessed else ""
    each = f"{split.dependent_s * 1e6:.3g} us of latency for each all-reduce" if split.tensor_parallel > 1 else ""
    source = f"; {each} ({split.communication_source})" if each else ""
    lines.append(f"  communication between layers: {bound}{_describe_seconds(split.communication_s)} per step{source}")
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
    amount = f"{number.value:,.0f}" if abs(number.value) >= 1000 else f"{number.value:.4g}"
    unit = f" {number.unit}" if number.unit else ""
    if number.unit == "bytes":
        amount, unit = _bytes(number.value), ""
    return f"{number.name} = {amount}{unit}" + (f" ({number.origin})" if number.origin != "computed" else "")


def _bytes(size: float) -> str:
    """Return a size of memory with four digits."""
    value, unit = next(((size / by, unit) for by, unit in BYTES if size >= by), (size, "bytes"))
    return f"{value:.4g} {unit}"


def _wrap_text(label: str, text: str, indent: int = 2) -> list[str]:
    return textwrap.wrap(
        label + text, WIDTH, subsequent_indent=" " * indent, break_long_words=True, break_on_hyphens=False
    )
