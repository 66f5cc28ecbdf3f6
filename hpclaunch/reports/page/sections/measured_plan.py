"""The sections of the plan against what was measured, and of the cost; it reads nothing and predicts nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from statistics import median

from hpclaunch.core.json_values import finite
from hpclaunch.core.spec_parts import utilization_at
from hpclaunch.core.units import count, format_walltime, whole_number
from hpclaunch.guidelines.checkpoints import DALY, CheckpointAdvice, Saving, advise_interval
from hpclaunch.reports.page.amounts import bytes_in_words, duration, percent, short
from hpclaunch.reports.page.model import Block, Listing, PageSection, Sentence, Value
from hpclaunch.reports.page.recorded import RecordedRun
from hpclaunch.reports.page.sections.asked import choice_of, world_size
from hpclaunch.reports.page.sections.curves import epoch_numbers
from hpclaunch.reports.page.sections.resources import cpu_use, energy
from hpclaunch.reports.page.sections.speed import typical_rate
from hpclaunch.runs.samples import gpu_time, last_start

_NOT_PREDICTED = "No predicted speed is recorded for this run."


def plan_section(recorded: RecordedRun) -> PageSection:
    """Return what was asked for beside what was measured."""
    rows = tuple(_rows(recorded))
    blocks: list[Block] = [Sentence(text="There is nothing to compare: nothing was measured.")]
    if rows:
        columns = ("what", "asked or planned", "measured", "share")
        words = _prediction_words(recorded)
        blocks = [Listing(title="Asked for, and used", columns=columns, rows=rows), Sentence(text=words)]
    advice = checkpoint_advice(recorded)
    if advice is not None:
        taken = duration(advice.saving.save_s)
        blocks.append(Sentence(text=f"Checkpoints took {taken} each. Advice: {advice.words}. Source: {DALY}."))
    return PageSection(name="plan", title="The plan against what was measured", blocks=tuple(blocks))


def predicted_rate(recorded: RecordedRun) -> tuple[float, float, float] | None:
    """Return the 10, 50 and 90 % quantile of the samples/s that the planner predicted; None if it has no record."""
    found = recorded.spec.get("predicted")
    if not isinstance(found, dict):
        return None
    low, middle, high = (finite(found.get(name)) for name in ("low", "samples_per_s", "high"))
    if low is None or middle is None or high is None or not 0 < low <= middle <= high:
        return None
    return low, middle, high


def _prediction_words(recorded: RecordedRun) -> str:
    """Return what the prediction of the run rests on."""
    if predicted_rate(recorded) is None:
        return _NOT_PREDICTED
    if recorded.spec["predicted"].get("measured") is True:
        rests = "on measured runs of this job"
    else:
        rests = "on the figures of the model and of the site: there was no measurement that it could use"
    return f"The speed was predicted when the run was last submitted, with its 80 % interval. It rests {rests}."


def cost_section(recorded: RecordedRun) -> PageSection:
    """Return the cost by the measured time, and the energy."""
    words = [*_cost_in_words(recorded), *_energy_in_words(recorded)]
    return PageSection(name="cost", title="Cost", blocks=tuple(Sentence(text=text) for text in words))


def checkpoint_advice(recorded: RecordedRun) -> CheckpointAdvice | None:
    """Return how often to save, by what saving took in this run, beside how often it saved.

    None without a measured checkpoint, and if the file of the site could not be read. Source: ``DALY``.
    """
    events = recorded.named("checkpoint")
    taken = [seconds for event in events if (seconds := finite(event.get("seconds"))) is not None and seconds > 0]
    layout = recorded.spec.get("layout")
    nodes = layout.get("nodes") if isinstance(layout, dict) else None
    if not taken or not recorded.has_site or not isinstance(nodes, int) or nodes < 1:
        return None
    save_s = median(taken)
    times = [time for event in events if (time := finite(event.get("time"))) is not None]
    gaps = [after - before - save_s for before, after in pairwise(times) if after - before > save_s]
    return advise_interval(Saving(save_s=save_s, used_s=median(gaps) if gaps else None), nodes, recorded.mtbf_days)


def node_hours(recorded: RecordedRun) -> float | None:
    """Return nodes x hours of all starts together; None if nodes or time are not known."""
    layout = recorded.spec.get("layout")
    nodes = layout.get("nodes") if isinstance(layout, dict) else None
    return nodes * recorded.seconds / 3600 if isinstance(nodes, int) and recorded.seconds is not None else None


def charged(recorded: RecordedRun) -> tuple[float, float, str] | None:
    """Return (cost of the measured time, the most that the request could cost, unit); None if it is not known.

    The price of the request is that of its whole walltime, so the measured time costs its part of it.
    """
    cost, walltime = recorded.spec.get("cost"), finite(recorded.spec.get("walltime"))
    most = finite(cost.get("amount")) if isinstance(cost, dict) else None
    if most is None or not walltime or recorded.seconds is None or not isinstance(cost, dict):
        return None
    sweep = recorded.spec.get("sweep")
    if isinstance(sweep, dict):  # the recorded price is that of all runs together
        most /= max(1, recorded.runs_of_array)
    return most * recorded.seconds / walltime, most, str(cost.get("unit", ""))


def _cost_in_words(recorded: RecordedRun) -> Iterator[str]:
    found, hours = charged(recorded), node_hours(recorded)
    if found is not None:
        used, most, unit = found
        note = recorded.spec["cost"].get("note") or "no note"
        yield (
            f"About {short(used)} {unit}s by the measured time, of at most {short(most)} for the whole walltime "
            f"({note}). The centre's own accounting decides."
        )
    else:
        yield "The site's charging is not known, or the run has no walltime or no measured time: no cost can be given."
    if hours is not None:
        yield f"The starts used {short(hours)} node-hours."


def _energy_in_words(recorded: RecordedRun) -> Iterator[str]:
    total = energy(recorded.nodes)
    if total is not None:
        joules, source = total
        yield f"The nodes used {short(joules / 3.6e6)} kWh, measured by {source or 'a source that is not named'}."


def _rows(recorded: RecordedRun) -> Iterator[tuple[Value, ...]]:
    yield from _training_rows(recorded)
    walltime, longest = (
        finite(recorded.spec.get("walltime")),
        max((start.seconds for start in recorded.starts if start.seconds is not None), default=None),
    )
    if longest is not None:
        asked = format_walltime(int(walltime)) if walltime else "none"
        share = percent(longest / walltime) if walltime else None
        yield "walltime of the longest start", asked, duration(longest), share
    yield from _machine_rows(recorded)


def _training_rows(recorded: RecordedRun) -> Iterator[tuple[Value, ...]]:
    ranks = world_size(recorded.spec)
    started = recorded.named("start")
    began = started[-1].get("world_size") if started else None
    if ranks is not None and isinstance(began, int):
        yield "ranks", ranks, began, percent(began / ranks) if ranks else None
    epochs = whole_number(recorded.parameters.get("epochs", ""))
    if recorded.epochs:
        last = epoch_numbers(recorded.epochs)[-1]
        yield "epochs", epochs, short(last), percent(last / epochs) if epochs else None
    rate, plan = typical_rate(recorded.epochs), predicted_rate(recorded)
    if rate is None:
        return
    if plan is None:
        yield "samples per second", "not predicted", short(rate), None
        return
    low, middle, high = plan
    words = f"{short(middle)} ({short(low)} to {short(high)})"
    yield "samples per second", words, short(rate), percent(rate / middle)
    utilized = utilization_at(recorded.spec.get("predicted"), rate)
    if utilized is not None:
        reached, expected, peak = utilized
        yield f"model FLOP utilization, of {peak}", percent(expected), percent(reached), percent(reached / expected)


def _machine_rows(recorded: RecordedRun) -> Iterator[tuple[Value, ...]]:
    nodes = recorded.nodes
    use, gpus = cpu_use(nodes), gpu_time(nodes)
    if use is not None:
        cpus = max(node.cpus or 0 for node in nodes)
        yield "CPUs of each node", count(cpus, "CPU"), f"{use * cpus:.3g} busy on average", percent(use)
    if gpus is not None:
        number = sum(len(node.gpus) for node in last_start(nodes))
        used = f"{gpus.mean * number:.3g} busy on average" if gpus.is_judged else "too short to judge"
        share = percent(gpus.mean) if gpus.is_judged else None
        yield "GPUs", count(number, "GPU"), f"{used} ({gpus.evidence})", share
    most = max((node.most_memory for node in nodes if node.most_memory), default=None)
    if most is not None:
        asked = whole_number(choice_of(recorded.spec, "memory"))
        limit = asked * 2**20 if asked else max((node.memory_limit or 0 for node in nodes), default=0)
        yield (
            *("memory of a node", bytes_in_words(limit) if limit else "no limit known", bytes_in_words(most)),
            percent(most / limit) if limit else None,
        )
