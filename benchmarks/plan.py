"""Wall time of `hpclaunch plan JOB` as a whole process, and what it imports: no TensorFlow, no scheduler.

    python benchmarks/plan.py [--runs 11] [--json]

Prints the median and the worst for two jobs with stored figures, and for one of them with 1,000 finished runs recorded
that no plan has looked at (each plan sees them for the first time). Ends with 1 if a median is a second or more, or if
TensorFlow, NumPy, submitit or matplotlib was imported.
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

from hpclaunch.actions.preparing.load import load
from hpclaunch.actions.system import System
from hpclaunch.core.spec import Request
from hpclaunch.planner.measured.calibrations import expect, with_key
from hpclaunch.runs import Run, save

BAR_S = 1.0
UNWANTED = ("tensorflow", "numpy", "submitit", "matplotlib")
JOBS = ("cifar", "mnist")
RUNS = 1000
LINE = {"event": "epoch", "seconds": 100.0, "step_spread": 0.02}


def seconds(words: list[str], folder: str) -> tuple[float, list[str]]:
    """Wall time of one whole process, seconds, and the unwanted modules that it imported."""
    program = (
        "import sys; from hpclaunch.cli import main\n"
        "try: main(sys.argv[1:])\n"
        f"finally: print(*[name for name in {UNWANTED!r} if name in sys.modules], file=sys.stderr)"
    )
    environment = {**os.environ, "HOME": folder}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return time.perf_counter() - began, done.stderr.splitlines()[-1].split()


def measure(job: str, runs: int, folder: str) -> dict[str, object]:
    """Median and worst of the runs after one that warms the file cache."""
    words = ["plan", job, "--site", "perlmutter", "--explain"]
    _, unwanted = seconds(words, folder)
    times = [seconds(words, folder)[0] for _ in range(runs)]
    return {"median_s": statistics.median(times), "worst_s": max(times), "unwanted": unwanted, "bar_s": BAR_S}


def record(folder: Path) -> Path:
    """Write finished runs of cifar on 1, 2, 4 and 8 nodes into a home; return the file that a plan keeps of them."""
    world = System(cwd=folder, environment={"HOME": str(folder)})
    request = Request(target="cifar", site="perlmutter")
    case = with_key(load(world, request))
    for number in range(RUNS):
        nodes = 1 << number % 4
        path = folder / f"runs/cifar-{number:04}"
        (path / "attempts/7.0").mkdir(parents=True)
        told = {"name": "cifar", "site": "perlmutter", "scheduler": "slurm", "created": f"{number:04}", "job_id": "7"}
        save(Run(path=path, state="PENDING", **told), durable=False)
        spec = {"layout": {"nodes": nodes, "tasks_per_node": 4}, "command": ["--batch-size-per-rank=512"]}
        (path / "spec.json").write_text(json.dumps(spec))
        (path / "attempts/7.0/exit-code").write_text("0")
        lines = [json.dumps({**LINE, "images_per_s": 10_000.0 * nodes + epoch}) for epoch in range(12)]
        (path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
        expect(world.environment, case.calibration_key, str(path))
    (listed,) = folder.rglob("*.runs")
    return listed.with_suffix(".finished")


def measure_recorded(runs: int, folder: Path) -> dict[str, object]:
    """Like ``measure`` with the runs recorded; what was kept of them is deleted before every plan."""
    kept, times, unwanted = record(folder), [], []
    for _ in range(runs + 1):
        kept.unlink(missing_ok=True)
        taken, unwanted = seconds(["plan", "cifar", "--site", "perlmutter", "--json"], str(folder))
        times.append(taken)
        assert json.loads(kept.read_text())["finished"], "no run was taken in"
    return {
        "median_s": statistics.median(times[1:]),
        "worst_s": max(times[1:]),
        "unwanted": unwanted,
        "bar_s": BAR_S,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = {job: measure(job, options.runs, folder) for job in JOBS}
        results[f"cifar, {RUNS} runs"] = measure_recorded(options.runs, Path(folder))
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        print(f"{'plan':<18}{'median':>9}{'worst':>9}{'bar':>6}  unwanted imports")
        for job, row in results.items():
            imports = row["unwanted"] or "none"
            print(f"{job:<18}{row['median_s']:>8.3f}s{row['worst_s']:>8.3f}s{row['bar_s']:>6}  {imports}")
    return 0 if all(row["median_s"] < BAR_S and not row["unwanted"] for row in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
