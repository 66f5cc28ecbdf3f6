"""A calibration file: throughputs, a noise scale and the time outside the steps, read and written; it measures nothing.

The format is in docs/planning.md. JSON is YAML too, so that a program or a person may write it. Several processes may
write one file: a reader sees a whole one, the newest.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from hpclaunch.config.fileformat import AtLeast, Line, NotNegative, PositiveInt, read
from hpclaunch.core.errors import Fault, InvalidFile
from hpclaunch.core.files import write_text
from hpclaunch.core.records import record
from hpclaunch.core.units import count
from hpclaunch.guidelines.calibration import Measured
from hpclaunch.guidelines.efficiency import NoiseScale
from hpclaunch.guidelines.throughput import Shape
from hpclaunch.planner.question import Evidence


@record
class Point:
    """One measured layout: samples a second of all ranks, relative standard deviation of a rank's steps.

    ``runs``: names of the runs that it was measured in, if hpclaunch did.
    """

    nodes: PositiveInt
    ranks_per_node: PositiveInt
    per_rank: PositiveInt
    accumulation: PositiveInt = 1
    samples_per_s: float
    straggling: NotNegative | None = None
    runs: tuple[Line, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.samples_per_s < float("inf"):
            raise ValueError(f"samples_per_s must be above zero, not {self.samples_per_s}")


@record
class Noise:
    """A gradient noise scale (samples), its interval, and over how many steps it was averaged."""

    value: float
    low: float
    high: float
    steps: PositiveInt

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.value <= self.high < float("inf"):
            raise ValueError("a noise scale needs 0 < low <= value <= high")


@record
class Calibration:
    """A calibration file; ``overhead_s``: seconds of a run outside its steps (start-up, staging, evaluation).

    ``origin``: in words, where it is from.
    """

    points: Annotated[tuple[Point, ...], AtLeast(1)]
    noise_scale: Noise | None = None
    overhead_s: NotNegative | None = None
    origin: Line = ""


def read_evidence(path: Path) -> Evidence:
    """Return what a calibration file says. Raises InvalidFile with every fault."""
    found = read_calibration(path)
    return evidence_of(found, found.origin or str(path))


def read_calibration(path: Path) -> Calibration:
    """Return a calibration file. Raises InvalidFile with every fault."""
    if not path.is_file():
        raise InvalidFile(Fault(where=str(path), what="the calibration file is not there", next="leave it out"))
    return read(path, Calibration)


def store(place: Path, measured: Calibration) -> None:
    """Write a calibration, in the format that ``plan --calibration`` reads too. Raises OSError."""
    place.parent.mkdir(parents=True, exist_ok=True)
    write_text(place, json.dumps(as_values(measured), indent=2) + "\n")


def as_values(measured: Calibration) -> dict[str, Any]:
    """Return a calibration as its file holds it; what is not known is left out."""
    known = {key: value for key, value in asdict(measured).items() if value is not None}
    known["points"] = [
        {key: value for key, value in point.items() if value not in (None, ())} for point in asdict(measured)["points"]
    ]
    return known


def evidence_of(found: Calibration, origin: str, remarks: tuple[str, ...] = ()) -> Evidence:
    """Return a calibration as a plan takes it, every figure with its runs; ``remarks`` come last."""
    noise = found.noise_scale
    return Evidence(
        points=tuple(map(_measurement_of, found.points)),
        noise=None
        if noise is None
        else NoiseScale(value=noise.value, low=noise.low, high=noise.high, steps=noise.steps),
        overhead_s=found.overhead_s,
        origin=origin,
        sources=(*map(_describe_point, found.points), *_describe_others(found), *remarks),
    )


def _describe_point(point: Point) -> str:
    shape = f"{count(point.nodes, 'node')} x {count(point.ranks_per_node, 'rank')}, {point.per_rank} samples a rank"
    if point.accumulation > 1:
        shape += f" x {point.accumulation} in a step"
    varying = "" if point.straggling is None else f", a rank's steps vary by {point.straggling:.1%}"
    return f"{shape}: {point.samples_per_s:.4g} samples/s{varying}{_name_runs(point.runs)}"


def _name_runs(runs: tuple[str, ...]) -> str:
    if not runs:
        return ""
    return f" ({'median of ' if len(runs) > 1 else ''}{', '.join(runs)})"


def _describe_others(found: Calibration) -> list[str]:
    noise, told = found.noise_scale, []
    if noise is not None:
        told.append(f"noise scale {noise.value:.4g} ({noise.low:.4g} to {noise.high:.4g}), over {noise.steps} steps")
    if found.overhead_s is not None:
        told.append(f"outside the steps of a run: {found.overhead_s:.4g} s")
    return told


def _measurement_of(point: Point) -> Measured:
    shape = Shape(
        nodes=point.nodes,
        ranks_per_node=point.ranks_per_node,
        per_rank=point.per_rank,
        accumulation=point.accumulation,
    )
    return Measured(shape=shape, samples_per_s=point.samples_per_s, straggling=point.straggling)
