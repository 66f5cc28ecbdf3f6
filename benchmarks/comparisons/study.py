"""Compares numbers of ranks, and the plan's prediction with what was measured, on this machine's CPUs.

    HPCLAUNCH_DATA_DIR=FOLDER python benchmarks/comparisons/study.py article|predictions [--small] [--json]

article       the chips job on 1, 2 and 4 ranks, for both data distributions: time, speed-up, accuracy. The documented
              50 epochs of 500 x 500 pixels take days on two cores: --image-size, --samples and --epochs make them fewer
predictions   of every job: how much memory half a batch takes, and the step time of two ranks from one rank's,
              each against the planner's formulas (hpclaunch/guidelines)
--small       tiny made-up data: shows that it runs, nothing else

Prints a table. FOLDER holds mnist/ and cifar10/. chips, cosmoflow and resnet50 make up data of their documented shape.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "large_batch"))

from cases import ARTICLE, JOBS, SMALL, SMALL_BATCHES, TIMED, Case
from ranks import ROOT, Look, run

sys.path.insert(0, str(ROOT))
sys.path.append(str(ROOT / "benchmarks" / "reference"))

import needs

REPLICAS = "benchmarks/comparisons/cpu_replicas.py"
CORES = len(os.sched_getaffinity(0))
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A run that ended well: seconds of training, samples/s (median of the epochs after the first), peak memory.

    start, epochs, end: its events in metrics.jsonl. looks: the use of memory and cores over time.
    """

    seconds: float
    samples_per_s: float
    peak_pss: int
    start: dict[str, Any]
    epochs: list[dict[str, Any]]
    end: dict[str, Any]
    looks: tuple[Look, ...] = ()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=["article", "predictions"])
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--epochs", type=int, default=0, help="0: the publication's")
    parser.add_argument("--image-size", type=int, default=0, help="of article: drawn photographs; 0: as documented")
    parser.add_argument("--samples", type=int, default=0, help="of article: so many drawn photographs; 0: 769")
    parser.add_argument("--jobs", nargs="+", choices=list(JOBS), default=list(JOBS), help="of predictions")
    parser.add_argument("--replicas", type=int, default=0, help="runs with more replicas are left out; 0: none is")
    parser.add_argument("--data-dir", default=os.environ.get("HPCLAUNCH_DATA_DIR", ""))
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "comparisons", help="logs and metrics of the runs")
    options = parser.parse_args()
    if options.study != "article" and (options.image_size or options.samples):
        parser.error("--image-size and --samples are of article alone")
    return options


def data_of(options: argparse.Namespace, case: Case) -> list[str]:
    """The switches that say what a case trains on; none: the data in the data folder."""
    if options.small:
        found = list(SMALL[case.job])
    elif options.study == "predictions":
        found = list(TIMED[case.job])
    else:
        found = []
    if options.study == "article":
        there = bool(options.data_dir) and Path(options.data_dir, "chips").is_dir()
        if options.image_size or options.samples or not there:  # photographs that are there cannot be resized
            found.append("--synthetic=true")
        found += [f"--image-size={options.image_size}"] if options.image_size else []
        found += [f"--synthetic-samples={options.samples}"] if options.samples else []
    return found


def outcome(options: argparse.Namespace, case: Case, epochs: int, *, pinned: bool = False) -> Outcome:
    """Run a case in a folder of its own; pinned: each rank has a core to itself, else they share all of them.

    Raises RuntimeError with the end of its log if it fails.
    """
    folder = (options.out / options.study / case.name).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    arguments = [f"--batch-size-per-rank={case.batch}", f"--epochs={epochs}", *data_of(options, case), *case.switches]
    arguments += [f"--strategy={case.strategy}", "--noise-scale=false", "--checkpoint-minutes=0"]
    program = f"jobs/{case.job}/train.py"
    more = {}
    if case.in_one_process:
        program, arguments = REPLICAS, [str(case.replicas), str(ROOT / program), *arguments]
        if pinned:  # the process has as many cores as replicas, where ranks would have one each
            more["CPU_REPLICAS_CORES"] = more["OMP_NUM_THREADS"] = str(min(case.replicas, CORES))
    if case.strategy == "multiworker" and case.ranks > 1:
        more["HPCLAUNCH_WORKERS"] = ",".join(f"localhost:{port}" for port in free_ports(case.ranks))
    print(f"{case.name} …", file=sys.stderr, flush=True)
    bound = pinned and not case.in_one_process
    ended = run(program, arguments, case.ranks, folder, options.data_dir, more, pinned=bound)
    if ended.code != 0:
        last = (folder / "log").read_text(errors="replace").splitlines()[-15:]
        raise RuntimeError("\n".join([f"{case.name} ended with {ended.code}; the end of {folder}/log:", *last]))
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    found = [event for event in events if event["event"] == "epoch"]
    (start,) = [event for event in events if event["event"] == "start"]
    (end,) = [event for event in events if event["event"] == "end"]
    if start["replicas"] != case.replicas:
        raise RuntimeError(f"{case.name}: {start['replicas']} replicas, not {case.replicas}")
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    return Outcome(
        seconds=end["seconds"],
        samples_per_s=statistics.median(event["images_per_s"] for event in found[1:] or found),
        peak_pss=ended.peak_pss,
        start=start,
        epochs=found,
        end=end,
        looks=ended.looks,
    )


