"""hpclaunch's own time for many runs: `status` of 1,000, and 1,000 as one job array; scheduler programs are stand-ins.

    python benchmarks/runs.py [--runs 1000] [--array 1000] [--ended 10000] [--repeats 5] [--json]

Makes run directories in a temporary folder (TMPDIR says where: the file system counts). The first `status` finds them
queued, the second one that every run has another state than was recorded (half of them run, which squeue tells; half
have ended, which sacct tells), the later ones nothing new. Then ``--array`` runs are submitted as one array, and
their states asked for, half of them ended. A stand-in answers at once, so the time is hpclaunch's own, with starting
Python. Ends with 1 if a bar does not hold: one sbatch, one squeue, one sacct, each at most 1 s of processor time, or
2 s for an array of more than 1,000 runs (wall time is told beside it). The first `status` of the array also reads the
proof of every run that has ended since (about 0.1 ms each), and has no bar. ``--runs 0`` measures the array alone.

``--ended`` runs have ended, and ten more run: `status` and `logs @latest` are to make at most 5,000 system calls, with
those of their programs (strace counts them, if it is there), and to take 0.5 s of processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

BAR_S = 1.0
LARGE_BAR_S = 2.0
LARGE = 1000
LIVE = 10
ENDED_BAR_S = 0.5
MOST_CALLS = 5000
ROOT = Path(__file__).resolve().parents[1]
SUBMITTED = int(time.time())
STAND_IN = "#!/bin/bash\necho {name} >> {folder}/calls\nexec cat {folder}/{name}.out\n"


SITE = """
title: stand-in
scheduler: slurm
defaults: {node_type: cpu, partition: batch, walltime: "00:10:00"}
node_types: {cpu: {title: x, nodes: 8, cores_per_node: 8}}
partitions: {batch: {max_nodes: 4}}
launchers: {default: srun, options: {srun: {mpi: pmix}}}
environment: {python: current}
"""


class Took(NamedTuple):
    """Processor time, with that of the stand-ins, and wall time, seconds. On a busy machine the first one counts."""

    processor: float
    wall: float


def make(folder: Path, number: int) -> dict[str, str]:
    """Write run directories, the list of them, and the stand-ins; return the environment to use."""
    index = folder / "state/hpclaunch/runs.txt"
    own_runs = index.parent / "own-runs"
    own_runs.mkdir(parents=True)
    (folder / "bin").mkdir()
    for name in ("squeue", "sacct"):
        (folder / "bin" / name).write_text(STAND_IN.format(name=name, folder=folder))
        (folder / "bin" / name).chmod(0o755)
    for job in range(1, number + 1):
        path = folder / "runs" / f"train-{job:05}"
        for part in ("logs", "attempts", "checkpoints", "code"):
            (path / part).mkdir(parents=True)
        record = {"name": "train", "site": "testcluster", "scheduler": "slurm", "created": "2026-01-02T03:04:05Z"}
        record["token"] = f"{job:032x}"  # by it the user's list knows the run as their own
        listed = json.dumps({"directory": os.path.realpath(path), "inode": path.stat().st_ino})
        (own_runs / record["token"]).write_text(listed)
        (path / "run.json").write_text(
            json.dumps({**record, "state": "PENDING", "job_id": str(job), "submission": "hpclaunch", "edition": 4})
        )
        states = ("INCOMPLETE", "RENDERED", "SUBMITTING", "PENDING")  # as a submission leaves them
        lines = [{"time": record["created"], "state": state, "edition": n} for n, state in enumerate(states, 1)]
        (path / "states.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        with index.open("a") as file:
            file.write(f"{path}\n")
    return environment_of(folder)


def answer(folder: Path, squeue: str, sacct: str) -> None:
    (folder / "squeue.out").write_text(squeue)
    (folder / "sacct.out").write_text(sacct)


def leave_proof(run: Path, start: str) -> None:
    """Write what the script of a start leaves when every rank has ended with 0."""
    attempt = run / "attempts" / start
    (attempt / "ranks").mkdir(parents=True)
    (attempt / "started").write_text("2026-01-02T03:05:00Z\n")
    (attempt / "exit-code").write_text("0\n")
    (attempt / "completed").write_text(f"{start} 1\n")


def environment_of(folder: Path) -> dict[str, str]:
    kept = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
    return {**kept, "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}


def typed(folder: Path, environment: dict[str, str], *words: str) -> tuple[Took, list[str], str]:
    """Return (the time of ``hpclaunch WORDS``, the scheduler programs that were called, what it wrote)."""
    (folder / "calls").unlink(missing_ok=True)
    (folder / "empty").mkdir(parents=True, exist_ok=True)
    began, used = time.perf_counter(), os.times()
    command = [sys.executable, "-m", "hpclaunch", *words]
    done = subprocess.run(command, cwd=folder / "empty", env=environment, capture_output=True, text=True, check=True)
    now = os.times()
    own = now.children_user - used.children_user + now.children_system - used.children_system
    calls = (folder / "calls").read_text().split() if (folder / "calls").exists() else []
    return Took(own, time.perf_counter() - began), calls, done.stdout


def one_by_one(folder: Path, number: int, repeats: int) -> tuple[dict[str, object], bool]:
    """Return what ``status`` of so many runs took, and whether the bar holds."""
    environment = make(folder, number)
    place = f"{folder}/runs/train-"  # the working folder of each job is its run directory
    answer(
        folder, "".join(f"{job}|PENDING|Priority||{SUBMITTED}|{place}{job:05}\n" for job in range(1, number + 1)), ""
    )
    queued, calls_queued, told_queued = typed(folder, environment, "status")
    half = number // 2
    for job in range(half + 1, number + 1):
        leave_proof(Path(f"{place}{job:05}"), f"{job}.0")
    running = "".join(f"{job}|RUNNING|None|n1|{SUBMITTED}|{place}{job:05}\n" for job in range(1, half + 1))
    ended = "".join(f"{job}|COMPLETED|0:0|n1|lab|{SUBMITTED}|{place}{job:05}\n" for job in range(half + 1, number + 1))
    answer(folder, running, ended)
    changed, calls, told = typed(folder, environment, "status")
    later = [typed(folder, environment, "status")[0] for _ in range(repeats)]
    result: dict[str, object] = {
        "runs": len(told.splitlines()),
        "calls": calls,
        "queued_processor_s": round(queued.processor, 3),
        "queued_wall_s": round(queued.wall, 3),
        "all_changed_processor_s": round(changed.processor, 3),
        "all_changed_wall_s": round(changed.wall, 3),
        "later_processor_s": round(statistics.median(took.processor for took in later), 3),
        "later_wall_s": round(statistics.median(took.wall for took in later), 3),
    }
    counted = calls_queued == ["squeue"] and calls == ["squeue", "sacct"]
    told_all = told_queued.count("PENDING") == told.count("RUNNING") + told.count("COMPLETED") == number
    slowest = max(took.processor for took in (queued, changed, *later))
    return result, counted and told_all and slowest <= BAR_S


def as_one_array(folder: Path, number: int, repeats: int) -> tuple[dict[str, object], bool]:
    """Return what submitting so many runs as one array took, with their states; and whether the bar holds."""
    (folder / "bin").mkdir(parents=True)
    answers = {
        "sbatch": "Submitted batch job 4711\n",
        "squeue": "",
        "sacct": "",
        "scontrol": f"MaxArraySize = {number + 1}\n",
    }
    for name, text in answers.items():
        (folder / f"{name}.out").write_text(text)
        (folder / "bin" / name).write_text(STAND_IN.format(name=name, folder=folder))
        (folder / "bin" / name).chmod(0o755)
    (folder / "empty/site_configs").mkdir(parents=True)
    (folder / "empty/site_configs/standin.yaml").write_text(SITE)
    environment = environment_of(folder)
    words = ["submit", "cifar", "--site", "standin", "--nodes", "1", "--synthetic", "--sweep", f"seed=1..{number}"]
    submitted = [typed(folder, environment, *words) for _ in range(repeats)]
    left, *others = sorted((folder / "empty/runs").iterdir())
    for path in others:
        path.rename(folder / path.name)  # one array is left to be asked for
    running = "".join(f"4711_{n}|RUNNING|None|n1|{SUBMITTED}|{left}\n" for n in range(number // 2))
    ended = "".join(f"4711_{n}|COMPLETED|0:0|n1|lab|{SUBMITTED}|{left}\n" for n in range(number // 2, number))
    answer(folder, running, ended)
    digits = len(str(number - 1))
    for n in range(number // 2, number):
        leave_proof(left / f"{n:0{digits}}", f"4711_{n}.0")
    first, calls, told = typed(folder, environment, "status")
    later, _, _ = typed(folder, environment, "status")
    result: dict[str, object] = {
        "array_sbatch_calls": [called.count("sbatch") for _, called, _ in submitted],
        "array_submit_processor_s": round(statistics.median(took.processor for took, _, _ in submitted), 3),
        "array_submit_wall_s": round(statistics.median(took.wall for took, _, _ in submitted), 3),
        "array_status_calls": calls,
        "array_status_first_processor_s": round(first.processor, 3),
        "array_status_later_processor_s": round(later.processor, 3),
    }
    slowest = max(later.processor, *(took.processor for took, _, _ in submitted))
    bar = BAR_S if number <= LARGE else LARGE_BAR_S
    asked = [program for program in calls if program != "scontrol"]  # it names the cluster, if the machine has one
    once = all(called.count("sbatch") == 1 for _, called, _ in submitted) and asked == ["squeue", "sacct"]
    return result, once and f"{number} runs: " in told and slowest <= bar


def beside_ended(folder: Path, number: int, repeats: int) -> tuple[dict[str, object], bool]:
    """Return what ``status`` of ten runs takes beside so many that have ended, and whether the bars hold."""
    environment = make(folder, number + LIVE)
    for job in range(1, number + 1):
        path = folder / "runs" / f"train-{job:05}"
        end = {"time": "2026-01-02T04:04:05Z", "state": "COMPLETED", "exit_code": "0:0", "nodes": "n1", "edition": 4}
        with (path / "states.jsonl").open("a") as file:
            file.write(f"{json.dumps(end)}\n")
        os.utime(path / "states.jsonl", (0, 0))  # long ago
    names = [f"{folder}/runs/train-{job:05}" for job in range(number + 1, number + LIVE + 1)]
    lines = [f"{job}|RUNNING|None|n1|{SUBMITTED}|{name}" for job, name in enumerate(names, number + 1)]
    answer(folder, "\n".join(lines) + "\n", "")
    (Path(names[-1]) / "logs/x.out").write_text("hello\n")
    first, _, _ = typed(folder, environment, "status")
    later = [typed(folder, environment, "status") for _ in range(repeats)]
    logs = [typed(folder, environment, "logs", "@latest") for _ in range(repeats)]
    calls = {words[0]: system_calls(folder, environment, *words) for words in (("status",), ("logs", "@latest"))}
    result: dict[str, object] = {
        "ended_first_processor_s": round(first.processor, 3),
        "ended_status_processor_s": round(statistics.median(took.processor for took, _, _ in later), 3),
        "ended_status_wall_s": round(statistics.median(took.wall for took, _, _ in later), 3),
        "ended_logs_processor_s": round(statistics.median(took.processor for took, _, _ in logs), 3),
        "ended_system_calls": calls,
    }
    told = later[-1][2]
    shown = told.count("RUNNING") == LIVE and told.count("COMPLETED") >= 1 and logs[-1][2] == "hello\n"
    quick = statistics.median(took.processor for took, _, _ in later) <= ENDED_BAR_S
    return result, shown and quick and all(number is None or number <= MOST_CALLS for number in calls.values())


def system_calls(folder: Path, environment: dict[str, str], *words: str) -> int | None:
    """Return how many system calls ``hpclaunch WORDS`` makes, with its programs; None without strace."""
    strace, counts = shutil.which("strace"), folder / "strace"
    if strace is None:
        return None
    command = [strace, "-c", "-f", "-o", str(counts), sys.executable, "-m", "hpclaunch", *words]
    subprocess.run(command, cwd=folder / "empty", env=environment, capture_output=True, check=True)
    return int(counts.read_text().splitlines()[-1].split()[3])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--array", type=int, default=1000)
    parser.add_argument("--ended", type=int, default=10000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        alone = arguments.runs == 0
        result, holds = ({}, True) if alone else one_by_one(Path(place) / "runs", arguments.runs, arguments.repeats)
        of_array, array_holds = as_one_array(Path(place) / "array", arguments.array, arguments.repeats)
        of_ended, ended_holds = beside_ended(Path(place) / "ended", arguments.ended, arguments.repeats)
    result |= {**of_array, **of_ended, "load": round(os.getloadavg()[0], 1)}
    print(json.dumps(result) if arguments.json else "\n".join(f"{name:<30} {value}" for name, value in result.items()))
    return 0 if holds and array_holds and ended_holds else 1


if __name__ == "__main__":
    raise SystemExit(main())
