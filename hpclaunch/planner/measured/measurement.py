"""Measurements from a run directory: samples/s, noise scale, time outside the steps; it starts no program."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from statistics import median
from typing import Any

from hpclaunch.config.job import Job, Role
from hpclaunch.core import inside
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.records import record
from hpclaunch.core.spec import HOROVOD
from hpclaunch.core.units import count
from hpclaunch.guidelines.scaling import StepSplit, median_split, split_of_event
from hpclaunch.guidelines.stragglers import of_a_rank
from hpclaunch.planner.measured.calibration_file import Calibration, Noise, Point
from hpclaunch.planner.measured.log_formats import can_be
from hpclaunch.runs import Run, swept

WARM_UP = 1
"""The number of first epochs that do not count: in the first one TensorFlow traces the step."""
STEADY, STEADY_PROFILE, MOSTLY = 0.10, 0.25, 0.75
"""A run was not disturbed if three quarters of its epochs are within 10 % of their median; those of a profile, whose
epochs are short, within 25 %. hpclaunch's own numbers."""
RATES = ("samples_per_s", "images_per_s")
"""The names that a job may use for its throughput in the line of an epoch (docs/contract.md)."""


@record
class MeasuredRun:
    """The measurements of a run. ``rates``: samples/s of all ranks in every epoch, the first one included.

    ``ranks_per_replica``: ranks that hold the model together; ``per_rank`` is the batch of all of them.
    ``steps``: those of the epochs that count. ``straggling``: relative standard deviation of a rank's steps, if known.
    ``save_s``: the median seconds of a checkpoint, if its program reports them.
    """

    run: Run
    nodes: int
    ranks_per_node: int
    per_rank: int
    accumulation: int
    ranks_per_replica: int
    rates: tuple[float, ...]
    steps: float
    straggling: float | None
    noise: Noise | None
    overhead_s: float | None
    synthetic: bool
    save_s: float | None = None

    def is_steady(self, within: float) -> bool:
        """Whether most of the epochs that count are ``within`` this share of their median."""
        rates = self.rates[WARM_UP:]
        middle = median(rates)
        return sum(abs(rate / middle - 1) <= within for rate in rates) >= MOSTLY * len(rates)

    @property
    def point(self) -> Point | None:
        """The median of the epochs that count, or None if no epoch counts."""
        counting = self.rates[WARM_UP:]
        if not counting:
            return None
        return Point(
            nodes=self.nodes,
            ranks_per_node=self.ranks_per_node,
            per_rank=self.per_rank,
            accumulation=self.accumulation,
            ranks_per_replica=self.ranks_per_replica,
            samples_per_s=median(counting),
            straggling=self.straggling,
            runs=(self.run.id,),
        )


def measured(run: Run, job: Job) -> MeasuredRun:
    """Return the measurements of a run.

    Raises Refused if it is not a run of this job, has no batch size, or has files that hpclaunch has not written so.
    """
    try:
        return _read_measurements(run, job)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        what, next_step = "its record is damaged", "choose another run: hpclaunch runs list"
        raise Refused(Fault(where=str(run.path), what=what, next=next_step)) from None


