"""Reads and writes calibration files: throughputs, a noise scale and the time outside the steps; it measures nothing.

docs/planning.md describes the format. A program may write JSON, since JSON is YAML too. Several processes may write
one file: a reader always sees a complete one, the newest.
"""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from hpclaunch.config.fileformat import AtLeast, Line, NotNegative, PositiveInt, read
from hpclaunch.core.errors import Fault, InvalidFile
from hpclaunch.core.files import write_text
from hpclaunch.core.records import record
from hpclaunch.core.units import count
from hpclaunch.guidelines.calibration import Measured
from hpclaunch.guidelines.efficiency import NoiseScale
from hpclaunch.guidelines.throughput import Shape
from hpclaunch.planner.job.question import Evidence
from hpclaunch.planner.measured.log_formats import LEAST_RATE, MOST_RATE


@record
class Point:
    """One measured layout: samples/s of all ranks, and the relative standard deviation of a rank's steps.

    ``ranks_per_replica``: ranks that hold a replica of the model together; ``per_rank`` is the batch of a replica.
    ``low`` and ``high``: the ends of its range, and ``steps``: how many it rests on, if they are known.
    ``runs``: names of the runs that were measured, if hpclaunch started them.
    """

    nodes: PositiveInt
    ranks_per_node: PositiveInt
    per_rank: PositiveInt
    accumulation: PositiveInt = 1
    ranks_per_replica: PositiveInt = 1
    samples_per_s: float
    low: float | None = None
    high: float | None = None
    steps: PositiveInt | None = None
    straggling: NotNegative | None = None
    runs: tuple[Line, ...] = ()

    def __post_init__(self) -> None:
        if not self.samples_per_s > 0:
            raise ValueError(f"samples_per_s must be above zero, not {self.samples_per_s}")
        ends = [self.samples_per_s if end is None else end for end in (self.low, self.high)]
        if not 0 < ends[0] <= self.samples_per_s <= ends[1]:
            raise ValueError("the range of a point needs 0 < low <= samples_per_s <= high")
        if not LEAST_RATE <= ends[0] <= ends[1] <= MOST_RATE:
            raise ValueError(f"samples_per_s, low and high must be from {LEAST_RATE:g} to {MOST_RATE:g}")


@record
class Noise:
    """A gradient noise scale (samples), its interval, and the number of averaged steps."""

    value: float
    low: float
    high: float
    steps: PositiveInt

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.value <= self.high < float("inf"):
            raise ValueError("a noise scale needs 0 < low <= value <= high")


FORMAT = 1
"""The version of the format that is written. A file without one has the first."""


@record
class Calibration:
    """A calibration file; ``overhead_s``: seconds of a run outside its steps (start-up, staging, evaluation).

    ``save_s``: seconds of a checkpoint. ``origin``: where the measurements come from, in words. Of a program without a
    job file: ``unit`` is what its rates count, ``batch_argument`` how its batch of a rank is typed, and ``arguments``
    the other words that it got. ``own_batch``: its batch is not known, and the same in all points; ``per_rank`` is 1.
    """

    format: PositiveInt = FORMAT
    points: Annotated[tuple[Point, ...], AtLeast(1)]
    unit: Literal["samples", "tokens", "steps"] = "samples"
    own_batch: bool = False
    batch_argument: Line = ""
    arguments: tuple[Line, ...] = ()
    noise_scale: Noise | None = None
    overhead_s: NotNegative | None = None
    save_s: NotNegative | None = None
    origin: Line = ""

    def __post_init__(self) -> None:
        if self.format > FORMAT:
            raise ValueError(f"format {self.format} is newer than this hpclaunch, which reads up to {FORMAT}")
        name = self.batch_argument
        if name and not any(word == name or word.startswith(f"{name}=") for word in self.arguments):
            raise ValueError(f"batch_argument must be among the arguments, and {name} is not")


def read_evidence(path: Path) -> Evidence:
    """Return the evidence in a calibration file. Raises InvalidFile with every fault."""
    calibration = read_calibration(path)
    return evidence_of(calibration, calibration.origin or str(path))


