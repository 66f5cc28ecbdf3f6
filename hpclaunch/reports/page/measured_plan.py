"""The sections of the plan against what was measured, and of the cost; it reads nothing and predicts nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from statistics import median

from hpclaunch.core.json_values import finite
from hpclaunch.core.units import count, format_walltime, whole_number
from hpclaunch.guidelines.checkpoints import DALY, CheckpointAdvice, Saving, advise_interval
from hpclaunch.reports.page.amounts import bytes_in_words, duration, percent, short
from hpclaunch.reports.page.asked import choice_of, world_size
from hpclaunch.reports.page.curves import epoch_numbers
from hpclaunch.reports.page.model import Block, Listing, PageSection, Sentence, Value
from hpclaunch.reports.page.recorded import RecordedRun
from hpclaunch.reports.page.resources import cpu_use, energy, gpu_use
from hpclaunch.reports.page.speed import typical_rate
from hpclaunch.runs.samples import last_start

_NOT_PREDICTED = (
    "Nothing was predicted for this run before it was submitted. hpclaunch plan predicts the next one, "
    "and uses the measurements of this run."
)


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


def predicted(recorded: RecordedRun, name: str) -> tuple[float, float, float] | None:
    """Return the 10, 50 and 90 % quantile of ``samples_per_s`` or ``training_s``; None if nothing was predicted."""
    found = recorded.spec.get("prediction")
    listed = found.get(name) if isinstance(found, dict) else None
    if not isinstance(listed, list | tuple) or len(listed) != 3:
        return None
    values = [value for one in listed if (value := finite(one)) is not None and value > 0]
    return (values[0], values[1], values[2]) if len(values) == 3 else None


def _prediction_words(recorded: RecordedRun) -> str:
    """Return what the prediction of the run rests on."""
    if predicted(recorded, "samples_per_s") is None:
        return _NOT_PREDICTED
    rests = (
        "on measured runs of this job"
        if recorded.spec["prediction"].get("measured") is True
        else ("on the figures of the model and of the site alone, as this job had no measured run here")
    )
    return f"The prediction was made before the run, with its 80 % interval in parentheses. It rests {rests}."


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
    rate, time_s = typical_rate(recorded.epochs), _training_time(recorded)
    yield from _predicted_row("samples per second", predicted(recorded, "samples_per_s"), rate, short)
    yield from _predicted_row("time of the training", predicted(recorded, "training_s"), time_s, duration)


def _predicted_row(
    name: str, plan: tuple[float, float, float] | None, measured: float | None, words: Callable[[float], str]
) -> Iterator[tuple[Value, ...]]:
    """Yield a predicted value beside the measured one, if this is known. ``words``: writes a value with its unit."""
    if measured is None:
        return
    if plan is None:
        yield name, "not predicted", words(measured), None
        return
    low, middle, high = map(words, plan)
    yield name, f"{middle} ({low} to {high})", words(measured), percent(measured / plan[1])


def _training_time(recorded: RecordedRun) -> float | None:
    """Return the time of all epochs together in seconds; None if the run did not make every epoch once."""
    epochs = whole_number(recorded.parameters.get("epochs", ""))
    times = [time for epoch in recorded.epochs if (time := finite(epoch.get("seconds"))) is not None]
    return sum(times) if epochs and epochs == len(times) and not recorded.repeated else None


def _machine_rows(recorded: RecordedRun) -> Iterator[tuple[Value, ...]]:
    nodes = recorded.nodes
    use, gpus = cpu_use(nodes), gpu_use(nodes)
    if use is not None:
        cpus = max(node.cpus or 0 for node in nodes)
        yield "CPUs of each node", count(cpus, "CPU"), f"{use * cpus:.3g} busy on average", percent(use)
    if gpus is not None:
        number = sum(len(node.gpus) for node in last_start(nodes))
        yield "GPUs", count(number, "GPU"), f"{gpus * number:.3g} busy on average", percent(gpus)
    most = max((node.most_memory for node in nodes if node.most_memory), default=None)
    if most is not None:
        asked = whole_number(choice_of(recorded.spec, "memory"))
        limit = asked * 2**20 if asked else max((node.memory_limit or 0 for node in nodes), default=0)
        yield (
            *("memory of a node", bytes_in_words(limit) if limit else "no limit known", bytes_in_words(most)),
            percent(most / limit) if limit else None,
        )