def _read_measurements(run: Run, job: Job) -> MeasuredRun:
    spec = run.spec()
    layout, command = spec.get("layout"), spec.get("command")
    if run.name != job.name or not isinstance(layout, dict) or not isinstance(command, list):
        what = f"is not a run of {job.name}"
        raise Refused(Fault(where=str(run.path), what=what, next="choose another run: hpclaunch runs list"))
    if spec.get("strategy") not in (None, "", HOROVOD):
        what = f"trained under {spec['strategy']}, but only runs of Horovod are planned"
        raise Refused(Fault(where=str(run.path), what=what))
    parameters = {**run.parameters(), **_options(command), **swept(run)}
    per_rank = _whole_number(parameters, job.parameter_for("batch_size_per_rank"))
    if per_rank is None:
        raise Refused(Fault(where=str(run.path), what="its parameters contain no batch size per rank"))
    events = [event for event in run.metrics() if event.get("event") in _READ_EVENTS]
    epochs = [event for event in events if event.get("event") == "epoch"]
    rates = [rate for event in epochs if (rate := rate_of(event)) is not None and can_be("samples_per_s", rate)]
    accumulation = _whole_number(parameters, job.parameter_for("accumulation")) or 1
    nodes, ranks_per_node = int(layout["nodes"]), int(layout["tasks_per_node"])
    ranks = nodes * ranks_per_node
    shared = _ranks_per_replica(parameters, job)
    parts = ranks // shared * accumulation
    per_rank = _reported_batch(events, parts) or per_rank
    return MeasuredRun(
        run=run,
        nodes=nodes,
        ranks_per_node=ranks_per_node,
        per_rank=per_rank,
        accumulation=accumulation,
        ranks_per_replica=shared,
        rates=tuple(rates),
        steps=_samples(epochs) / (parts * per_rank),
        straggling=_step_spread(epochs, ranks),
        noise=_noise(events),
        overhead_s=_overhead(run, epochs),
        synthetic=any(event.get("synthetic") is True for event in events),
        save_s=_save_seconds(events),
    )


def _ranks_per_replica(parameters: Mapping[str, str], job: Job) -> int:
    """Return the ranks that hold one replica of the model."""
    roles: tuple[Role, ...] = ("tensor_parallel", "pipeline_stages")
    return math.prod(_whole_number(parameters, job.parameter_for(role)) or 1 for role in roles)


_READ_EVENTS = ("start", "epoch", "noise_scale", "checkpoint", "end")
"""The events of metrics.jsonl that count here; a job may write thousands of its own."""


def _reported_batch(events: Sequence[dict[str, Any]], parts: int) -> int | None:
    """Return the batch size per rank from the run's first event, if the job divides a global batch among its ranks."""
    reported = next((event.get("global_batch_size") for event in events if event.get("event") == "start"), None)
    if not isinstance(reported, int) or reported < parts or reported % parts != 0:
        return None
    return reported // parts


def calibration_of(runs: Sequence[MeasuredRun]) -> Calibration:
    """Return the calibration from all runs together.

    Raises Refused with every run that measured nothing, or whose epochs differ so much that something disturbed it.
    """
    if not runs:
        raise Refused(Fault(what="no run was measured"))
    silent = [run.run for run in runs if run.point is None]
    if silent:
        raise Refused([_silence(run) for run in silent])
    disturbed = [run for run in runs if not run.is_steady(STEADY_PROFILE)]
    if disturbed:
        raise Refused([_disturbance(run) for run in disturbed])
    widest = max(runs, key=lambda run: run.nodes * run.ranks_per_node)
    saves = [run.save_s for run in runs if run.save_s is not None]
    # The noise of synthetic samples says nothing about the user's data.
    noises = [run.noise for run in runs if run.noise is not None and not run.synthetic]
    return Calibration(
        points=tuple(run.point for run in runs if run.point is not None),
        noise_scale=max(noises, key=lambda noise: noise.steps, default=None),
        overhead_s=widest.overhead_s,
        save_s=median(saves) if saves else None,
        origin=_origin(runs),
    )


def _disturbance(run: MeasuredRun) -> Fault:
    rates = run.rates[WARM_UP:]
    what = f"was disturbed: its epochs ran at {min(rates):.4g} to {max(rates):.4g} samples/s"
    again = f"hpclaunch profile {run.run.name} --one-by-one, or with --sbatch --exclusive"
    return Fault(where=run.run.label, what=what, next=f"measure it again: {again}")


def _origin(runs: Sequence[MeasuredRun]) -> str:
    """Return how many runs on which node counts were measured, and when."""
    nodes = sorted({run.nodes for run in runs})
    noun = "node" if nodes == [1] else "nodes"
    when = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    origin = f"{count(len(runs), 'run')} on {' and '.join(map(str, nodes))} {noun}, {when}"
    return f"{origin}, with synthetic samples" if any(run.synthetic for run in runs) else origin


def _silence(run: Run) -> Fault:
    what = f"is {run.state} and reported the speed of no epoch after the first"
    return Fault(where=run.label, what=what, next=f"hpclaunch logs {run.label}; or use a longer --walltime")


