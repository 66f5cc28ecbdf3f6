"""Memory of a rank in training, as the plan computes it, as the rank counts it, and as the kernel sees it.

    python benchmarks/memory_per_rank.py [--size "27 million"] [--layout "2 ranks, state sharded" …] [--json]

The job `transformer` trains on made-up text, with 1, 2 and 4 ranks: data parallel, with optimizer state sharding, and
with layers that two ranks share. Every rank counts the bytes of its variables, gradients and optimizer state when the
training has ended, and looks at its proportional set size (PSS, /proc/self/smaps_rollup) 20 times a second. Beside it
stand the plan's states, and its total without what libraries take. Of the peak PSS that of an empty rank is
subtracted: it trains as many layers in the same layout, but with hardly any values, so that it has TensorFlow, Horovod
with its buffer, and the graphs. The C library gives freed memory back at once (MALLOC): otherwise it keeps holes, on an
empty rank 0.2 GB. Ends with 1 if a bar does not hold: states within 2 % of the count, the total within 10 % of the peak
PSS. A busy machine changes the time, not the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
JOB = ROOT / "jobs" / "transformer"
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
# What a surrounding job or a person's shell may have set; the benchmark decides it itself.
OWN = ("HPCLAUNCH_", "HOROVOD_", "OMPI_", "PMI", "SLURM_", "OMP_", "TF_")
COMMON = {"layers": 6, "context": 128, "vocabulary": 8192, "batch_size_per_rank": 4}
SIZES = {
    "27 million": {**COMMON, "hidden": 512, "heads": 8},
    "55 million": {**COMMON, "hidden": 768, "heads": 12},
}
EMPTY = {"hidden": 16, "heads": 4, "context": 16, "vocabulary": 260}
LAYOUTS: dict[str, tuple[int, dict[str, Any]]] = {
    "1 rank": (1, {}),
    "2 ranks, data parallel": (2, {}),
    "2 ranks, state sharded": (2, {"shard_optimizer": "true"}),
    "2 ranks, tensor parallel 2": (2, {"tensor_parallel": 2}),
    "4 ranks, data parallel": (4, {}),
    "4 ranks, state sharded": (4, {"shard_optimizer": "true"}),
    "4 ranks, tensor parallel 2": (4, {"tensor_parallel": 2}),
    "4 ranks, tensor parallel 2, state sharded": (4, {"tensor_parallel": 2, "shard_optimizer": "true"}),
}
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "262144", "MALLOC_TRIM_THRESHOLD_": "262144"}
STEPS = 2  # the second one finds the optimizer's state
TRAINED = {
    "synthetic": "true",
    "synthetic_samples": 64,
    "epochs": 1,
    "validation_every": 0,
    "export_model": "false",
    "noise_scale": "false",
}
SECONDS_BETWEEN_LOOKS = 0.05
STATES_BAR, TOTAL_BAR = 0.02, 0.10
MB = 1e6


@dataclass(frozen=True)
class Row:
    """Bytes of the rank that holds most: planned and counted states, planned total, peak PSS less that of `empty`."""

    size: str
    layout: str
    planned_states: float
    states: int
    planned_total: float
    peak: int
    empty: int

    @property
    def states_off(self) -> float:
        return self.planned_states / self.states - 1

    @property
    def total_off(self) -> float:
        return self.planned_total / self.peak - 1


# --- a rank


class Watcher(threading.Thread):
    """Looks at the PSS of this process until the end; `peak` is the largest in bytes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(SECONDS_BETWEEN_LOOKS):
            self.peak = max(self.peak, pss())


