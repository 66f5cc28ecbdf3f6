"""What a run's directory tells of its speed: samples a second, noise scale, time outside the steps; it asks nobody."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from statistics import median
from typing import Any

from hpclaunch.config.job import Job
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.files import read_text
from hpclaunch.core.records import record
from hpclaunch.core.spec import MIRRORED, MULTIWORKER
from hpclaunch.core.units import count
from hpclaunch.guidelines.stragglers import of_a_rank
from hpclaunch.planner.measured.calibration_file import Calibration, Noise, Point
from hpclaunch.runs import Run, swept

WARM_UP = 1
"""Epochs that do not count: TensorFlow traces the step in the first one."""
RATES = ("samples_per_s", "images_per_s")
"""What a job may call its throughput in the line of an epoch (docs/contract.md)."""


@record
class MeasuredRun:
    """A run as its directory tells it. ``rates``: samples a second of all ranks, epoch by epoch, the first one too.

    ``steps``: of the epochs that count. ``straggling``: relative standard deviation of a rank's steps, if it is told.
    """

    run: Run
    nodes: int
    ranks_per_node: int
    per_rank: int
    accumulation: int
    rates: tuple[float, ...]
    steps: float
    straggling: float | None
    noise: Noise | None
    overhead_s: float | None
    synthetic: bool

    @property
    def point(self) -> Point | None:
        """The median of the epochs that count, or None where no epoch does."""
        counting = self.rates[WARM_UP:]
        if not counting:
            return None
        return Point(
            nodes=self.nodes,
            ranks_per_node=self.ranks_per_node,
            per_rank=self.per_rank,
            accumulation=self.accumulation,
            samples_per_s=median(counting),
            straggling=self.straggling,
            runs=(self.run.label,),
        )


def measured(run: Run, job: Job) -> MeasuredRun:
    """Return what a run of the job tells. Raises Refused if it is no run of this job, or says no batch size."""
    spec = run.spec()
    layout, command = spec.get("layout"), spec.get("command")
    if run.name != job.name or not isinstance(layout, dict) or not isinstance(command, list):
        raise Refused(Fault(where=str(run.path), what=f"is no run of {job.name}", next="hpclaunch runs list"))
    if spec.get("strategy") in (MIRRORED, MULTIWORKER):
        what = f"trained under {spec['strategy']}; what is planned are Horovod's runs"
        raise Refused(Fault(where=str(run.path), what=what))
    parameters = {**run.parameters(), **_options(command), **swept(run)}
    per_rank = _whole_number(parameters, job.parameter_for("batch_size_per_rank"))
    if per_rank is None:
        raise Refused(Fault(where=str(run.path), what="its parameters name no batch size per rank"))
    events = run.metrics()
    epochs = [event for event in events if event.get("event") == "epoch"]
    rates = [rate for event in epochs if (rate := _rate(event)) is not None]
    accumulation = _whole_number(parameters, job.parameter_for("accumulation")) or 1
    nodes, ranks_per_node = int(layout["nodes"]), int(layout["tasks_per_node"])
    ranks = nodes * ranks_per_node
    per_rank = _reported_batch(events, ranks * accumulation) or per_rank
    return MeasuredRun(
        run=run,
        nodes=nodes,
        ranks_per_node=ranks_per_node,
        per_rank=per_rank,
        accumulation=accumulation,
        rates=tuple(rates),
        steps=_samples(epochs) / (ranks * per_rank * accumulation),
        straggling=_step_spread(epochs, ranks),
        noise=_noise(events),
        overhead_s=_overhead(run, epochs),
        synthetic=any(event.get("synthetic") is True for event in events),
    )


def _reported_batch(events: Sequence[dict[str, Any]], parts: int) -> int | None:
    """The batch size per rank by the run's own first line, where a job has divided a global batch among its ranks."""
    told = next((event.get("global_batch_size") for event in events if event.get("event") == "start"), None)
    return told // parts if isinstance(told, int) and told >= parts and told % parts == 0 else None


