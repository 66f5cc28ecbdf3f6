"""Submits `cifar` with the plan's recipe, in turns with the study's row `recommended`: accuracy, epochs, batch, time.

    HPCLAUNCH_DATA_DIR=FOLDER SLURM_CONF=FILE python benchmarks/large_batch/submitted.py --work FOLDER
                                                                            [--seeds N ...] [--recipe plan | job]

Runs `hpclaunch submit cifar --nodes 4 --tasks-per-node 2 --wait` on the test cluster (tests/cluster/README.md) and,
with the plan's recipe, the study's row on the same machine, one after the other, for every seed. Prints each run and
the medians beside their bars; ends with 1 if a bar does not hold. WORK is a folder that all nodes see. A run takes
some six minutes on two cores.

The kernel must share the cores between processes, not between sessions (as root, until the next start of the machine:
echo 0 > /proc/sys/kernel/sched_autogroup_enabled). Each node of the test cluster is a session of its own here: with
equal shares, ranks that wait busily for a message would keep the cores from those of other nodes that compute.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "reference"))

import needs
from ranks import ROOT, run
from rows import BATCH_SIZE_PER_RANK, BY_NAME, EPOCHS, SEEDS
from user_folders import XDG

COMMAND = ["submit", "cifar", "--nodes", "4", "--tasks-per-node", "2", "--wait"]
STUDY = {"training": 0.82, "test": 0.695, "epochs": 12, "batch": 4096, "time": 1.05}
"""The bars of the plan's recipe: accuracies at least, epochs and ratio of times at most, the global batch size."""
SESSIONS = Path("/proc/sys/kernel/sched_autogroup_enabled")
"""Whether the kernel shares the cores between sessions (sched(7), "The autogroup feature")."""
BATCH_NORM_SHARDED, POINTS = 0.800, 0.04
"""The training accuracy of the study's row with the job file's settings, and how far `--recipe job` may be from it."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What a run's metrics say; accuracies in 0..1.

    training_s: the training and its last evaluation, seconds. whole_s: the whole job as Slurm has it, or mpirun.
    """

    training: float
    test: float
    epochs: int
    batch: int
    training_s: float
    whole_s: float


def read(folder: Path, whole_s: float) -> Trained:
    """Read the metrics of a run. Raises ValueError if it did not end."""
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    (start,) = (event for event in events if event["event"] == "start")
    (end,) = (event for event in events if event["event"] == "end")
    epochs = [event for event in events if event["event"] == "epoch"]
    return Trained(
        training=epochs[-1]["accuracy"],
        test=end["test_accuracy"],
        epochs=len(epochs),
        batch=start["global_batch_size"],
        training_s=end["seconds"],
        whole_s=whole_s,
    )


def submit(options: argparse.Namespace, seed: int) -> Trained:
    """Submit with the recipe, as someone who has never measured anything. Raises RuntimeError if the job fails."""
    work = options.work / f"{options.recipe}-{seed}"
    work.mkdir(parents=True)
    words = [*COMMAND, "--set", f"seed={seed}", "--data-dir", options.data_dir, "--runs-dir", str(work / "runs")]
    words += [] if options.recipe == "plan" else ["--recipe", options.recipe]
    home = {name: str(work / name) for name in ("HOME", *XDG)}
    done = subprocess.run(
        [sys.executable, "-m", "hpclaunch", *words],
        cwd=work,
        env={**os.environ, **home, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if seed == options.seeds[0] or done.returncode:
        print(done.stdout, flush=True)
    if done.returncode:
        raise RuntimeError(f"hpclaunch {' '.join(words)} ended with {done.returncode}")
    (folder,) = (work / "runs").glob("cifar-*")
    job_id = json.loads((folder / "run.json").read_text())["job_id"]
    elapsed = subprocess.run(
        ["sacct", "-X", "-n", "-P", "-o", "ElapsedRaw", "-j", job_id], stdout=subprocess.PIPE, text=True, check=True
    )
    return read(folder, float(elapsed.stdout))


def study(options: argparse.Namespace, seed: int) -> Trained:
    """Run the study's row `recommended`, as study.py does. Raises RuntimeError if it fails."""
    row, folder = BY_NAME["recommended"], options.work / f"study-{seed}"
    folder.mkdir(parents=True)
    arguments = [f"--seed={seed}", f"--epochs={EPOCHS}", *row.switches, f"--batch-size-per-rank={BATCH_SIZE_PER_RANK}"]
    ended = run(row.program, arguments, row.ranks, folder, options.data_dir)
    if ended.code != 0:
        raise RuntimeError(f"the study's row ended with {ended.code}: {folder}/log")
    return read(folder, ended.seconds)


def show(name: str, seed: int | str, trained: Trained) -> None:
    print(
        f"{name:<12} {seed!s:>6}  training {trained.training:6.1%}  test {trained.test:6.1%}  epochs {trained.epochs}  "
        f"B {trained.batch}  training {trained.training_s:5.0f} s  whole {trained.whole_s:5.0f} s",
        flush=True,
    )


def median(runs: list[Trained]) -> Trained:
    """The medians of some runs, value by value."""
    return Trained(
        **{field.name: statistics.median(getattr(run, field.name) for run in runs) for field in fields(Trained)}
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="a new folder that all nodes see")
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--recipe", choices=["plan", "job"], default="plan")
    parser.add_argument("--data-dir", default=os.environ.get("HPCLAUNCH_DATA_DIR", ""))
    options = parser.parse_args()
    options.data_dir = needs.images(options.data_dir, needs.CIFAR10)
    if options.recipe == "plan" and SESSIONS.exists() and SESSIONS.read_text().strip() != "0":
        parser.error(f"times would differ, as the kernel shares the cores between sessions: {SESSIONS} is not 0")
    ours: list[Trained] = []
    theirs: list[Trained] = []
    for turn, seed in enumerate(options.seeds):
        pair = [(f"recipe {options.recipe}", submit, ours)]
        pair += [("study", study, theirs)] if options.recipe == "plan" else []
        for name, train, runs in pair if turn % 2 == 0 else reversed(pair):
            runs.append(train(options, seed))
            show(name, seed, runs[-1])
    found = median(ours)
    show(f"recipe {options.recipe}", "median", found)
    if options.recipe == "job":
        apart = abs(found.training - BATCH_NORM_SHARDED)
        print(f"{apart:.1%} from the study's row batch-norm-sharded (bar: {POINTS:.0%})")
        return 0 if apart <= POINTS else 1
    show("study", "median", median(theirs))
    ratio = statistics.median(mine.whole_s / other.whole_s for mine, other in zip(ours, theirs, strict=True))
    held = {
        f"training accuracy at least {STUDY['training']:.1%}": found.training >= STUDY["training"],
        f"test accuracy at least {STUDY['test']:.1%}": found.test >= STUDY["test"],
        f"epochs at most {STUDY['epochs']}": max(run.epochs for run in ours) <= STUDY["epochs"],
        f"global batch size {STUDY['batch']}": all(run.batch == STUDY["batch"] for run in ours),
        f"whole time {ratio:.3f} of the study's, at most {STUDY['time']}": ratio <= STUDY["time"],
    }
    for words, holds in held.items():
        print(f"{'holds' if holds else 'FALLS SHORT'}: {words}")
    return 0 if all(held.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
