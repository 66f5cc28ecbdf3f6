"""The results of the study: a row of one table for every finished run, made from its metrics, read by the report.

All that a run measured is in its folder of `--out`, as metrics.jsonl.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "reference"))

import store
import table
from ranks import Ended
from rows import BY_NAME, FORMER, Row

RESULTS = Path(__file__).parent / "results"
NAME = "large_batch.csv"
KEYS = ("epochs", "row", "seed")


@dataclass(frozen=True, kw_only=True)
class Result:
    """One run of `row` with `seed`.

    epochs: how many. training_accuracy: of the last epoch, a mean over its steps while the weights change, as the
    reference's; in 0..1. training_loss: likewise. images_per_s: of all ranks, in the fastest epoch: other work on the
    machine slows a run and never speeds it up. peak_pss_mb: of all ranks together. machine: as in store.py.
    """

    epochs: int
    row: str
    seed: int
    date: str
    training_accuracy: float
    test_accuracy: float
    training_loss: float
    images_per_s: float
    peak_pss_mb: int
    synthetic: bool
    program: str
    ranks: int
    switches: list[str]
    machine: Mapping[str, Any]


def from_run(row: Row, seed: int, folder: Path, ended: Ended) -> Result:
    """The result of a run that has ended well in `folder`; raises ValueError if its metrics are not whole."""
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    starts, ends = ([event for event in events if event["event"] == kind] for kind in ("start", "end"))
    epochs = [event for event in events if event["event"] == "epoch"]
    if len(starts) != 1 or len(ends) != 1 or len(epochs) != ends[0]["epochs"]:
        raise ValueError(f"{folder}/metrics.jsonl: {len(starts)} starts, {len(epochs)} epochs, {len(ends)} ends")
    start, end = starts[0], ends[0]
    if start["world_size"] != row.ranks:
        raise ValueError(f"{folder}/metrics.jsonl: {start['world_size']} ranks, not {row.ranks}")
    return Result(
        epochs=len(epochs),
        row=row.name,
        seed=seed,
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        training_accuracy=epochs[-1]["accuracy"],
        test_accuracy=end["test_accuracy"],
        training_loss=epochs[-1]["loss"],
        images_per_s=max(epoch["images_per_s"] for epoch in epochs),
        peak_pss_mb=round(ended.peak_pss / 1e6),
        synthetic=start["synthetic"],
        program=row.program,
        ranks=row.ranks,
        switches=list(row.switches),
        machine=store.machine(),
    )


def write(folder: Path, result: Result) -> None:
    """Write the result in the place of the one of the same run."""
    table.put(folder / NAME, table.flat(asdict(result)), KEYS)


def every_run(folder: Path) -> list[Result]:
    """All results of a folder; none without a table."""
    return [Result(**table.nested(row)) for row in table.read(folder / NAME)]


def read(folder: Path, epochs: int, row: str, seed: int) -> Result | None:
    """The result of one run, or None if there is none yet."""
    return next((one for one in every_run(folder) if (one.epochs, one.row, one.seed) == (epochs, row, seed)), None)


def current(row: Row, found: Result | None) -> bool:
    """Whether a result is there and is of the row as it is now, not of its earlier switches."""
    if found is None:
        return False
    switches = [FORMER.get(switch, switch) for switch in found.switches]
    return (switches, found.program, found.ranks) == (list(row.switches), row.program, row.ranks)


def every(folder: Path, epochs: int) -> list[Result]:
    """The results of all rows as they are now, with so many epochs of real images."""
    found = [one for one in every_run(folder) if one.epochs == epochs and one.row in BY_NAME]
    return [one for one in found if current(BY_NAME[one.row], one) and not one.synthetic]
