"""The runs of notebook 3's study: throughput of every strategy with one core for each replica, and convergence."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "comparisons"))

import store
from cases import SMALL, SMALL_BATCHES, Case

STUDY = "notebook3"
ALONE = "time-horovod-1"
"""The throughput of one rank, by which the others are judged; with the other images it has their name behind it."""
DATA = ("mnist", "fashion_mnist")
TIMED_IMAGES = 16_384
TIMED = f"--train-samples={TIMED_IMAGES}"
"""Of a throughput row: enough steps to time, in a tenth of the full time."""
FEW = "--train-samples=1024"
"""Of a float16 row and its twin: TensorFlow takes a hundred times as long for it on a processor."""
PUBLISHED = {
    "learn-horovod-1": {"images_per_s": 66176, "accuracy": 0.9851, "loss": 0.0487},
    "learn-horovod-8": {"images_per_s": 486914, "accuracy": 0.8957, "loss": 0.3582},
    "learn-mirrored-8-512": {"images_per_s": 210218, "accuracy": 0.9748, "loss": 0.0851},
}
"""The notebook's results on 1 and 8 V100, after 8 epochs; accuracies are those of the training images."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A case of the study. pinned: a core for each replica, else all share this machine's cores."""

    case: Case
    epochs: int
    pinned: bool

    @property
    def name(self) -> str:
        return self.case.name


def _row(kind: str, strategy: str, replicas: int, data: str, batch: int, more: str = "") -> Row:
    """A row named KIND-STRATEGY-REPLICAS, with `more` and the data behind it if they tell it from others."""
    parts = [kind, strategy, str(replicas), more, data if data != DATA[0] else ""]
    case = Case(
        name="-".join(filter(None, parts)),
        job="mnist",
        replicas=replicas,
        batch=batch,
        strategy=strategy,
        switches=(f"--dataset={data}",),
    )
    return Row(case=case, epochs=8, pinned=kind == "time")


def _timed(row: Row, *switches: str) -> Row:
    return replace(row, epochs=3, case=replace(row.case, switches=(*row.case.switches, *switches)))


def _throughput(data: str) -> list[Row]:
    """1024 images a replica, as the notebook's single GPU has."""
    names = [("horovod", 1), ("horovod", 2)]
    if data == DATA[0]:  # the other images are the same work for the strategies
        names += [("multiworker", 1), ("multiworker", 2), ("mirrored", 1), ("mirrored", 2)]
        names += [("central-storage", 1), ("central-storage", 2), ("one-device", 1)]
    return [_timed(_row("time", *name, data, 1024), TIMED) for name in names]


def _float16() -> list[Row]:
    """Mirrored in float16 with its loss scale, and in float32 with the same few images: speed, and loss after them."""
    both = [_timed(_row("few", "mirrored", 2, DATA[0], 128, name), FEW) for name in ("float32", "float16")]
    return [replace(_timed(row, f"--precision={row.name.rsplit('-', 1)[1]}"), pinned=True) for row in both]


def _convergence(data: str) -> list[Row]:
    """Eight epochs of all images: the notebook's rows. The other strategies have the same losses, as tests show."""
    rows = [_row("learn", "horovod", 1, data, 1024), _row("learn", "horovod", 8, data, 2048)]
    return [*rows, _row("learn", "mirrored", 8, data, 512, "512")]


def every_row(small: bool = False) -> tuple[Row, ...]:
    """All rows; small: tiny made-up data, two replicas at most, two epochs."""
    rows = [row for data in DATA for row in _throughput(data)] + _float16()
    rows += [row for data in DATA for row in _convergence(data)]
    return tuple(map(_smaller, rows)) if small else tuple(rows)


def _smaller(row: Row) -> Row:
    case = row.case
    kept = tuple(switch for switch in case.switches if not switch.startswith("--train-samples"))
    made_up = ("--synthetic=true", "--synthetic-samples=32") if row.name.startswith("few") else SMALL[case.job]
    batch, replicas = SMALL_BATCHES[case.job], min(2, case.replicas)
    made = replace(case, batch=batch // 4, replicas=replicas, switches=(*kept, *made_up))
    return replace(row, case=made, epochs=2)


def settings_of(row: Row) -> dict[str, Any]:
    """What decides the outcome of a run beside its seed."""
    return {
        "strategy": row.case.strategy,
        "replicas": row.case.replicas,
        "batch_size_per_replica": row.case.batch,
        "switches": list(row.case.switches),
        "epochs": row.epochs,
        "pinned": row.pinned,
    }


def wanted(small: bool) -> dict[str, dict[str, Any]]:
    """The settings of each case."""
    return {row.name: settings_of(row) for row in every_row(small)}


def with_efficiency(found: Mapping[str, Sequence[store.Result]]) -> dict[str, list[store.Result]]:
    """The timed results with `efficiency`: images/s of a replica over those of one Horovod rank with the same seed."""
    others = f"{ALONE}-{DATA[1]}"
    speeds = {(case, one.seed): one.measured["images_per_s"] for case in (ALONE, others) for one in found.get(case, ())}

    def derived(one: store.Result) -> store.Result:
        alone = speeds.get((others if one.case.endswith(DATA[1]) else ALONE, one.seed))
        if alone is None or not one.case.startswith("time-"):
            return one
        share = one.measured["images_per_s"] / alone / one.settings["replicas"]
        return replace(one, measured={**one.measured, "efficiency": round(share, 4)})

    return {case: [derived(one) for one in results] for case, results in found.items()}


IMAGES_PER_CORE_S = 520.0
"""Training images per second and core, measured for the comparison that was here before (docs/jobs.md)."""
FLOAT16_TIMES = 100.0
START_S = 15.0


def expected_seconds(row: Row, cores: int) -> float:
    """About how long a run takes: training of its images on the cores that it has, and the start of its processes."""
    images = next((int(one.partition("=")[2]) for one in row.case.switches if "samples=" in one), 60_000)
    used = min(row.case.replicas, cores) if row.pinned else cores
    slower = FLOAT16_TIMES if "--precision=float16" in row.case.switches else 1.0
    return images * row.epochs * slower / (used * IMAGES_PER_CORE_S) + START_S * row.case.ranks / cores + START_S
