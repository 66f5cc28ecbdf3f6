"""Wall time of `submit` until it has refused what plain sbatch would leave pending for ever; needs the test cluster.

    eval "$(python tests/cluster/cluster.py env)"
    python benchmarks/refusal.py [--runs 20] [--json]

Every request is refused once by the site file's limits, where it has them, and once by Slurm's own programs alone (a
site file without limits). Prints medians and worst times; ends with 1 if a median is above the bar of half a second,
which is not held against the QOS: only sacctmgr knows those, and it alone takes a quarter of a second.
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

import yaml

BAR_S = 0.5
NO_BAR = "unknown QOS"
SITES = ("testcluster", "nolimits")
REQUESTS = {
    "walltime above the limit": ["--walltime", "99:00:00"],
    "more nodes than there are": ["--nodes", "9"],
    "unknown account": ["--account", "nobody"],
    NO_BAR: ["--qos", "gold"],
    "unknown partition": ["--partition", "bach"],
}


def write_site_without_limits(folder: Path) -> None:
    """Write site_configs/nolimits.yaml: the test cluster's, without what it says of nodes and partitions."""
    bundled = Path(__file__).resolve().parents[1] / "site_configs" / "testcluster.yaml"
    content = yaml.safe_load(bundled.read_text(encoding="utf-8"))
    content["node_types"]["gpu"]["nodes"], content["partitions"] = None, {}
    content["defaults"]["walltime"] = "00:30:00"  # plain YAML reads a number of seconds
    (folder / "site_configs").mkdir()
    (folder / "site_configs" / "nolimits.yaml").write_text(json.dumps(content), encoding="utf-8")


def refuse(folder: Path, site: str, words: list[str]) -> float:
    """Wall time of one whole process, seconds. Raises RuntimeError if it does not refuse, or writes anything."""
    command = [sys.executable, "-m", "hpclaunch", "submit", "cifar", "--synthetic", "--site", site, *words]
    environment = {**os.environ, "HOME": str(folder)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    took = time.perf_counter() - began
    if done.returncode != 1 or "next: " not in done.stderr or (folder / "runs").exists():
        raise RuntimeError(f"{' '.join(command)} was not refused with an alternative:\n{done.stderr}")
    return took


def measure(folder: Path, runs: int) -> list[dict[str, str | float]]:
    """Median and worst time (seconds) of every request at both sites."""
    rows: list[dict[str, str | float]] = []
    for name, words in REQUESTS.items():
        for site in SITES:
            refuse(folder, site, words)  # warm the file cache and the bytecode
            times = [refuse(folder, site, words) for _ in range(runs)]
            rows.append({"request": name, "site": site, "median_s": statistics.median(times), "worst_s": max(times)})
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    # Not below /tmp, which every node of the test cluster has for itself: that would be one more reason to refuse.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        write_site_without_limits(Path(name))
        rows = measure(Path(name), options.runs)
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        print(f"{'request':<28}{'site':<14}{'median':>9}{'worst':>9}")
        for row in rows:
            print("{request:<28}{site:<14}{median_s:>8.3f}s{worst_s:>8.3f}s".format(**row))
    return 0 if all(float(row["median_s"]) <= BAR_S for row in rows if row["request"] != NO_BAR) else 1


if __name__ == "__main__":
    sys.exit(main())
