"""One JSON file for every finished run of the study: made from a run's metrics, written once, read by the report."""

from __future__ import annotations

import json
import os
import statistics
import sys
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "reference"))

from processor import processor
from ranks import Ended
from rows import BY_NAME, FORMER, Row

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, kw_only=True)
class Result:
    """One run of `row` with `seed`.

    training_accuracy: of the last epoch, a mean over its steps while the weights change, as the reference's; in 0..1.
    images_per_s: of all ranks, median over epochs. peak_pss_mb: of all ranks together. load_average: of the machine
    over the last 15 minutes, when the run ended. epochs: a dictionary an epoch, as in metrics.jsonl.
    """

    row: str
    seed: int
    switches: list[str]
    program: str
    ranks: int
    training_accuracy: float
    test_accuracy: float
    test_samples: int
    images_per_s: float
    peak_pss_mb: int
    seconds: float
    load_average: float
    date: str
    processor: str
    cores: int
    versions: dict[str, str]
    data: dict[str, Any]
    settings: dict[str, Any]
    synthetic: bool
    epochs: list[dict[str, Any]]


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
    shown = ("epoch", "loss", "accuracy", "images_per_s", "learning_rate")
    return Result(
        row=row.name,
        seed=seed,
        switches=list(row.switches),
        program=row.program,
        ranks=row.ranks,
        training_accuracy=epochs[-1]["accuracy"],
        test_accuracy=end["test_accuracy"],
        test_samples=end["test_samples"],
        images_per_s=round(statistics.median(epoch["images_per_s"] for epoch in epochs), 1),
        peak_pss_mb=round(ended.peak_pss / 1e6),
        seconds=round(ended.seconds, 1),
        load_average=round(os.getloadavg()[2], 1),
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        processor=processor(),
        cores=len(os.sched_getaffinity(0)),
        versions=start["versions"],
        data={key: start["data"][key] for key in ("layout", "fingerprint", "samples")},
        settings={
            **{key: value for key, value in start["options"].items() if key != "data_dir"},
            **{key: start[key] for key in ("global_batch_size", "steps_per_epoch", "parameters")},
            "scaled_learning_rate": start["scaled_learning_rate"],
        },
        synthetic=start["synthetic"],
        epochs=[{key: epoch[key] for key in shown} for epoch in epochs],
    )


def path_of(folder: Path, epochs: int, row: str, seed: int) -> Path:
    return folder / f"epochs-{epochs}" / f"{row}-{seed}.json"


def write(path: Path, result: Result) -> None:
    """Write the file in one go: a study that is stopped leaves no half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(asdict(result), indent=1) + "\n")
    new.rename(path)


def read(path: Path) -> Result | None:
    """The result in a file, or None if there is no such file."""
    if not path.exists():
        return None
    return Result(**json.loads(path.read_text()))


def current(row: Row, found: Result | None) -> bool:
    """Whether a result is there and is of the row as it is now, not of its earlier switches."""
    if found is None:
        return False
    switches = [FORMER.get(switch, switch) for switch in found.switches]
    return (switches, found.program, found.ranks) == (list(row.switches), row.program, row.ranks)


def every(folder: Path, epochs: int) -> list[Result]:
    """The results of all rows as they are now, with real images."""
    found = [Result(**json.loads(path.read_text())) for path in sorted((folder / f"epochs-{epochs}").glob("*.json"))]
    return [one for one in found if one.row in BY_NAME and current(BY_NAME[one.row], one) and not one.synthetic]
