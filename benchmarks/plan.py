"""Wall time of `hpclaunch plan JOB` as a whole process, and what it imports: no TensorFlow, no scheduler.

    python benchmarks/plan.py [--runs 11] [--json]

Prints the median and the worst for two jobs with stored figures. Ends with 1 if a median is a second or more, or if
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

BAR_S = 1.0
UNWANTED = ("tensorflow", "numpy", "submitit", "matplotlib")
JOBS = ("cifar", "mnist")


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = {job: measure(job, options.runs, folder) for job in JOBS}
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        print(f"{'plan':<10}{'median':>9}{'worst':>9}{'bar':>6}  unwanted imports")
        for job, row in results.items():
            imports = row["unwanted"] or "none"
            print(f"{job:<10}{row['median_s']:>8.3f}s{row['worst_s']:>8.3f}s{row['bar_s']:>6}  {imports}")
    return 0 if all(row["median_s"] < BAR_S and not row["unwanted"] for row in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
