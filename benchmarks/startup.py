"""Processor time of `--help`, dry runs and a whole submission, beside importing the libraries that they stand on.

And of `import hpclaunch`, beside a Python that does nothing.

    python benchmarks/startup.py [--pairs 21] [--json]

Runs the two commands of a pair one after the other, so that a drifting machine slows both. Prints the medians of user
and system time, and the median of the ratios pair by pair. What other programs take does not count: the scheduler's
programs are stand-ins, which accept every job. Byte code is cached. Ends with 1 if a bar does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

# Both processes tell their own processor time (seconds) as they end: RUSAGE_SELF leaves out the programs they start.
MEASURED = """
import atexit, os, resource, sys
def tell():
    used = resource.getrusage(resource.RUSAGE_SELF)
    with open(os.environ["BENCHMARK_TIME"], "w") as file:
        file.write(str(used.ru_utime + used.ru_stime))
atexit.register(tell)
"""
NOTHING = [sys.executable, "-c", f"{MEASURED}\npass"]
IMPORT = [sys.executable, "-c", f"{MEASURED}\nimport hpclaunch"]
LIBRARIES = [sys.executable, "-c", f"{MEASURED}\nimport typer, jinja2, yaml"]
HPCLAUNCH = [sys.executable, "-c", f"{MEASURED}\nfrom hpclaunch.__main__ import main\nmain()"]
PLACE = ["--nodes", "4", "--site", "perlmutter", "--account", "m1234"]
SUBMIT = ["submit", "cifar", *PLACE, "--synthetic"]
BARS = {
    "--help": (["--help"], 1.0),
    "--dry-run": ([*SUBMIT, "--dry-run"], 2.0),
    "--recipe job": ([*SUBMIT, "--recipe", "job", "--dry-run"], 1.6),
    "a script": (["submit", "./train.py", *PLACE, "--dry-run"], 1.6),
    "submit": (SUBMIT, 2.2),
}
"""The words of a command, and the highest ratio. With the planner's recipe a dry run may take longer."""
MOST_ADDED_MS = 3.0
"""Milliseconds that `import hpclaunch` may add to a Python that does nothing."""
PROGRAMS = {
    "sbatch": "echo Submitted batch job 4711",
    "squeue": "",
    "sacct": "",
    "scontrol": "",
    "sacctmgr": "",
    "sshare": "",
    "sinfo": "",
}


def stand_ins(folder: Path) -> None:
    """Put the scheduler's programs into FOLDER/bin."""
    (folder / "bin").mkdir()
    for name, line in PROGRAMS.items():
        program = folder / "bin" / name
        program.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        program.chmod(0o755)


def seconds(command: list[str], folder: Path) -> float:
    """Processor time of one process without its children, seconds."""
    time = folder / "time"
    time.unlink(missing_ok=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HPCLAUNCH", "SBATCH"))}
    environment |= {"HOME": str(folder), "SCRATCH": str(folder / "scratch"), "BENCHMARK_TIME": str(time)}
    environment |= {"PATH": f"{folder}/bin:{environment['PATH']}", "NERSC_HOST": "perlmutter"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[3:])} failed:\n{done.stderr}")
    return float(time.read_text(encoding="utf-8"))


def measure(arguments: list[str], pairs: int, folder: Path) -> dict[str, float]:
    """Medians (seconds) of the command, of the libraries, and of the ratio, pair by pair."""
    command = [*HPCLAUNCH, *arguments]
    seconds(command, folder), seconds(LIBRARIES, folder)  # warm the file cache and the byte code
    rows = [(seconds(command, folder), seconds(LIBRARIES, folder)) for _ in range(pairs)]
    return {
        "hpclaunch_s": statistics.median(ours for ours, _ in rows),
        "libraries_s": statistics.median(theirs for _, theirs in rows),
        "ratio": statistics.median(ours / theirs for ours, theirs in rows),
    }


def measure_import(pairs: int, folder: Path) -> dict[str, float]:
    """Medians (milliseconds) of a Python that imports hpclaunch, of one that does nothing, and of the difference."""
    seconds(IMPORT, folder), seconds(NOTHING, folder)
    rows = [(1e3 * seconds(IMPORT, folder), 1e3 * seconds(NOTHING, folder)) for _ in range(pairs)]
    return {
        "import_ms": statistics.median(ours for ours, _ in rows),
        "nothing_ms": statistics.median(theirs for _, theirs in rows),
        "added_ms": statistics.median(ours - theirs for ours, theirs in rows),
        "bar_ms": MOST_ADDED_MS,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:  # Perlmutter's nodes have a /tmp of their own
        folder = Path(name)
        stand_ins(folder)
        (folder / "train.py").write_text("", encoding="utf-8")
        results = {name: {**measure(words, options.pairs, folder), "bar": bar} for name, (words, bar) in BARS.items()}
        imported = measure_import(options.pairs, folder)
    if options.json:
        print(json.dumps({**results, "import hpclaunch": imported}, indent=2))
    else:
        print(f"processor time, medians of {options.pairs} pairs")
        print(f"{'command':<14}{'hpclaunch':>11}{'libraries':>11}{'ratio':>8}{'bar':>6}")
        for name, row in results.items():
            print("{:<14}{hpclaunch_s:>10.3f}s{libraries_s:>10.3f}s{ratio:>8.2f}{bar:>6}".format(name, **row))
        words = "import hpclaunch adds {added_ms:.2f} ms to python -c pass ({nothing_ms:.1f} ms); bar {bar_ms} ms"
        print(words.format(**imported))
    holds = [row["ratio"] <= row["bar"] for row in results.values()] + [imported["added_ms"] <= MOST_ADDED_MS]
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