def calibration_of(found: Sequence[MeasuredRun]) -> Calibration:
    """Return what the runs tell together. Raises Refused with every run that tells nothing."""
    silent = [one.run for one in found if one.point is None]
    if silent or not found:
        raise Refused([_silence(run) for run in silent] or [Fault(what="no run was measured")])
    widest = max(found, key=lambda one: one.nodes * one.ranks_per_node)
    heard = [one.noise for one in found if one.noise is not None and not one.synthetic]
    nodes = sorted({one.nodes for one in found})
    when = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    origin = f"{count(len(found), 'run')} on {' and '.join(map(str, nodes))} node{'s' * (nodes != [1])}, {when}"
    return Calibration(
        points=tuple(one.point for one in found if one.point is not None),
        noise_scale=max(heard, key=lambda noise: noise.steps) if heard else None,
        overhead_s=widest.overhead_s,
        origin=origin + (", on stand-in samples" if any(one.synthetic for one in found) else ""),
    )


def _silence(run: Run) -> Fault:
    what = f"is {run.state} and tells the speed of no epoch after the first"
    return Fault(where=run.label, what=what, next=f"hpclaunch logs {run.label}; or a longer --walltime")


def _options(command: Sequence[Any]) -> dict[str, str]:
    """Return the --name=value words of a command as parameters: what was typed after ``--`` is among them."""
    words = [str(word)[2:] for word in command if str(word).startswith("--") and "=" in str(word)]
    return {name.replace("-", "_"): value for name, _, value in (word.partition("=") for word in words)}


def _whole_number(parameters: Mapping[str, str], name: str) -> int | None:
    """Return a parameter that is a whole number above zero."""
    text = parameters.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else None


def _rate(event: dict[str, Any]) -> float | None:
    return next((rate for name in RATES if (rate := _positive_number(event.get(name))) is not None), None)


def _samples(epochs: Sequence[dict[str, Any]]) -> float:
    """Samples of the epochs that count, of all ranks."""
    return sum((_rate(event) or 0.0) * (_positive_number(event.get("seconds")) or 0.0) for event in epochs[WARM_UP:])


def _step_spread(epochs: Sequence[dict[str, Any]], ranks: int) -> float | None:
    """How much one rank's steps vary: the median of the epochs that count, in which all ranks wait for the slowest."""
    found = [spread for event in epochs[WARM_UP:] if (spread := _positive_number(event.get("step_spread"))) is not None]
    return round(of_a_rank(median(found), ranks), 5) if found else None


def _positive_number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 < value < math.inf else None


def _noise(events: Sequence[dict[str, Any]]) -> Noise | None:
    """The last noise scale that is known with both ends of its interval."""
    for event in reversed(events):
        if event.get("event") != "noise_scale":
            continue
        value, low, high = (_positive_number(event.get(name)) for name in ("noise_scale", "low", "high"))
        steps = event.get("steps")
        if value is not None and low is not None and high is not None and low <= value <= high:
            return Noise(value=value, low=low, high=high, steps=steps) if isinstance(steps, int) and steps else None
    return None


def _overhead(run: Run, epochs: Sequence[dict[str, Any]]) -> float | None:
    """Seconds of the run outside its steps: from its start to its end, without its epochs as fast as the later ones."""
    seconds = [found for event in epochs if (found := _positive_number(event.get("seconds"))) is not None]
    attempts = run.attempts()
    if len(seconds) <= WARM_UP or len(attempts) != 1 or run.state != "COMPLETED":
        return None
    folder = run.path / "attempts" / attempts[0]
    try:
        began = datetime.strptime(read_text(folder / "started").strip(), "%Y-%m-%dT%H:%M:%SZ")
        ended = (folder / "exit-code").stat().st_mtime
    except (OSError, ValueError):
        return None
    whole = ended - began.replace(tzinfo=timezone.utc).timestamp()
    return round(max(0.0, whole - len(seconds) * median(seconds[WARM_UP:])), 1)
