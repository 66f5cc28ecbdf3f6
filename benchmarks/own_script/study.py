"""A person's own PyTorch program on the test cluster: short runs, a plan, and four layouts that were not measured.

`hpclaunch scale` measures the program on one and two nodes. A plan predicts four other layouts, each of which then
runs. It prints how many of them lie inside the plan's range. Two commands are the user's; the rest is the check.

    python3 tests/cluster/cluster.py start && eval "$(python3 tests/cluster/cluster.py env)"
    python benchmarks/own_script/study.py --folder FOLDER --python /usr/bin/python3     # a Python that has PyTorch
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
HPCLAUNCH = str(Path(sys.executable).with_name("hpclaunch"))
SPEED = r"(?P<samples_per_s>[0-9.]+) images/s"
BATCH, STEPS = 64, 300
OTHERS = ((1, 48), (2, 32), (4, 64), (4, 32))
"""Nodes and images of a rank, none of which is measured before its plan."""


def main() -> None:
    """Measure, plan, run, compare. Exits with 1 if fewer than three of the four lie inside their ranges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--site", default="testcluster")
    parser.add_argument("--python", required=True, help="a Python that has PyTorch, on the nodes too")
    parser.add_argument("--script", type=Path, default=HERE / "train.py", help="another program with the same lines")
    parser.add_argument("--folder", type=Path, required=True, help="a folder that the nodes see, for program and runs")
    parser.add_argument("--csv", type=Path, default=HERE / "results" / "own_script.csv")
    options = parser.parse_args()
    folder = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(options.script, folder / "train.py")
    place = ("--site", options.site, "--tasks-per-node", "1", "--cpus-per-task", "1", "--gpus-per-node", "0")
    program = ("--batch-argument=--batch-size", "--rate-from", SPEED, "--", "--batch-size", str(BATCH))
    python = ("--python", options.python)
    _type(folder, "scale", "./train.py", "--nodes", "1,2", "--one-by-one", *place, *python, *program)
    planned = [_planned(folder, place, nodes, batch) for nodes, batch in OTHERS]
    rows = []
    for (nodes, batch), (low, high) in zip(OTHERS, planned, strict=True):
        words = ("--nodes", str(nodes), *place, *python, "--json", "--", f"--batch-size={batch}", f"--steps={STEPS}")
        run = json.loads(_type(folder, "submit", "./train.py", *words))["run"]
        _type(folder, "wait", run)
        rows.append((nodes, batch, low, high, _measured(folder / "runs" / run)))
        print("{} nodes, {} images per rank: {:.0f} to {:.0f} images/s, measured {:.0f}".format(*rows[-1]), flush=True)
    options.csv.parent.mkdir(exist_ok=True)
    with options.csv.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("nodes", "per_rank", "low", "high", "measured"))
        writer.writerows((nodes, batch, *(f"{rate:.1f}" for rate in rates)) for nodes, batch, *rates in rows)
    inside = sum(low <= rate <= high for _, _, low, high, rate in rows)
    print(f"{inside} of {len(rows)} layouts lie inside their ranges")
    sys.exit(inside < 3)


def _type(folder: Path, *words: str) -> str:
    """Return what a command printed; one that fails ends the study with its error."""
    done = subprocess.run([HPCLAUNCH, *words], cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"hpclaunch {' '.join(words)} ended with {done.returncode}: {done.stdout}")
    return done.stdout


def _planned(folder: Path, place: tuple[str, ...], nodes: int, batch: int) -> tuple[float, float]:
    """Return the ends of the plan's images/s for a layout."""
    words = ("--nodes", str(nodes), "--global-batch", str(nodes * batch), "--json")
    plan = json.loads(_type(folder, "plan", "./train.py", *place, *words))
    (rate,) = [row["throughput"]["samples_per_s"] for row in plan["rows"] if row["nodes"] == nodes]
    return rate["low"], rate["high"]


def _measured(run: Path) -> float:
    """Return the median of what the program printed, without the first quarter."""
    text = "".join(path.read_text() for path in sorted((run / "logs").glob("rank-0*.out")))
    text = text or "".join(path.read_text() for path in sorted((run / "logs").glob("*.out")))
    rates = [float(found[1]) for found in re.finditer(SPEED, text)]
    return median(rates[len(rates) // 4 :])


if __name__ == "__main__":
    main()
