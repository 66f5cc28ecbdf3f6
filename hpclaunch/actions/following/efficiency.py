"""How well runs used what they asked for: from their samples, else from the scheduler's accounting, asked once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from statistics import median
from typing import Any

from hpclaunch import runs
from hpclaunch.core import inside
from hpclaunch.core.records import record
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.core.spec_parts import utilization_at
from hpclaunch.core.units import parse_memory
from hpclaunch.guidelines.utilization import Quantity, Suggestion, Usage, quantities, suggestions
from hpclaunch.planner.measured.measurement import WARM_UP, rate_of
from hpclaunch.runs import Run
from hpclaunch.runs.recorded_layout import further_layouts, options_of, walltime_of
from hpclaunch.runs.samples import FOLDER, JUDGED_S, NodeSamples, evidence_of, gpu_time, samples_of
from hpclaunch.schedulers import JobUsage, scheduler_of

START_S = 60
"""Seconds; a shorter run mostly starts up."""
ACCOUNTING = "accounting"
"""The source of what no sampler, but the scheduler, has measured."""


@record
class Energy:
    """The energy of a run in joules, and its source: ``accounting`` (whole nodes), ``rapl`` (processors), ``gpu``."""

    joules: float
    source: str


@record
class Utilized:
    """Model FLOP utilization: what a run reached and what was expected, of the ``peak`` in words."""

    reached: float
    expected: float
    peak: str


@record
class Efficiency:
    """What one run used of what it asked for.

    ``sources``: the name of a quantity -> where it was measured. ``ranks``: the cores that each measured rank used on
    average. ``unknown``: why something is not known, one sentence each. ``mfu``: None if the run recorded no expected
    utilization, or no epoch after the first.
    """

    run: Run
    quantities: tuple[Quantity, ...]
    suggestions: tuple[Suggestion, ...]
    sources: Mapping[str, str]
    ranks: Mapping[int, float]
    energy: Energy | None
    unknown: tuple[str, ...]
    mfu: Utilized | None = None

    @property
    def is_known(self) -> bool:
        """Whether anything but the time is known."""
        return any(one.share is not None for one in self.quantities if one.name != "time")

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "run": self.run.id,
            "run_dir": str(self.run.path),
            "state": self.run.state,
            "quantities": [
                {"name": one.name, "used": _round(one.used), "asked": one.asked, "unit": one.unit}
                | {"share": _round(one.share)}
                | {"source": self.sources.get(one.name)}
                | ({"samples": one.samples, "seconds": one.seconds} if one.samples else {})
                for one in self.quantities
            ],
            "ranks": {str(rank): {"cores": cores} for rank, cores in self.ranks.items()},
            "energy": {"joules": self.energy.joules, "source": self.energy.source} if self.energy else None,
            "suggestions": [
                {"about": one.about, "words": one.words, "options": list(one.options), "source": one.source}
                for one in self.suggestions
            ],
            "unknown": list(self.unknown),
            "mfu": {"reached": _round(self.mfu.reached), "expected": _round(self.mfu.expected), "peak": self.mfu.peak}
            if self.mfu
            else None,
        }


def _round(number: float | None) -> float | None:
    return None if number is None else round(number, 4)


def efficiencies(found: Sequence[Run], ask: bool = True) -> list[Efficiency]:
    """Return what the runs used, those that have begun: each run of an array for itself.

    With ``ask`` the scheduler's accounting is asked, with one call for all runs. Otherwise it is asked about those that
    were not sampled, and whose longest start took at least a minute: a shorter run mostly starts up.
    """
    begun = [run for run in runs.each(found) if run.attempts()]
    sampled = {run.path: samples_of(run.home, run.name_of(FOLDER)) for run in begun}
    accounted = _accounts([run for run in begun if ask or (not sampled[run.path] and _longest_start(run) >= START_S)])
    return [_efficiency(run, sampled[run.path], accounted.get(runs.identity_of(run))) for run in begun]


def _accounts(found: Iterable[Run]) -> dict[runs.JobIdentity, JobUsage]:
    by_scheduler: dict[str, list[Run]] = {}
    for run in found:
        if run.job_id and not run.allocation:  # what ran in an allocation has no account of its own
            by_scheduler.setdefault(run.scheduler, []).append(run)
    accounted: dict[runs.JobIdentity, JobUsage] = {}
    for name, own in by_scheduler.items():
        accounted.update(scheduler_of(name).usage(runs.Jobs(own)))
    return accounted


def _efficiency(run: Run, nodes: Sequence[NodeSamples], account: JobUsage | None) -> Efficiency:
    spec = run.spec()
    usage = _request_of(run, spec, account)
    if nodes:
        usage = _add_samples(usage, nodes)
    elif account is not None:
        usage = _add_account(usage, account)
    return Efficiency(
        run=run,
        quantities=quantities(usage),
        suggestions=suggestions(usage),
        sources=_sources(nodes, account),
        ranks=_cores_of_ranks(nodes),
        energy=_energy(nodes, account),
        unknown=_unknown(run, usage, nodes, account),
        mfu=_utilization_of(run, spec),
    )


def _utilization_of(run: Run, spec: Mapping[str, Any]) -> Utilized | None:
    """Return the model FLOP utilization, by the median rate of the epochs after the first one."""
    predicted = spec.get("predicted")
    if not isinstance(predicted, dict) or not predicted.get("mfu"):
        return None  # most runs: their epochs are not read
    rates = [rate for event in run.metrics() if event.get("event") == "epoch" and (rate := rate_of(event)) is not None]
    counting = rates[WARM_UP:]
    found = utilization_at(predicted, median(counting)) if counting else None
    return Utilized(reached=found[0], expected=found[1], peak=found[2]) if found else None


def _request_of(run: Run, spec: Mapping[str, Any], account: JobUsage | None) -> Usage:
    """Return what the run asked for; of a damaged record, what accounting has of it."""
    layout = spec.get("layout")
    layouts = [layout if isinstance(layout, dict) else {}, *further_layouts(spec)]
    first = {name: _number_in(layouts[0], name) for name in _NAMES}
    seconds = _longest_start(run)
    return Usage(
        nodes=sum(_number_in(one, "nodes") for one in layouts) or 1,
        tasks_per_node=first["tasks_per_node"] or 1,
        cpus_per_task=first["cpus_per_task"] or 1,
        cpus_per_core=first["cpus_per_core"] or 1,
        gpus_per_node=0 if layouts[0].get("stand_in_gpus") is True else first["gpus_per_node"],
        seconds=seconds or (account.seconds if account else 0.0),
        walltime=walltime_of(spec),
        cores_asked=sum(_cores(one) * _number_in(one, "nodes") for one in layouts),
        memory_asked=_memory_asked(spec) or (account.memory_asked if account else None),
        is_complete=run.state == "COMPLETED" and len(run.attempts()) == 1,
        is_mixed=len(layouts) > 1,
    )


_NAMES = ("tasks_per_node", "cpus_per_task", "cpus_per_core", "gpus_per_node")


def _number_in(layout: Mapping[str, Any], name: str) -> int:
    value = layout.get(name)
    return value if isinstance(value, int) and 0 < value < 2**31 else 0


def _cores(layout: Mapping[str, Any]) -> float:
    """Return the physical cores that the tasks of one node asked for."""
    cpus = _number_in(layout, "tasks_per_node") * _number_in(layout, "cpus_per_task")
    return cpus / (_number_in(layout, "cpus_per_core") or 1)


def _memory_asked(spec: Mapping[str, Any]) -> int | None:
    """Return the bytes per node that the script asks for; None if it leaves that to the site."""
    try:
        return parse_memory(options_of(spec).get("mem", "")) * 2**20
    except ValueError:
        return None


def _longest_start(run: Run) -> float:
    """Return the seconds of the longest start that has ended, as its markers say; 0 if none has."""
    lengths = [0.0]
    for name in run.attempts():
        folder = run.name_of(f"attempts/{name}")
        ended = inside.changed_at(run.home, f"{folder}/exit-code")
        try:
            began = datetime.strptime(inside.read_text(run.home, f"{folder}/started").strip(), "%Y-%m-%dT%H:%M:%SZ")
        except ValueError:
            continue
        if ended is None:
            continue
        lengths.append(ended - began.replace(tzinfo=timezone.utc).timestamp())
    return max(lengths)


def _add_samples(usage: Usage, nodes: Sequence[NodeSamples]) -> Usage:
    """Return the usage with what was sampled, in all starts together."""
    cores = usage.cores_asked / usage.nodes
    possible = sum(node.seconds * cores for node in nodes if node.cpu is not None)
    used = sum(node.cpu for node in nodes if node.cpu is not None)
    gpus, (gpu_memory, size) = gpu_time(nodes), _gpu_memory(nodes)
    limits = [node.memory_limit for node in nodes if node.memory_limit]
    return replace(
        usage,
        seconds=max([usage.seconds, *(node.seconds for node in nodes)]),
        cores=used / possible * usage.cores_asked if possible else None,
        busiest_rank=max(_cores_of_ranks(nodes).values(), default=None),
        memory=max((node.most_memory for node in nodes if node.most_memory is not None), default=None),
        memory_asked=usage.memory_asked or min(limits, default=None),
        gpus=gpus.shares if gpus is not None and gpus.is_judged else (),
        gpu_sms=gpus.sms if gpus is not None and gpus.is_judged else (),
        gpu_samples=gpus.samples if gpus is not None else 0,
        gpu_seconds=gpus.seconds if gpus is not None else 0.0,
        gpu_memory=gpu_memory,
        gpu_memory_size=size,
    )


def _add_account(usage: Usage, account: JobUsage) -> Usage:
    """Return the usage with what accounting has: of the last start alone."""
    used, seconds = account.core_seconds, account.seconds
    cores = usage.cores_asked or account.cpus / usage.cpus_per_core
    mean = min(used / seconds, cores) if used is not None and seconds else None
    return replace(usage, cores=mean, cores_asked=cores, memory=account.memory)


def _cores_of_ranks(nodes: Sequence[NodeSamples]) -> dict[int, float]:
    """Return rank -> the cores that it used on average, in all starts."""
    seconds: dict[int, float] = {}
    used: dict[int, float] = {}
    for node in nodes:
        for rank in node.ranks:
            cpu = node.rank_cpu(rank)
            if cpu is not None and node.seconds > 0:
                used[rank] = used.get(rank, 0.0) + cpu
                seconds[rank] = seconds.get(rank, 0.0) + node.seconds
    return {rank: round(used[rank] / seconds[rank], 3) for rank in sorted(used)}


def _gpu_memory(nodes: Sequence[NodeSamples]) -> tuple[int | None, int | None]:
    """Return the peak of the fullest GPU's memory, of the job's own processes where that is known, and its size."""
    peaks = []
    for node in nodes:
        for sample in node.samples:
            for device, gpu in zip(node.gpus, sample.gpus, strict=False):
                if gpu.memory is not None and device.memory:
                    peaks.append((gpu.memory if gpu.own is None else gpu.own, device.memory))
    return max(peaks, default=(None, None))


def _sources(nodes: Sequence[NodeSamples], account: JobUsage | None) -> dict[str, str]:
    if not nodes:
        return dict.fromkeys(("CPU", "memory"), ACCOUNTING) if account else {}
    names = {"CPU": "cpu", "memory": "memory", "GPU": "gpu", "GPU SMs": "gpu", "GPU memory": "gpu"}
    found = {
        name: next((node.sources[key] for node in nodes if key in node.sources), "") for name, key in names.items()
    }
    return {name: source for name, source in found.items() if source}


def _energy(nodes: Sequence[NodeSamples], account: JobUsage | None) -> Energy | None:
    """Return the energy: the scheduler's, which is of whole nodes, else what the sampler could measure."""
    if account is not None and account.joules:
        return Energy(joules=account.joules, source=ACCOUNTING)
    measured = [(node.joules, node.sources.get("energy", "")) for node in nodes if node.joules is not None]
    sources = sorted({source for _, source in measured if source})
    return (
        Energy(joules=round(sum(joules for joules, _ in measured), 1), source=", ".join(sources)) if sources else None
    )


