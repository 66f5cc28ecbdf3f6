"""The section of warnings, in words: what went wrong, what was wasted, what to look at; it reads nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hpclaunch.core.json_values import number
from hpclaunch.core.units import count, whole_number
from hpclaunch.reports.page.amounts import percent
from hpclaunch.reports.page.model import Block, PageSection, Sentence
from hpclaunch.reports.page.recorded import RecordedRun
from hpclaunch.reports.page.sections.course import ending_of
from hpclaunch.reports.page.sections.curves import epoch_numbers, metric_groups
from hpclaunch.reports.page.sections.resources import cpu_use, memory_share
from hpclaunch.reports.page.sections.speed import slowest_rank
from hpclaunch.runs.samples import gpu_time

IDLE = 0.20
"""Below this share CPUs or GPUs count as idle. hpclaunch's own number."""
FULL = 0.95
"""From this share on memory counts as full: the next larger batch may not fit."""


def remarks_section(recorded: RecordedRun) -> PageSection:
    """Return the warnings; one sentence says so if there are none."""
    blocks: list[Block] = [Sentence(text=text, tone="bad") for text in _failure_remarks(recorded)]
    blocks += [
        Sentence(text=text, tone="warning") for text in (*_training_remarks(recorded), *_machine_remarks(recorded))
    ]
    blocks += [Sentence(text=text, tone="warning") for text in _submission_remarks(recorded)]
    if not blocks:
        blocks = [Sentence(text="There are no warnings.", tone="good")]
    return PageSection(name="warnings", title="Warnings", blocks=tuple(blocks))


def _failure_remarks(recorded: RecordedRun) -> Iterator[str]:
    run = recorded.run
    last = recorded.starts[-1] if recorded.starts else None
    if run.final and run.state != "COMPLETED":
        words = f"The run is {run.state}"
        words += f": its last start {ending_of(last)}" if last is not None and last.exit_code not in (None, 0) else ""
        yield f"{words}. Its log: hpclaunch logs {run.label}"
    bad = _diverged_metrics(recorded.epochs)
    if bad:
        yield f"{', '.join(bad)}: not a finite number in the last epoch. The training has diverged."


def _diverged_metrics(epochs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the metrics of the last epoch that are no finite numbers; the library writes null for them."""
    if not epochs:
        return []
    last = epochs[-1]
    known = [name for names in metric_groups(epochs).values() for name in names]
    names = dict.fromkeys([*known, *(name for name, value in last.items() if value is None)])
    return [name for name in names if name in last and _is_not_finite(last[name])]


def _is_not_finite(value: Any) -> bool:
    found = number(value)
    return value is None or (found is not None and not math.isfinite(found))


def _training_remarks(recorded: RecordedRun) -> Iterator[str]:
    if recorded.thinned:
        yield f"{recorded.thinned}."
    if any(epoch.get("synthetic") is True for epoch in recorded.epochs):
        yield "The samples were generated (--synthetic): loss and metrics say nothing about real data."
    wanted = whole_number(recorded.parameters.get("epochs", ""))
    if wanted and recorded.epochs and recorded.run.state == "COMPLETED" and not recorded.named("early_stop"):
        made = epoch_numbers(recorded.epochs)[-1]
        if made < wanted:
            yield f"The run completed after {made:g} of {count(wanted, 'epoch')}."
    if recorded.repeated:
        yield f"{count(recorded.repeated, 'epoch')} had to be repeated, as the run ended after its last checkpoint."
    slowest = slowest_rank(recorded.epochs)
    if slowest is not None and slowest.counts:
        longer = percent(slowest.ratio - 1)
        yield f"Rank {slowest.rank} is a straggler: its own steps take {longer} longer than those of the median rank."
    warning = next((event.get("warning") for event in reversed(recorded.named("communication"))), None)
    if warning:
        yield f"Communication: {warning}"


def _machine_remarks(recorded: RecordedRun) -> Iterator[str]:
    cpus, gpus, memory = cpu_use(recorded.nodes), gpu_time(recorded.nodes), memory_share(recorded.nodes)
    if gpus is not None and gpus.is_judged and gpus.mean < IDLE:
        used = f"they computed {percent(gpus.mean)} of it ({gpus.evidence})"
        yield f"The GPUs were idle most of the time: {used}. Next: hpclaunch efficiency"
    if gpus is None and cpus is not None and cpus < IDLE:
        yield f"The CPUs were idle most of the time: {percent(cpus)} of them computed. Next: hpclaunch efficiency"
    if memory is not None and memory[0] >= FULL:
        yield f"Memory was almost full: {percent(memory[0])} of the limit of {memory[1].node}."


def _submission_remarks(recorded: RecordedRun) -> Iterator[str]:
    """Yield the warnings that the submission showed, too."""
    for name in ("warnings", "unverified"):
        found = recorded.spec.get(name)
        yield from (f"At the submission: {text}" for text in (found if isinstance(found, list) else ()))
    if recorded.run.git.endswith("+changes"):
        yield "The code had changes that no commit holds; the copy in the run directory (code/) is what ran."
