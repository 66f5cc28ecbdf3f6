"""The page of one run, from its records; it reads nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hpclaunch.core.json_values import finite
from hpclaunch.core.units import count
from hpclaunch.reports.page.amounts import duration, ranks_in_words, short, time_in_words
from hpclaunch.reports.page.model import Block, Fact, Figure, Page, PageSection
from hpclaunch.reports.page.recorded import RecordedRun
from hpclaunch.reports.page.sections.asked import asked_section, script_section, world_size
from hpclaunch.reports.page.sections.course import course_section, tone_of
from hpclaunch.reports.page.sections.curves import training_section
from hpclaunch.reports.page.sections.measured_plan import charged, cost_section, plan_section
from hpclaunch.reports.page.sections.remarks import remarks_section
from hpclaunch.reports.page.sections.repeat import repeat_section
from hpclaunch.reports.page.sections.resources import resources_section
from hpclaunch.reports.page.sections.speed import speed_section, typical_rate

_MOST_RESULTS = 6
NO_RESULTS = ("seconds", "epochs")
"""Numbers of the last event that say nothing about the model."""


def run_page(recorded: RecordedRun, now: float, version: str, first: Sequence[PageSection] = ()) -> Page:
    """Return the page of a run. ``now``: Unix seconds at which it is made. ``first``: sections before all others."""
    run = recorded.run
    sections = (
        *first,
        remarks_section(recorded),
        course_section(recorded, now),
        training_section(recorded),
        speed_section(recorded),
        resources_section(recorded),
        plan_section(recorded),
        cost_section(recorded),
        asked_section(recorded),
        script_section(recorded),
        repeat_section(recorded),
    )
    return Page(
        title=run.label,
        state=run.state,
        tone=tone_of(run.state),
        lead=_lead(recorded),
        key_figures=tuple(_key_figures(recorded)),
        sections=with_unique_names(sections),
        made=time_in_words(now),
        version=version,
        sources=(str(run.path),),
    )


def with_unique_names(sections: Sequence[PageSection]) -> tuple[PageSection, ...]:
    """Return the sections with figures whose names differ: they become names of files, and metrics may be alike."""
    seen: dict[str, int] = {}
    result = []
    for section in sections:
        blocks: list[Block] = []
        for block in section.blocks:
            if isinstance(block, Figure):
                seen[block.name] = seen.get(block.name, 0) + 1
                number = seen[block.name]
                blocks.append(replace(block, name=f"{block.name}-{number}") if number > 1 else block)
            else:
                blocks.append(block)
        result.append(replace(section, blocks=tuple(blocks)))
    return tuple(result)


def results_of(recorded: RecordedRun) -> dict[str, float]:
    """Return the numbers of a run's result by name, without its event and its time."""
    pairs = ((str(name), finite(value)) for name, value in recorded.result.items() if name not in ("event", "time"))
    return {name: value for name, value in pairs if value is not None}


def _lead(recorded: RecordedRun) -> str:
    spec, run = recorded.spec, recorded.run
    ranks = world_size(spec)
    words = f"{run.name} at {run.site}"
    words += f", {ranks_in_words(ranks)}" if ranks is not None else ""
    if recorded.values:
        words += ", with " + ", ".join(f"{name}={text}" for name, text in recorded.values.items())
    return f"{words}. Submitted {run.created.replace('T', ' ').replace('Z', ' UTC')}."


def _key_figures(recorded: RecordedRun) -> Iterator[Fact]:
    yield Fact(name="computed for", value=duration(recorded.seconds))
    yield Fact(name="starts", value=str(len(recorded.starts)))
    if recorded.epochs:
        yield Fact(name="epochs", value=count(max(recorded.epochs_seen, len(recorded.epochs)), "epoch"))
    rate = typical_rate(recorded.epochs)
    if rate is not None:
        yield Fact(name="throughput", value=f"{short(rate)} samples/s")
    results = {name: value for name, value in results_of(recorded).items() if name not in NO_RESULTS}
    for name, value in list(results.items())[:_MOST_RESULTS]:
        yield Fact(name=name.replace("_", " ")[:60], value=short(value))
    cost = charged(recorded)
    if cost is not None:
        yield Fact(name="cost, about", value=f"{short(cost[0])} {cost[2]}s")
