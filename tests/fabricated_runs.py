"""Run directories as finished, preempted, failed and swept runs leave them, written without a scheduler.

Every number is computed, so the same call gives the same files; the time of a start's end is the marker's own.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from hpclaunch.core.spec import Request
from hpclaunch.search.events import TrialBegin, TrialEnd
from hpclaunch.search.folder import SearchFolder, SearchRecord
from hpclaunch.search.space import Dimension, SearchSpace
from hpclaunch.search.terms import SearchTerms

BEGAN = datetime(2026, 11, 20, 9, 0, tzinfo=timezone.utc).timestamp()
NOW = BEGAN + 86400.0
RANKS, NODES, EPOCHS = 8, 2, 20
HOSTILE = "--></script><script>alert(1)</script><svg onload=alert(2)>$\\frac{_^\u202e\x1b[31m"


def at(seconds: float) -> str:
    """Return a time so many seconds after BEGAN as hpclaunch writes it."""
    return datetime.fromtimestamp(BEGAN + seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def spec(**changes: Any) -> dict[str, Any]:
    """Return what spec.json holds of a training on two nodes with four GPUs each."""
    return {
        "name": "cifar",
        "target": "cifar",
        "site": "cluster",
        "layout": {"nodes": NODES, "tasks_per_node": 4, "cpus_per_task": 8, "gpus_per_node": 4, "further": []},
        "walltime": 3600,
        "cost": {"amount": 8.0, "unit": "GPU-hour", "note": "2 nodes x 01:00:00"},
        "version": "1.2.3",
        "command": ["/opt/python", "train.py", "--epochs=20"],
        "parameters": [
            ["epochs", "20"],
            ["batch_size_per_rank", "64"],
            ["learning_rate", "0.004"],
            ["optimizer", "adam"],
        ],
        "recipe": {
            "name": "plan",
            "advised": [["learning_rate", "0.002"]],
            "typed": [["learning_rate", "0.004"]],
            "global_batch": 512,
            "why": ["B = 512 = 8 ranks x 64 samples", "keep adam: it was used for cifar-10"],
        },
        "predicted": {"samples_per_s": 6400.0, "low": 5200.0, "high": 8100.0, "measured": True},
        "choices": [
            {"key": "nodes", "value": "2", "origin": "planner"},
            {"key": "partition", "value": "batch", "origin": "site cluster"},
            {"key": "walltime", "value": "3600", "origin": "--walltime"},
            {"key": "memory", "value": "64000", "origin": "settings"},
            {"key": "parameters.learning_rate", "value": "0.004", "origin": "--set"},
        ],
        "declined": [{"key": "partition", "value": "debug", "reason": "at most 1 node"}],
        "warnings": ["typed against the advice: learning_rate=0.004 (advised: 0.002)"],
        **changes,
    }


def make(folder: Path, name: str, **record: Any) -> Path:
    """Make a run directory with a record, a spec, a request and a script, and nothing that a run writes."""
    path = folder / name
    path.mkdir(parents=True)
    values = {
        "format": 1,
        "name": "cifar",
        "site": "cluster",
        "scheduler": "slurm",
        "created": at(0),
        "state": "COMPLETED",
        "job_id": "4711",
        "host": "login1",
        "user": "ada",
        "git": "9be6c0233d2788a3560c2fbfe4b2c9e1051ae1cf",
        **record,
    }
    (path / "run.json").write_text(json.dumps(values))
    (path / "spec.json").write_text(json.dumps(spec()))
    request = Request(target="cifar", nodes=2, walltime=3600, settings=(("learning_rate", "0.004"),))
    (path / "request.json").write_text(json.dumps({**asdict(request), "cwd": "/home/ada/project"}))
    (path / "environment.json").write_text(json.dumps({"system": "Linux 6.1 x86_64", "python_version": "3.11.2"}))
    (path / "job.sh").write_text(
        "#!/bin/bash\n#SBATCH --nodes=2\n# <b>not bold</b> & 'quoted'\nlaunch srun -- python train.py\n"
    )
    return path


def write_states(path: Path, changes: Sequence[tuple[float, str]]) -> None:
    """Write (seconds, state) as the recorded states."""
    lines = [{"time": at(seconds), "state": state, "job_id": "4711", "edition": 1} for seconds, state in changes]
    (path / "states.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_start(
    path: Path, name: str, began: float, ended: float | None, code: int = 0, terminated: bool = False
) -> Path:
    """Write the markers of one start."""
    folder = path / "attempts" / name
    folder.mkdir(parents=True)
    (folder / "started").write_text(at(began) + "\n")
    if terminated:
        (folder / "terminated").write_text("120\n")
    if ended is not None:
        (folder / "exit-code").write_text(f"{code}\n")
        os.utime(folder / "exit-code", (BEGAN + ended, BEGAN + ended))
        if code == 0:
            (folder / "completed").write_text(f"{name} 1\n")
    return folder


def write_metrics(path: Path, events: Sequence[Mapping[str, Any]]) -> None:
    """Write the events of metrics.jsonl."""
    lines = [{"time": BEGAN + 60.0 * place, "synthetic": False, **event} for place, event in enumerate(events)]
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def epoch(number: int, straggler: int | None = None, rate: float = 0.004) -> dict[str, Any]:
    """Return the event of an epoch, of which one rank may be slow."""
    by_rank = [
        0.050 + 0.001 * ((number * 7 + rank * 3) % 5) + (0.02 if rank == straggler else 0) for rank in range(RANKS)
    ]
    return {
        "event": "epoch",
        "epoch": number,
        "loss": 2.2 * math.exp(-number / 6) + 0.05,
        "accuracy": 1 - 0.9 * math.exp(-number / 5),
        "val_loss": 2.2 * math.exp(-number / 6) + 0.12 + 0.004 * number,
        "val_accuracy": 0.92 - 0.85 * math.exp(-number / 5),
        "images_per_s": 900.0 if number == 1 else 7000.0 + 150 * math.sin(number),
        "seconds": 7.1,
        "learning_rate": rate * min(1.0, number / 5) * (0.1 if number > 15 else 1.0),
        "step_s": 0.073,
        "step_seconds": {"compute": 0.052, "communication": 0.018, "input": 0.003},
        "step_seconds_by_rank": by_rank,
    }


def write_samples(path: Path, attempt: str, began: float, intervals: int, memory_limit: int = 64 * 2**30) -> None:
    """Write what the sampler wrote on both nodes, every ten seconds."""
    folder = path / "samples"
    folder.mkdir(exist_ok=True)
    for node in range(NODES):
        name = f"gpu{node + 1:02d}"
        sources = {"cpu": "cgroup", "memory": "cgroup", "gpu": "nvml", "energy": "gpu"}
        gpus = [{"index": place, "name": "H100", "memory": 80 * 2**30} for place in range(4)]
        lines: list[dict[str, Any]] = [
            {"format": 1, "node": name, "attempt": attempt, "interval": 10, "began": BEGAN + began, "cpus": 32}
            | {"memory_limit": memory_limit, "gpus": gpus, "sources": sources}
        ]
        for place in range(1, intervals + 1):
            lines.append(_sample(node, place, BEGAN + began + 10.0 * place))
        (folder / f"{name}-{attempt}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _sample(node: int, place: int, time: float) -> dict[str, Any]:
    busy = 0.4 if place < 3 else 0.8 + 0.05 * math.sin(place + node)
    ranks = {
        str(4 * node + rank): {
            "cpu": 10 * 8 * busy * (0.6 if rank == 2 else 1),
            "pss": 3 * 2**30,
            "read": 10**8,
            "write": 10**6,
        }
        for rank in range(4)
    }
    gpu = [
        {"use": busy, "samples": 50, "seconds": 10.0, "memory": 40 * 2**30, "power": 350.0 + 20 * rank}
        for rank in range(4)
    ]
    net = {"in": 5 * 10**8, "out": 5 * 10**8}
    memory = int((12 + 4 * (1 - math.exp(-place / 5))) * 2**30)
    return {
        "t": time,
        "cpu": 10 * 32 * busy,
        "ranks": ranks,
        "memory": memory,
        "gpu": gpu,
        "net": net,
        "joules": 15200.0,
    }


def finished(folder: Path) -> Path:
    """Make a run that completed, with everything measured; rank 5 is slow."""
    path = make(folder, "cifar-20261120-090000-0a1b2c3d", nodes="gpu[01-02]")
    write_states(path, [(0, "RENDERED"), (2, "PENDING"), (95, "RUNNING"), (700, "COMPLETED")])
    write_start(path, "4711.0", 96, 695)
    start = {"event": "start", "world_size": RANKS, "global_batch_size": 512}
    noise = [
        {
            "event": "noise_scale",
            "epoch": n,
            "noise_scale": 300.0 + 90 * n,
            "low": 200.0 + 80 * n,
            "high": 450.0 + 100 * n,
        }
        for n in range(1, EPOCHS + 1)
    ]
    end = {"event": "end", "epochs": EPOCHS, "seconds": 560.0, "test_accuracy": 0.9123, "test_loss": 0.31}
    write_metrics(path, [start, *(epoch(n, straggler=5) for n in range(1, EPOCHS + 1)), *noise, end])
    write_samples(path, "4711.0", 96, 59)
    return path


def preempted(folder: Path) -> Path:
    """Make a run that was preempted twice, went on from its checkpoints, and was preempted at last."""
    path = make(
        folder, "cifar-20261120-090000-preempted", state="PREEMPTED", exit_code="0:15", earlier=["4709", "4710"]
    )
    write_states(
        path,
        [(2, "PENDING"), (60, "RUNNING"), (600, "PENDING"), (1500, "RUNNING"), (2400, "PENDING"), (2700, "RUNNING")],
    )
    write_start(path, "4709.0", 60, 600, 75, terminated=True)
    write_start(path, "4710.0", 1500, 2400, 75, terminated=True)
    write_start(path, "4711.0", 2700, 3000, 143, terminated=True)
    with (path / "states.jsonl").open("a") as file:
        file.write(json.dumps({"time": at(3005), "state": "PREEMPTED", "job_id": "4711", "edition": 2}) + "\n")
    resumes = [{"event": "resume", "epoch": 5, "step": 10}, {"event": "resume", "epoch": 11, "step": 0}]
    epochs = [epoch(n) for n in range(1, 14)]
    write_metrics(path, [*epochs[:5], resumes[0], *epochs[5:11], resumes[1], *epochs[11:]])
    (path / "metrics-repeated.jsonl").write_text(json.dumps(epoch(6)) + "\n")
    return path


def failed(folder: Path) -> Path:
    """Make a run that diverged and failed; nothing was sampled."""
    path = make(folder, "cifar-20261120-090000-failed00", state="FAILED", exit_code="1:0")
    write_states(path, [(2, "PENDING"), (60, "RUNNING"), (200, "FAILED")])
    start = write_start(path, "4711.0", 60, 200, 1)
    (start / "first-failure").write_text("1\n")
    (start / "first-failure.rank").write_text("rank 3\n")
    write_metrics(path, [epoch(1), epoch(2), {**epoch(3), "loss": math.nan, "accuracy": None}])
    (path / "logs").mkdir()
    (path / "logs" / "4711.out").write_text("epoch 3/20\nthe loss is nan <b>bold</b>: training has diverged\n")
    return path


def not_started(folder: Path) -> Path:
    """Make a run that the scheduler refused."""
    return make(folder, "cifar-20261120-090000-refused0", state="NOT_SUBMITTED", job_id="", reason="invalid account")


def array(folder: Path) -> Path:
    """Make an array of 24 runs, six learning rates and four seeds; the largest rate fails for two seeds."""
    path = make(
        folder, "cifar-20261120-090000-sweep024", tasks=24, state="FAILED", reason="24 runs: 22 COMPLETED, 2 FAILED"
    )
    rates, seeds = ["0.0001", "0.0003", "0.001", "0.003", "0.01", "0.03"], ["1", "2", "3", "4"]
    sweep = {"axes": [["learning_rate", rates], ["seed", seeds]], "position": 3}
    (path / "spec.json").write_text(json.dumps(spec(sweep=sweep)))
    states, lines = {}, []
    for index, (rate, seed) in enumerate((rate, seed) for rate in rates for seed in seeds):
        state = "FAILED" if index >= 22 else "COMPLETED"
        states[str(index)] = [f"4711_{index}", state, "1:0" if state == "FAILED" else "0:0", "", "gpu01"]
        lines.append(f"{index:04d}\t--learning-rate={rate}\t--seed={seed}")
        run = path / f"{index:04d}"
        run.mkdir()
        _write_swept(run, index, float(rate), int(seed), state)
    (path / "states.json").write_text(json.dumps(states))
    (path / "values").write_text("\n".join(lines) + "\n")
    return path


def _write_swept(run: Path, index: int, rate: float, seed: int, state: str) -> None:
    write_start(run, f"4711_{index}.0", 60 + index, 360 + index, 0 if state == "COMPLETED" else 1)
    quality = 1 - 0.08 * (math.log10(rate) + 2.5) ** 2 - 0.004 * seed
    curve = [
        {
            **epoch(n),
            "loss": 2.2 * math.exp(-n * quality / 6) + 0.1 * (2 - quality),
            "val_loss": None,
            "val_accuracy": None,
        }
        for n in range(1, 9)
    ]
    end = {"event": "end", "epochs": 8, "test_accuracy": round(0.92 * quality, 4)}
    write_metrics(run, [*curve, end] if state == "COMPLETED" else curve[:3])


def hostile(folder: Path) -> Path:
    """Make a run whose names, texts and metrics try to become markup, formulas and controls."""
    path = make(folder, "hostile-20261120-090000-0a1b2c3d", state="FAILED", reason=HOSTILE, user=HOSTILE, git=HOSTILE)
    (path / "spec.json").write_text(
        json.dumps(
            spec(parameters=[[HOSTILE, HOSTILE]], warnings=[HOSTILE, 7], name=HOSTILE, choices=[{"key": HOSTILE}, 3])
        )
    )
    (path / "job.sh").write_text(f"#!/bin/bash\n{HOSTILE}\n")
    write_start(path, "4711.0", 60, 200, 1)
    (path / "attempts/4711.0/first-failure.rank").write_text(HOSTILE)
    metrics = {HOSTILE: 0.5, f"_{HOSTILE}": 1.5, "=HYPERLINK(1)": 2.5, "huge": 10**400, "endless": math.inf}
    write_metrics(
        path, [{"event": "epoch", "epoch": n, **metrics, "nested": {"a": 1}, "text": HOSTILE} for n in (1, 2, 3)]
    )
    (path / "logs").mkdir()
    (path / "logs/4711.out").write_text(HOSTILE + "\n")
    return path


def study(folder: Path) -> Path:
    """Make a scaling study of four layouts, whose largest one is inefficient."""
    path = folder / "scale-20261120-090000-0a1b2c3d"
    path.mkdir(parents=True)
    layouts = [(1, 1, 1000.0), (1, 4, 3700.0), (2, 4, 6600.0), (4, 4, 9100.0)]
    values = {
        "format": 1,
        "kind": "scaling",
        "job": "cifar",
        "target": "cifar",
        "site": "cluster",
        "node_type": "gpu",
        "created": at(0),
        "mode": "strong",
        "key": "",
        "device": "H100",
        "cwd": "/home/ada/project",
        "batch": 512,
        "samples": 50_000,
        "steps": 100,
        "request": {"target": "cifar"},
        "points": [
            {
                "nodes": nodes,
                "tasks_per_node": tasks,
                "per_rank": 512 // (nodes * tasks),
                "run_dirs": [f"/x/{nodes}-{tasks}"],
            }
            for nodes, tasks, _ in layouts
        ],
    }
    (path / "study.json").write_text(json.dumps(values))
    rows = [_study_row(nodes, tasks, rate) for nodes, tasks, rate in layouts]
    warnings = ["16 ranks: each added node gives less than 60 % of its work; communication takes most of it"]
    results = {"rows": rows, "warnings": warnings, "problems": [], "open": 0, "complete": True, "spent": 3.5}
    (path / "results.json").write_text(json.dumps({**results, "unit": "GPU-hour", "synthetic": False}))
    return path


def _study_row(nodes: int, tasks: int, rate: float) -> dict[str, Any]:
    ranks, speed_up = nodes * tasks, rate / 1000.0
    split = {"compute_s": 0.5 / ranks, "communication_s": 0.004 * ranks**0.5, "waiting_s": 0.002, "input_s": 0.001}
    return {
        "nodes": nodes,
        "ranks": ranks,
        "batch_per_rank": 512 // ranks,
        "accumulation": 1,
        "global_batch": 512,
        "runs": ["a"],
        "open": 0,
        "rates": [rate],
        "samples_per_s": rate,
        "samples_per_s_low": 0.97 * rate,
        "samples_per_s_high": 1.03 * rate,
        "deviation": None,
        "step_s": 512 / rate,
        "split": split,
        "speed_up": speed_up,
        "speed_up_low": 0.97 * speed_up,
        "speed_up_high": 1.03 * speed_up,
        "efficiency": speed_up / ranks,
        "verdict": "" if ranks < 16 else "inefficient",
        "causes": [],
        "predicted": 1.08 * rate,
        "predicted_low": 0.9 * rate,
        "predicted_high": 1.3 * rate,
        "prediction_error": 0.08,
        "cost_of_epoch": 0.02 * nodes,
        "unit": "GPU-hour",
    }


def search(folder: Path) -> Path:
    """Make a search of a grid of eight trials, one of which failed."""
    path = make(folder, "cifar-20261120-090000-search00", state="COMPLETED")
    write_start(path, "4711.0", 60, 960)
    space = SearchSpace(
        dimensions=(
            Dimension(name="learning_rate", values=("0.001", "0.01", "0.1", "1")),
            Dimension(name="seed", values=("1", "2")),
        )
    )
    terms = SearchTerms(space=space, metric="test_accuracy")
    place = SearchFolder(path)
    place.write(SearchRecord(terms=terms, target="cifar", at_once=2, created=at(0), free=False))
    lines = []
    for number, (rate, seed) in enumerate((rate, seed) for rate in (0.001, 0.01, 0.1, 1.0) for seed in (1, 2)):
        value = 0.9 - 0.06 * (math.log10(rate) + 2) ** 2 - 0.005 * seed
        began = BEGAN + 60 + 200 * (number // 2) + seed
        state = "COMPLETED" if number < 7 else "FAILED"
        values = {"learning_rate": f"{rate:g}", "seed": str(seed)}
        end = TrialEnd(number, 1, began + 190, state, value if state == "COMPLETED" else None)
        lines += [TrialBegin(number, 1, began, values, "gpu01", "0-7").line(), end.line()]
    place.journal(1).parent.mkdir(parents=True, exist_ok=True)
    place.journal(1).write_text("".join(f"{line}\n" for line in lines))
    return path