def _unknown(run: Run, usage: Usage, nodes: Sequence[NodeSamples], account: JobUsage | None) -> tuple[str, ...]:
    """Return why something is not known."""
    why = []
    if not nodes and account is None:
        why.append("nothing is known but its time: it has no samples, and the scheduler no account of it")
    elif not nodes:
        why.append("it has no samples: CPU and memory are the accounting's of its last start, and GPUs are not known")
    elif len({node.node for node in nodes}) < usage.nodes:
        why.append(f"only {len({node.node for node in nodes})} of its {usage.nodes} nodes were measured")
    if nodes and usage.gpus_per_node and not usage.gpus:
        why += _unknown_gpus(usage, nodes)
    if usage.memory is not None and not usage.memory_asked and scheduler_row(run.scheduler).has_queue:
        why.append("it asked for no amount of memory (--memory)")
    return tuple(why)


def _unknown_gpus(usage: Usage, nodes: Sequence[NodeSamples]) -> list[str]:
    """Return why the use of the GPUs is not known."""
    if usage.gpu_samples:
        evidence = evidence_of(usage.gpu_samples, usage.gpu_seconds)
        return [f"its GPUs: too short to judge ({evidence}; each must be measured for {JUDGED_S:.0f} s)"]
    if any(node.gpus for node in nodes):
        return ["the use of its GPUs is not known: the driver does not measure it, or single moments were read"]
    return ["its GPUs are not known: neither NVML nor ROCm SMI answered on its nodes, or none was visible"]