def free_ports(count: int) -> list[int]:
    """Ports that are free now; all are held until the last is known, so that they differ."""
    held = [socket.create_server(("", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def article(options: argparse.Namespace) -> list[Row]:
    """Time and speed-up of 1, 2 and 4 ranks for both data distributions; speed-up against one rank of the same."""
    rows: list[Row] = []
    epochs = options.epochs or (2 if options.small else 50)
    alone: dict[str, float] = {}
    for case in chosen(options, ARTICLE):
        found = outcome(options, case, epochs)
        distribution = case.name.split("-")[0]
        first = alone.setdefault(distribution, found.seconds)
        rows.append(
            {
                "distribution": distribution,
                "ranks": case.replicas,
                "images a rank": case.batch,
                "pixels a side": found.start["options"]["image_size"],
                "training images": found.start["data"]["samples"]["train"],
                "epochs": epochs,
                "seconds": round(found.seconds, 1),
                "speed-up": round(first / found.seconds, 2),
                "images/s": round(found.samples_per_s, 1),
                "training accuracy": round(found.epochs[-1]["accuracy"], 4),
                "validation accuracy": round(found.end["validation_accuracy"], 4),
                "memory (GB)": round(found.peak_pss / 1e9, 2),
            }
        )
    return rows


def predictions(options: argparse.Namespace) -> list[Row]:
    """Memory and step time of every job, each rank on one core, against the planner's formulas."""
    from hpclaunch.config.catalog import Catalog
    from hpclaunch.config.job import load_job
    from hpclaunch.guidelines.memory import activation_bytes

    rows = []
    for name in options.jobs:
        batch = (SMALL_BATCHES if options.small else JOBS)[name]
        sizes = (batch // 2, batch)
        half, whole = (
            outcome(options, Case(name=f"{name}-1-{b}", job=name, replicas=1, batch=b), 2, pinned=True) for b in sizes
        )
        both = outcome(options, Case(name=f"{name}-2-{batch}", job=name, replicas=2, batch=batch), 2, pinned=True)
        training = load_job(Catalog(project=Path("/"), user=Path("/")), name, Path("/")).training
        assert training is not None
        saved = training.figures["saved_bytes_per_sample"]
        measured_s = 2 * batch / both.samples_per_s
        predicted_s = predicted_step_s(whole.start["parameters"], sizes, (half, whole))
        rows.append(
            {
                "job": name,
                "samples a rank": batch,
                "memory of half a batch (MB)": round((whole.peak_pss - half.peak_pss) / 1e6),
                "predicted (MB)": "another shape" if options.small else round(activation_bytes(saved, batch / 2) / 1e6),
                "step of 1 rank (s)": round(batch / whole.samples_per_s, 3),
                "step of 2 ranks (s)": round(measured_s, 3),
                "predicted (s)": round(predicted_s, 3),
                "error": f"{predicted_s / measured_s - 1:+.0%}",
            }
        )
    return rows


def predicted_step_s(parameters: int, sizes: tuple[int, int], found: tuple[Outcome, Outcome]) -> float:
    """Seconds of a step of two ranks here, calibrated with one rank at two batch sizes, as `profile` does."""
    from hpclaunch.guidelines.calibration import Measured, calibrate
    from hpclaunch.guidelines.communication import HOST_GBYTES_PER_S, WIRE, Links
    from hpclaunch.guidelines.throughput import Machine, Shape, Work, step_time

    links = Links(gpu_gbytes_per_s=None, node_gbytes_per_s=HOST_GBYTES_PER_S / WIRE, nvlink=False, node_known=False)
    machine, work = Machine(links=links), Work(gradient_bytes=4.0 * parameters)
    points = [
        Measured(shape=Shape(nodes=1, ranks_per_node=1, per_rank=size), samples_per_s=one.samples_per_s)
        for size, one in zip(sizes, found, strict=True)
    ]
    timing = calibrate(points, work, machine)
    return step_time(Shape(nodes=1, ranks_per_node=2, per_rank=sizes[1]), work, machine, timing).total_s


def chosen(options: argparse.Namespace, cases: tuple[Case, ...]) -> list[Case]:
    return [case for case in cases if not options.replicas or case.replicas <= options.replicas]


def smaller(case: Case) -> Case:
    return replace(case, batch=SMALL_BATCHES[case.job], replicas=min(2, case.replicas))


def table(rows: list[Row]) -> str:
    """The rows as a table in Markdown."""
    heads = list(rows[0])
    lines = [heads, ["---"] * len(heads), *([str(row[head]) for head in heads] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> int:
    options = parse()
    if options.study == "predictions" and not options.small:
        read = [one for one in (needs.MNIST, needs.CIFAR10) if one.job in options.jobs]
        options.data_dir = needs.images(options.data_dir, *read)
    rows = {"article": article, "predictions": predictions}[options.study](options)
    print(json.dumps(rows, indent=2) if options.json else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
