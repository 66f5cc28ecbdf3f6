"""Shows how well runs used what they asked for: one run in detail, several in a table, or one line; decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from hpclaunch.actions.following.efficiency import ACCOUNTING, START_S, Efficiency, efficiencies
from hpclaunch.cli.show.console import say, show_bytes, table, write, write_json
from hpclaunch.core.units import count, format_walltime
from hpclaunch.guidelines.utilization import Quantity, percent
from hpclaunch.runs import Run, tasks_of
from hpclaunch.runs.samples import evidence_of

_UNITS: dict[str, Callable[[float], str]] = {
    "bytes": lambda amount: show_bytes(int(amount)),
    "s": lambda amount: format_walltime(int(amount)),
    "cores": lambda amount: f"{amount:.3g} {'core' if amount == 1 else 'cores'}",
    "GPUs": lambda amount: f"{amount:.3g} {'GPU' if amount == 1 else 'GPUs'}",
}
_SOURCES = {
    "cgroup": "the job's cgroup, sampled",
    "proc": "the ranks' processes, sampled",
    "pss": "the ranks' PSS, sampled",
    "rss": "the ranks' resident memory, sampled",
    "nvml": "NVML, sampled",
    "rocm-smi": "ROCm SMI, sampled",
    "amdgpu": "the files of amdgpu, sampled",
    ACCOUNTING: "the scheduler's accounting",
}
_ENERGY = {
    ACCOUNTING: "its nodes, by the scheduler's accounting",
    "rapl": "processors and memory of its nodes, by RAPL",
    "gpu": "its GPUs, by their driver",
    "rapl+gpu": "processors and memory of its nodes by RAPL, and its GPUs by their driver",
}
_COLUMNS = ("CPU", "memory", "GPU", "time")
_MOST_RUNS = 1000
"""Of a larger array so many runs make up the line at its end."""


def show_efficiencies(found: Sequence[Efficiency], as_json: bool) -> None:
    """Show one run in detail, and several as a table of shares."""
    if as_json:
        write_json("efficiency", {"runs": [one.to_json() for one in found]})
    elif len(found) == 1:
        _show_run(found[0])
    elif found:
        rows = [(one.run.label, one.run.state, *_columns_of(one), _next_options(one)) for one in found]
        table(("run", "state", *_COLUMNS, "next time"), rows, state_column=1)
    else:
        say("no run of this time has begun; hpclaunch status lists all")


def show_line(found: Sequence[Run]) -> None:
    """Say in one line how well runs that have ended used what they asked for; nothing if it is not known."""
    first = [tasks_of(run, range(min(run.tasks, _MOST_RUNS))) if run.tasks else [run] for run in found[:_MOST_RUNS]]
    ended = [run for some in first for run in some if run.final][:_MOST_RUNS]
    known = [one for one in efficiencies(ended, ask=False) if one.is_known and _seconds(one) >= START_S]
    if len(known) == 1:
        _say_of_one(known[0])
    elif known:
        _say_of_several(known, " ".join(run.label for run in found[:3]))


def _say_of_one(one: Efficiency) -> None:
    evidence = _evidence(one)
    shares = [f"{name} {percent(share)}{evidence.get(name, '')}" for name, share in _shares(one).items()]
    advice = _next_options(one) or next((other.words for other in one.suggestions), "")
    more = f"; next time: {advice}" if advice else ""
    say(f"  used of what it asked for: {', '.join(shares)}{more} (hpclaunch efficiency {one.run.label})")


def _say_of_several(known: Sequence[Efficiency], label: str) -> None:
    """Say the median of each share. ``label``: the runs as they are named to see more of them."""
    by_name: dict[str, list[float]] = {}
    for one in known:
        for name, share in _shares(one).items():
            by_name.setdefault(name, []).append(share)
    measured = [quantity for one in known for quantity in one.quantities if quantity.samples and quantity.share]
    total = evidence_of(sum(one.samples for one in measured), sum(one.seconds for one in measured))
    words = []
    for name, shares in by_name.items():
        text = f"{name} {percent(median(shares))}"
        if measured and name == "GPU":  # what is sampled over time rests on so much
            text += f" ({total})"
        words.append(text)
    used = f"{count(len(known), 'run')} used of what they asked for (median): {', '.join(words)}"
    say(f"  {used} (hpclaunch efficiency {label})")


def _columns_of(one: Efficiency) -> list[str]:
    """Return the shares of a run in the table of several, and what they were measured by."""
    shares, evidence = _shares(one), _evidence(one)
    columns = []
    for name in _COLUMNS:
        share = shares.get(name)
        columns.append("-" if share is None else f"{percent(share)}{evidence.get(name, '')}")
    return columns


def _seconds(one: Efficiency) -> float:
    return next((quantity.used or 0.0 for quantity in one.quantities if quantity.name == "time"), 0.0)


def _shares(one: Efficiency) -> dict[str, float]:
    """Return name -> share of the quantities that fit into a line."""
    known = {
        quantity.name: quantity.share for quantity in one.quantities if quantity.name not in ("GPU SMs", "GPU memory")
    }
    return {name: share for name, share in known.items() if share is not None}


def _evidence(one: Efficiency) -> dict[str, str]:
    """Return name -> what its share was measured by, in brackets, of the quantities whose use is sampled over time."""
    return {
        quantity.name: f" ({evidence_of(quantity.samples, quantity.seconds)})"
        for quantity in one.quantities
        if quantity.samples
    }


def _next_options(one: Efficiency) -> str:
    """Return the options of all suggestions, each once: those about GPUs decide before those about CPUs."""
    pairs: dict[str, str] = {}
    for suggestion in one.suggestions:
        for option, value in zip(suggestion.options[::2], suggestion.options[1::2], strict=True):
            pairs.setdefault(option, value)
    return " ".join(f"{option} {value}" for option, value in pairs.items())


def _row_of(quantity: Quantity, source: str) -> tuple[str, str, str, str, str]:
    """Return a quantity of a run in its table: name, used, asked for, share, and what it was measured by."""
    by = _SOURCES.get(source, source)
    share = "-"
    if quantity.share is not None:
        share = percent(quantity.share)
    elif quantity.samples:
        share = "too short to judge"
    if quantity.samples:
        by = by.replace("sampled", evidence_of(quantity.samples, quantity.seconds))
    show = _UNITS[quantity.unit]
    used, asked = ("-" if amount is None else show(amount) for amount in (quantity.used, quantity.asked))
    return quantity.name, used, asked, share, by


def _show_run(one: Efficiency) -> None:
    rows = [_row_of(quantity, one.sources.get(quantity.name, "")) for quantity in one.quantities]
    if one.energy:
        source = one.energy.source
        rows.append(("energy", f"{one.energy.joules / 1000:.4g} kJ", "-", "-", _ENERGY.get(source, source)))
    say(f"{one.run.label}: {one.run.state}")
    table(("resource", "used", "asked for", "share", "measured by"), rows)
    if one.mfu is not None:
        share, expected = percent(one.mfu.reached), percent(one.mfu.expected)
        say(f"  model FLOP utilization: {share}, {expected} expected, of {one.mfu.peak}")
    if len(one.ranks) > 1:
        ordered = sorted(one.ranks, key=lambda rank: one.ranks[rank])
        ends = [f"{one.ranks[rank]:.3g} cores (rank {rank})" for rank in (ordered[0], ordered[-1])]
        say(f"  ranks: {' to '.join(ends)}")
    for text in one.unknown:
        say(f"  {text}")
    for suggestion in one.suggestions:
        subject = "It " if suggestion.kind == "used" else ""
        write(f"{subject}{suggestion.words}.\n")
    if not one.suggestions and one.is_known:
        say("  it used what it asked for well enough: nothing to change")
