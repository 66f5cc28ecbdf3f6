"""Wall time of `--help` and `submit cifar --nodes 4 --dry-run`, paired with importing the libraries that they stand on.

    python benchmarks/startup.py [--pairs 21] [--json]

Runs the two commands of a pair one after the other, so that a drifting machine slows both; prints medians and the
median of the ratios. Ends with 1 if a bar does not hold: 1.0 for --help, 1.5 for the dry run.
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

LIBRARIES = [sys.executable, "-c", "import typer, jinja2, yaml, pydantic"]
HPCLAUNCH = [sys.executable, "-m", "hpclaunch"]
BARS = {
    "--help": (["--help"], 1.0),
    "--dry-run": (["submit", "cifar", "--nodes", "4", "--site", "perlmutter", "--account", "m1234", "--dry-run"], 1.5),
}


def seconds(command: list[str], folder: str) -> float:
    """Wall time of one whole process, seconds."""
    environment = {**os.environ, "HOME": folder, "SCRATCH": "/scratch"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
    return time.perf_counter() - began


def measure(arguments: list[str], pairs: int, folder: str) -> dict[str, float]:
    """Medians (seconds) of the command, of the libraries, and of the ratio, pair by pair."""
    command = [*HPCLAUNCH, *arguments]
    seconds(command, folder), seconds(LIBRARIES, folder)  # warm the file cache and the bytecode
    rows = [(seconds(command, folder), seconds(LIBRARIES, folder)) for _ in range(pairs)]
    return {
        "hpclaunch_s": statistics.median(ours for ours, _ in rows),
        "libraries_s": statistics.median(theirs for _, theirs in rows),
        "ratio": statistics.median(ours / theirs for ours, theirs in rows),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = {name: {**measure(words, options.pairs, folder), "bar": bar} for name, (words, bar) in BARS.items()}
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        print(f"medians of {options.pairs} pairs")
        print(f"{'command':<12}{'hpclaunch':>11}{'libraries':>11}{'ratio':>8}{'bar':>6}")
        for name, row in results.items():
            print("{:<12}{hpclaunch_s:>10.3f}s{libraries_s:>10.3f}s{ratio:>8.2f}{bar:>6}".format(name, **row))
    return 0 if all(row["ratio"] <= row["bar"] for row in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
