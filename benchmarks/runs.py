"""hpclaunch's own time for many runs: `status` of 1,000, and one `submit`; scheduler programs are counted stand-ins.

    python benchmarks/runs.py [--runs 1000] [--repeats 5] [--json]

Makes run directories in a temporary folder, half of which squeue knows, half of which sacct knows. The first `status`
records a new state for every run, the later ones find nothing new. A stand-in answers at once, so the time is
hpclaunch's own, with starting Python. Ends with 1 if a bar does not hold: one squeue and one sacct, at most 1 s of
processor time (wall time is told beside it).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

BAR_S = 1.0
ROOT = Path(__file__).resolve().parents[1]
STAND_IN = (
    '#!/bin/bash\necho {name} >> {folder}/calls\nwhile IFS= read -r line; do echo "$line"; done < {folder}/{name}.out\n'
)


class Took(NamedTuple):
    """Processor time, with that of the stand-ins, and wall time, seconds. On a busy machine the first one counts."""

    processor: float
    wall: float


def make(folder: Path, number: int) -> dict[str, str]:
    """Write run directories, the list of them, and the stand-ins; return the environment to use."""
    index = folder / "state/hpclaunch/runs.txt"
    index.parent.mkdir(parents=True)
    (folder / "bin").mkdir()
    half = number // 2
    for name, ids, word in (
        ("squeue", range(1, half + 1), "RUNNING|None|n1"),
        ("sacct", range(half + 1, number + 1), "COMPLETED|0:0|n1"),
    ):
        (folder / f"{name}.out").write_text("".join(f"{job}|{word}\n" for job in ids))
        (folder / "bin" / name).write_text(STAND_IN.format(name=name, folder=folder))
        (folder / "bin" / name).chmod(0o755)
    for job in range(1, number + 1):
        path = folder / "runs" / f"train-{job:05}"
        for part in ("logs", "attempts", "checkpoints", "code"):
            (path / part).mkdir(parents=True)
        record = {"name": "train", "site": "testcluster", "scheduler": "slurm", "created": "2026-01-02T03:04:05Z"}
        (path / "run.json").write_text(
            json.dumps({**record, "state": "PENDING", "job_id": str(job), "submission": "hpclaunch"})
        )
        with index.open("a") as file:
            file.write(f"{path}\n")
    kept = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
    return {**kept, "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}


def status(folder: Path, environment: dict[str, str]) -> tuple[Took, list[str], int]:
    """Return (its time, the scheduler programs that were called, runs told)."""
    (folder / "calls").unlink(missing_ok=True)
    (folder / "empty").mkdir(exist_ok=True)
    began, used = time.perf_counter(), os.times()
    command = [sys.executable, "-m", "hpclaunch", "status"]
    done = subprocess.run(command, cwd=folder / "empty", env=environment, capture_output=True, check=True)
    now = os.times()
    own = now.children_user - used.children_user + now.children_system - used.children_system
    return Took(own, time.perf_counter() - began), (folder / "calls").read_text().split(), len(done.stdout.splitlines())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        environment = make(folder, arguments.runs)
        first, calls, told = status(folder, environment)
        later = [status(folder, environment)[0] for _ in range(arguments.repeats)]
    result = {
        "runs": told,
        "calls": calls,
        "first_processor_s": round(first.processor, 3),
        "first_wall_s": round(first.wall, 3),
        "later_processor_s": round(statistics.median(took.processor for took in later), 3),
        "later_wall_s": round(statistics.median(took.wall for took in later), 3),
        "load": round(os.getloadavg()[0], 1),
    }
    print(json.dumps(result) if arguments.json else "\n".join(f"{name:<18} {value}" for name, value in result.items()))
    holds = (
        calls == ["squeue", "sacct"]
        and told == arguments.runs
        and max(first.processor, *(took.processor for took in later)) <= BAR_S
    )
    return 0 if holds else 1


if __name__ == "__main__":
    raise SystemExit(main())