def pss() -> int:
    """Proportional set size in bytes: pages that processes share count in equal parts."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def rank(result: str) -> None:
    """Train as the job does; rank 0 writes the counts and the peak of every rank to the file `result`."""
    sys.path.insert(0, str(JOB))
    import train

    from hpclaunch import training

    asked = train.parse()
    with training.start(asked, "transformer") as run:
        from model import gpt, loss

        from hpclaunch.training.input import packed_text

        made_up = (asked.synthetic_samples, asked.context, asked.seed)
        folder = training.data_folder(run, made_up, lambda folder: packed_text.write(folder, *made_up))
        opened = (folder, asked.context, asked.vocabulary, "transformer")
        packed = training.source(run, lambda: packed_text.open_text(*opened))
        data = training.data(run, packed)
        sizes = (asked.layers, asked.hidden, asked.heads, asked.context, asked.vocabulary, asked.dropout)
        watcher = Watcher()
        watcher.start()
        model = training.fit(run, lambda: gpt(*sizes), data, loss=loss())
        watcher.over.set()
        watcher.join()
        found = run.world.gather({"counts": counted(model), "peak": watcher.peak})
        if run.is_root:
            Path(result).write_text(json.dumps(found))


def counted(model: Any) -> list[int]:
    """Bytes of this rank's weights, gradients, and optimizer's state with its own parts of the weights."""
    from hpclaunch.training.optimization import optimizer_state, precision
    from hpclaunch.training.optimization.sharded_optimizer import ShardedOptimizer

    weights = model.trainable_variables
    optimizer = precision.unscaled(model.optimizer)
    state = in_bytes(optimizer_state.variables(optimizer, weights))
    if isinstance(optimizer, ShardedOptimizer):
        state += in_bytes(optimizer.held)
    return [in_bytes(model.variables), in_bytes(weights), state]


def in_bytes(variables: Any) -> int:
    return int(sum(getattr(one, "held_size", one.shape.num_elements()) * one.dtype.size for one in variables))


# --- the benchmark


def start(ranks: int, settings: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """What every rank of a training found. Raises SystemExit with the end of its log."""
    result = folder / "found.json"
    words = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    command = [*MPIRUN, "-np", str(ranks), sys.executable, __file__, "--rank", str(result), *words]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
    environment |= {"PYTHONPATH": str(ROOT), "HPCLAUNCH_RUN_DIR": str(folder), "CUDA_VISIBLE_DEVICES": "-1", **MALLOC}
    with (folder / "log").open("w") as log:
        done = subprocess.run(command, env=environment, cwd=folder, stdout=log, stderr=log)
    if done.returncode:
        raise SystemExit((folder / "log").read_text()[-3000:])
    return list(json.loads(result.read_text()))


def planned(settings: dict[str, Any], ranks: int) -> tuple[float, float]:
    """The plan's states and total of a rank, in bytes, without the libraries: an empty rank has them, too."""
    from hpclaunch.config.job import job_of_file
    from hpclaunch.guidelines.memory import memory
    from hpclaunch.guidelines.parallelism import Room
    from hpclaunch.planner.fitting.fit import arrangement_of
    from hpclaunch.planner.job.workload import stored_figures, workload_of

    typed = tuple((name, str(value)) for name, value in settings.items())
    job = job_of_file(JOB / "job.yaml", "transformer").sized(typed)
    figures = stored_figures(job)
    assert job.training is not None and figures is not None
    work = workload_of(job, job.training, typed)
    assert work.per_rank is not None
    room = Room(gpu_bytes=1.0, gpus_per_node=ranks, node_bytes=1.0)
    arrangement = arrangement_of(work, ranks)
    found = memory(figures.model(work.precision), work.optimizer, work.per_rank, room, arrangement)
    return found.states, found.total - room.taken_bytes


def measured(size: str, layout: str, empty: int) -> Row:
    """Train one layout. empty: the peak PSS of an empty rank of this layout."""
    ranks, own = LAYOUTS[layout]
    settings = {**SIZES[size], **own}
    found = trained(layout, settings)
    states, total = planned(settings, ranks)
    return Row(
        size=size,
        layout=layout,
        planned_states=states,
        states=max(sum(one["counts"]) for one in found),
        planned_total=total,
        peak=max(one["peak"] for one in found) - empty,
        empty=empty,
    )


def trained(layout: str, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """What every rank found in some steps of a layout."""
    ranks, own = LAYOUTS[layout]
    copies = ranks // int(own.get("tensor_parallel", 1))
    short = {**TRAINED, "train_samples": STEPS * copies * int(settings["batch_size_per_rank"])}
    with tempfile.TemporaryDirectory() as folder:
        return start(ranks, {**settings, **short}, Path(folder))


def main() -> int:
    """Print the table; return 1 if a bar does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, nargs="+", default=list(SIZES))
    parser.add_argument("--layout", choices=LAYOUTS, nargs="+", default=list(LAYOUTS))
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each row")
    asked = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    rows: list[Row] = []
    for layout in asked.layout:
        empty = max(one["peak"] for one in trained(layout, {**COMMON, **EMPTY, **LAYOUTS[layout][1]}))
        for size in asked.size:
            rows.append(measured(size, layout, empty))
            print(json.dumps(asdict(rows[-1])) if asked.json else in_words(rows[-1]), flush=True)
    is_right = all(abs(row.states_off) <= STATES_BAR and abs(row.total_off) <= TOTAL_BAR for row in rows)
    return 0 if is_right else 1


def in_words(row: Row) -> str:
    """A line of the table, in MB."""
    states = f"{row.planned_states / MB:.1f} | {row.states / MB:.1f} | {row.states_off:+.1%}"
    total = f"{row.planned_total / MB:.0f} | {row.peak / MB:.0f} | {row.total_off:+.1%}"
    return f"| {row.size} | {row.layout} | {states} | {total} |"


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--rank":
        place = sys.argv[2]
        sys.argv = [str(JOB / "train.py"), *sys.argv[3:]]
        rank(place)
    else:
        sys.exit(main())
