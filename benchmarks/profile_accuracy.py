"""How well `profile` on one and two nodes predicts four: images/s of a job on the test cluster, against a run of it.

    python benchmarks/profile_accuracy.py --data-dir DIR [--share 0.45] [--batch 64] [--steps 30] [--smoke] [--json]
    python benchmarks/profile_accuracy.py --data-dir DIR --job ddp --cpus 1 --python /usr/bin/python3  # one with torch

As root. The four nodes of the test cluster are one machine. So that none borrows another's time, each node's slurmd,
and with it all that it starts, is held to the same share of a CPU by a cgroup's quota (version 1 or 2), which is taken
away at the end. Nothing in the planner knows of this. Give the four shares less than the machine has, and leave it
alone meanwhile: the script says how much of the CPUs others used before it began, and how often each node's quota was
used up. Ends with 1 if the bar (15 %) does not hold, or if a quota held nobody. --smoke goes through all steps with
very short runs, and judges nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BAR = 0.15
PERIOD_US = 100_000
CLUSTER = Path(__file__).resolve().parents[1] / "tests/cluster/cluster.py"
HPCLAUNCH = [sys.executable, "-m", "hpclaunch"]


def cluster_root() -> Path:
    """Start the test cluster unless it runs; return its root. Its environment is then this process's."""
    said = subprocess.run([sys.executable, str(CLUSTER), "start"], capture_output=True, text=True, check=True).stdout
    conf = Path(next(word for word in said.split() if word.startswith("SLURM_CONF=")).partition("=")[2])
    os.environ["SLURM_CONF"] = str(conf)
    return conf.parents[1]


def slurmd_of(root: Path) -> dict[str, int]:
    """Node -> process id of its slurmd."""
    files = sorted((root / "run").glob("slurmd-node*.slurm.pid"))
    return {file.name.split(".")[0].removeprefix("slurmd-"): int(file.read_text()) for file in files}