def _options(command: Sequence[Any]) -> dict[str, str]:
    """Return the --name=value words of a command as parameters, those typed after ``--`` included."""
    words = [str(word)[2:] for word in command if str(word).startswith("--") and "=" in str(word)]
    return {name.replace("-", "_"): value for name, _, value in (word.partition("=") for word in words)}


def _whole_number(parameters: Mapping[str, str], name: str) -> int | None:
    """Return a parameter that is a whole number above zero."""
    text = parameters.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else None


def rate_of(event: dict[str, Any]) -> float | None:
    """Return the samples/s of all ranks in an ``epoch`` event, by any of its names; None if it has none."""
    return next((rate for name in RATES if (rate := _positive_number(event.get(name))) is not None), None)


def _samples(epochs: Sequence[dict[str, Any]]) -> float:
    """Return the samples of all ranks in the epochs that count."""
    return sum((rate_of(event) or 0.0) * (_positive_number(event.get("seconds")) or 0.0) for event in epochs[WARM_UP:])


def _step_spread(epochs: Sequence[dict[str, Any]], ranks: int) -> float | None:
    """Return how much one rank's steps vary: the median over the epochs that count.

    The recorded steps are those of all ranks together, which wait for the slowest.
    """
    found = [spread for event in epochs[WARM_UP:] if (spread := _positive_number(event.get("step_spread"))) is not None]
    return round(of_a_rank(median(found), ranks), 5) if found else None


def _positive_number(value: Any) -> float | None:
    try:
        return float(value) if isinstance(value, int | float) and 0 < value < math.inf else None
    except OverflowError:  # a whole number of hundreds of digits
        return None


def _noise(events: Sequence[dict[str, Any]]) -> Noise | None:
    """Return the last noise scale that has both ends of its interval."""
    for event in reversed(events):
        if event.get("event") != "noise_scale":
            continue
        value, low, high = (_positive_number(event.get(name)) for name in ("noise_scale", "low", "high"))
        steps = event.get("steps")
        if value is not None and low is not None and high is not None and low <= value <= high:
            return Noise(value=value, low=low, high=high, steps=steps) if isinstance(steps, int) and steps else None
    return None


def _save_seconds(events: Sequence[dict[str, Any]]) -> float | None:
    """Return the median seconds of a checkpoint, without the first: it makes the folder, and traces what it saves."""
    saved = (event.get("seconds") for event in events if event.get("event") == "checkpoint")
    seconds = [found for value in saved if (found := _positive_number(value)) is not None]
    return median(seconds[1:] or seconds) if seconds else None


def _overhead(run: Run, epochs: Sequence[dict[str, Any]]) -> float | None:
    """Return the seconds of the run outside its steps.

    They are the time from start to end, less that of all epochs at the speed of the later ones.
    """
    seconds = [found for event in epochs if (found := _positive_number(event.get("seconds"))) is not None]
    whole = elapsed_s(run)
    if len(seconds) <= WARM_UP or whole is None or run.state != "COMPLETED":
        return None
    return round(max(0.0, whole - len(seconds) * median(seconds[WARM_UP:])), 1)


def elapsed_s(run: Run) -> float | None:
    """Return the seconds from the start of a run's script to its end; None if it has not one start that ended."""
    attempts = run.attempts()
    if len(attempts) != 1:  # of a failed start, or of several, the whole time is not that of its epochs
        return None
    folder = run.name_of(f"attempts/{attempts[0]}")
    ended = inside.changed_at(run.home, f"{folder}/exit-code")
    try:
        began = datetime.strptime(inside.read_text(run.home, f"{folder}/started").strip(), "%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        return None
    return None if ended is None else ended - began.replace(tzinfo=timezone.utc).timestamp()


def split_of(run: Run) -> StepSplit | None:
    """Return the parts of the steps in the epoch of median speed, of those that count; None if none are reported."""
    epochs = [event for event in run.metrics() if event.get("event") == "epoch"][WARM_UP:]
    found = [(rate_of(event), split_of_event(event)) for event in epochs]
    return median_split([(rate, split) for rate, split in found if rate is not None and split is not None])