def read_calibration(path: Path) -> Calibration:
    """Return a calibration file. Raises InvalidFile with every fault."""
    if not os.path.isfile(path):
        what, hint = "the calibration file does not exist", "correct the path, or leave --calibration out"
        raise InvalidFile(Fault(where=str(path), what=what, next=hint))
    return read(path, Calibration)


def store(place: Path, measured: Calibration) -> None:
    """Write a calibration, in the format that ``plan --calibration`` reads too. Raises OSError."""
    place.parent.mkdir(parents=True, exist_ok=True)
    write_text(place, json.dumps(as_values(measured), indent=2) + "\n")


def as_values(measured: Calibration) -> dict[str, Any]:
    """Return the values of a calibration as its file holds them; unknown ones are left out."""
    usual = asdict(Calibration(points=measured.points))
    own = ("unit", "own_batch", "batch_argument", "arguments")
    known = {
        key: value
        for key, value in asdict(measured).items()
        if value is not None and not (key in own and value == usual[key])
    }
    known["points"] = [
        {
            key: value
            for key, value in point.items()
            if value not in (None, ()) and (key, value) != ("ranks_per_replica", 1)
        }
        for point in asdict(measured)["points"]
    ]
    return known


def evidence_of(calibration: Calibration, origin: str, remarks: tuple[str, ...] = ()) -> Evidence:
    """Return a calibration as evidence for a plan, every figure with its runs; ``remarks`` come last."""
    noise = calibration.noise_scale
    return Evidence(
        points=tuple(map(_measurement_of, calibration.points)),
        noise=None
        if noise is None
        else NoiseScale(value=noise.value, low=noise.low, high=noise.high, steps=noise.steps),
        overhead_s=calibration.overhead_s,
        save_s=calibration.save_s or None,
        origin=origin,
        sources=(*map(_describe_point, calibration.points), *_describe_others(calibration), *remarks),
    )


def _describe_point(point: Point) -> str:
    shape = f"{count(point.nodes, 'node')} x {count(point.ranks_per_node, 'rank')}, "
    shape += f"{count(point.per_rank, 'sample')} per rank"
    if point.accumulation > 1:
        shape += f" x {point.accumulation} micro-batches"
    if point.ranks_per_replica > 1:
        shape += f", {point.ranks_per_replica} ranks share a model"
    varying = "" if point.straggling is None else f", a rank's steps vary by {point.straggling:.1%}"
    return f"{shape}: {point.samples_per_s:.4g} samples/s{varying}{_name_runs(point.runs)}"


def _name_runs(runs: tuple[str, ...]) -> str:
    if not runs:
        return ""
    return f" ({'median of ' if len(runs) > 1 else ''}{', '.join(runs)})"


def _describe_others(calibration: Calibration) -> list[str]:
    noise, lines = calibration.noise_scale, []
    if noise is not None:
        lines.append(f"noise scale {noise.value:.4g} ({noise.low:.4g} to {noise.high:.4g}), over {noise.steps} steps")
    if calibration.overhead_s is not None:
        lines.append(f"outside the steps of a run: {calibration.overhead_s:.4g} s")
    if calibration.save_s:
        lines.append(f"one checkpoint: {calibration.save_s:.4g} s")
    return lines


def _measurement_of(point: Point) -> Measured:
    return Measured(
        shape=_shape_of(point),
        samples_per_s=point.samples_per_s,
        straggling=point.straggling,
        ranks_per_replica=point.ranks_per_replica,
    )


def _shape_of(point: Point) -> Shape:
    """Return the layout of the replicas: of those that span nodes, each counts as one rank of a node."""
    replicas = max(1, point.nodes * point.ranks_per_node // point.ranks_per_replica)
    nodes = min(point.nodes, replicas)
    return Shape(
        nodes=nodes,
        ranks_per_node=max(1, replicas // nodes),
        per_rank=point.per_rank,
        accumulation=point.accumulation,
    )