@contextlib.contextmanager
def held(daemons: dict[str, int], share: float) -> Iterator[dict[str, Path]]:
    """Hold every daemon, and all that it starts, to that share of one CPU; undone at the end. Gives their cgroups."""
    first = Path("/sys/fs/cgroup/cpu")
    top = first if first.is_dir() else Path("/sys/fs/cgroup")
    made: list[tuple[Path, int, Path]] = []
    try:
        for node, pid in daemons.items():
            group = top / f"hpclaunch-{node}"
            group.mkdir(exist_ok=True)
            made.append((group, pid, home_of(pid, top)))
            if top == first:
                (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (group / "cpu.cfs_quota_us").write_text(str(int(share * PERIOD_US)))
            else:
                (group / "cpu.max").write_text(f"{int(share * PERIOD_US)} {PERIOD_US}")
            (group / "cgroup.procs").write_text(str(pid))
        yield {node: group for node, (group, _, _) in zip(daemons, made, strict=True)}
    finally:
        for group, pid, home in made:
            for one in {str(pid), *(group / "cgroup.procs").read_text().split()}:
                with contextlib.suppress(OSError):
                    (home / "cgroup.procs").write_text(one)
            with contextlib.suppress(OSError):
                group.rmdir()


def used_up(groups: dict[str, Path]) -> dict[str, int]:
    """Periods in which a node's quota was used up: 0 says that what was measured ran outside its cgroup."""
    found = {}
    for node, group in groups.items():
        pairs = (line.split() for line in (group / "cpu.stat").read_text().splitlines())
        found[node] = int(next(value for name, value in pairs if name == "nr_throttled"))
    return found


def home_of(pid: int, top: Path) -> Path:
    """The cgroup in which a process is now."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, kinds, place = line.split(":", 2)
        if "cpu" in kinds.split(",") or (not kinds and top.name == "cgroup"):
            return top / place.lstrip("/")
    return top


def others(seconds: float = 5.0) -> float:
    """CPUs that the machine uses now, before anything of ours runs."""

    def busy() -> int:
        words = list(map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]))
        return sum(words) - words[3] - words[4]

    before = busy()
    time.sleep(seconds)
    return (busy() - before) / os.sysconf("SC_CLK_TCK") / seconds


def typed(folder: Path, *words: str) -> Any:
    """The JSON that a command of hpclaunch writes."""
    done = subprocess.run([*HPCLAUNCH, *words, "--json"], cwd=folder, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"hpclaunch {' '.join(words)} ended with {done.returncode}")
    return json.loads(done.stdout)


@contextlib.contextmanager
def no_run_left(folder: Path) -> Iterator[None]:
    """Cancel what still runs if the measurement ends early."""
    try:
        yield
    except BaseException:
        subprocess.run([*HPCLAUNCH, "cancel", "--all", "--yes"], cwd=folder, stdout=subprocess.DEVNULL)
        raise


def compare(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Profile, predict, run: images/s of each."""
    job, common = options.job, ["--tasks-per-node", "1", "--set", f"batch_size_per_rank={options.batch}"]
    alone = ["--sbatch", "--exclusive", "--data-dir", options.data_dir]  # the cluster would put two jobs on one node
    alone += ["--python", options.python] if options.python else []
    common += ["--cpus-per-task", str(options.cpus)] if options.cpus else []
    profiled = typed(folder, "profile", job, *common, *alone, "--steps", str(options.steps))
    planned = typed(folder, "plan", job, "--nodes", "4", *common)
    row = next(row for row in planned["rows"] if row["nodes"] == 4)
    samples = ["--set", f"train_samples={4 * options.batch * options.steps}", "--set", "epochs=4"]
    run = typed(folder, "submit", job, "--nodes", "4", *common, *alone, *samples, "--wait")
    lines = [json.loads(line) for line in (Path(run["run_dir"]) / "metrics.jsonl").read_text().splitlines()]
    rates = [line["images_per_s"] for line in lines if line["event"] == "epoch"]
    predicted, measured = row["throughput"]["samples_per_s"], statistics.median(rates[1:])
    return {
        "points": profiled["calibration"]["points"],
        "predicted": predicted,
        "measured": measured,
        "epochs": rates,
        "error": predicted["middle"] / measured - 1,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", required=True, help="the folder that holds cifar10/")
    parser.add_argument("--job", default="cifar", help="one that trains on cifar10: cifar, ddp or jax")
    parser.add_argument("--python", help="the Python of the ranks, if this one does not have the job's framework")
    parser.add_argument("--cpus", type=int, help="CPUs of a rank; 1 for PyTorch, whose idle threads use up a quota")
    parser.add_argument("--share", type=float, default=0.45, help="of a CPU, for each node")
    parser.add_argument("--batch", type=int, default=64, help="images in a step of a rank")
    parser.add_argument("--steps", type=int, default=30, help="steps of an epoch")
    parser.add_argument("--smoke", action="store_true", help="only go through all steps")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.smoke:
        options.batch, options.steps = 8, 3
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the quotas are taken away then, too
    load = others()
    root = cluster_root()
    (root / "work").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="profile-accuracy-", dir=root / "work"))
    os.environ["HOME"] = str(folder / "home")
    with held(slurmd_of(root), options.share) as groups, no_run_left(folder):
        found = {"share": options.share, "cpus_of_others": round(load, 2), **compare(folder, options)}
        found["quota_used_up"] = used_up(groups)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        for point in found["points"]:
            print(f"{point['nodes']} nodes, {point['per_rank']:4} a rank: {point['samples_per_s']:8.1f} images/s")
        low, high = found["predicted"]["low"], found["predicted"]["high"]
        print(f"4 nodes, predicted:  {found['predicted']['middle']:8.1f} images/s ({low:.1f} to {high:.1f})")
        print(f"4 nodes, measured:   {found['measured']:8.1f} images/s")
        print(f"error {found['error']:+.1%}, bar {BAR:.0%}; others used {load:.2f} CPUs before")
    idle = [node for node, periods in found["quota_used_up"].items() if not periods]
    print(f"periods in which the quota was used up: {found['quota_used_up']}", file=sys.stderr)
    if options.smoke:
        print("smoke: all steps were made; nothing is judged", file=sys.stderr)
        return 0
    return 0 if abs(found["error"]) <= BAR and not idle else 1


if __name__ == "__main__":
    sys.exit(main())
