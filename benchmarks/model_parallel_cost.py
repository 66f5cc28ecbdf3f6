"""Time of a step of a model that ranks share, against data parallel at the same model; and the plan's prediction.

    python benchmarks/model_parallel_cost.py [--rounds 7] [--steps 8] [--json]

The job `transformer` on made-up text: two ranks data parallel, with optimizer state sharding, with layers that both
share (1 x 2), and as the two stages of a pipeline with four micro-batches. All have processes of their own; they take
turns of some steps, and those whose turn it is not are stopped, so that a drifting machine slows all. Every layout is
trained with three batch sizes. The plan's step-time model is fitted to two of them, as after `profile`, and predicts
the third one. Prints medians of the step's time, the time of a sample relative to data parallel in the same round, and
the prediction. Ends with 1 if the median of the predictions' errors is above 15 %. Leave the machine alone meanwhile:
the load is printed, too.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
JOB = ROOT / "jobs" / "transformer"
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
OWN = ("HPCLAUNCH_", "HOROVOD_", "OMPI_", "PMI", "SLURM_", "OMP_", "TF_")
RANKS, LONGEST_START_S = 2, 900
SIZE: dict[str, Any] = {"layers": 2, "hidden": 256, "heads": 4, "context": 64, "vocabulary": 2048}
LAYOUTS: dict[str, dict[str, Any]] = {
    "data parallel": {},
    "state sharded": {"shard_optimizer": "true"},
    "tensor parallel": {"tensor_parallel": 2},
    "pipeline": {"pipeline_stages": 2, "accumulation": 4},
}
FITTED, PREDICTED = (4, 16), 32  # samples of a replica in a step
BAR = 0.15


# --- a rank


def rank(address: str, name: str) -> None:
    """Train, a turn of steps each time that the benchmark asks for one, until it asks for no more."""
    sys.path.insert(0, str(JOB))
    import train

    from hpclaunch import training

    asked = train.parse()
    with training.start(asked, "transformer") as run, Client(address) as benchmark:
        import tensorflow as tf
        from model import gpt, loss

        from hpclaunch.training.input import packed_text

        made_up = (asked.synthetic_samples, asked.context, asked.seed)
        folder = training.data_folder(run, made_up, lambda folder: packed_text.write(folder, *made_up))
        opened = (folder, asked.context, asked.vocabulary, "transformer")
        data = training.data(run, training.source(run, lambda: packed_text.open_text(*opened)))
        sizes = (asked.layers, asked.hidden, asked.heads, asked.context, asked.vocabulary, asked.dropout)
        benchmark.send((name, os.getpid()))

        class Turns(tf.keras.callbacks.Callback):
            """Waits for the word before every epoch, which is a turn, and tells its seconds."""

            def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
                if not benchmark.recv():
                    os._exit(0)
                self.began = tf.timestamp()

            def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
                benchmark.send(float(tf.timestamp() - self.began))

        training.fit(run, lambda: gpt(*sizes), data, loss=loss(), callbacks=[Turns()])


# --- the benchmark


def replicas_of(layout: str) -> int:
    """The replicas of the model that the ranks of a layout hold."""
    own = LAYOUTS[layout]
    return RANKS // (int(own.get("tensor_parallel", 1)) * int(own.get("pipeline_stages", 1)))


def per_rank(layout: str, samples: int) -> int:
    """The samples of a micro-batch, if a replica has so many in a step."""
    return samples // int(LAYOUTS[layout].get("accumulation", 1))


class Runners:
    """The ranks of one layout and batch, stopped until it is their turn."""

    def __init__(self, layout: str, samples: int, steps: int, folder: Path) -> None:
        folder.mkdir()
        self.steps, address = steps, str(folder / "socket")
        words = {
            **SIZE,
            **LAYOUTS[layout],
            "batch_size_per_rank": per_rank(layout, samples),
            "train_samples": steps * replicas_of(layout) * samples,
            "synthetic": "true",
            "synthetic_samples": 512,
            "epochs": 10**6,
            "validation_every": 0,
            "export_model": "false",
            "noise_scale": "false",
        }
        options = [f"--{key.replace('_', '-')}={value}" for key, value in words.items()]
        environment = {key: value for key, value in os.environ.items() if not key.startswith(OWN)}
        environment |= {"PYTHONPATH": str(ROOT), "HPCLAUNCH_RUN_DIR": str(folder), "CUDA_VISIBLE_DEVICES": "-1"}
        environment["OMP_NUM_THREADS"] = "1"
        command = [*MPIRUN, "-np", str(RANKS), sys.executable, __file__, "--rank", address, layout, *options]
        with Listener(address) as listener, (folder / "log").open("w") as log:
            self.process = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
            signal.alarm(LONGEST_START_S)  # a process that has failed never calls
            self.talks: list[Connection] = [listener.accept() for _ in range(RANKS)]
            self.pids = [talk.recv()[1] for talk in self.talks]
            signal.alarm(0)
        self.turn()  # TensorFlow traces the step
        self.wake(False)

    def wake(self, up: bool) -> None:
        """Let the ranks go on, or stop them."""
        for pid in self.pids:
            os.kill(pid, signal.SIGCONT if up else signal.SIGSTOP)

    def turn(self) -> float:
        """Seconds of a step: the slowest rank's of a turn."""
        self.wake(True)
        for talk in self.talks:
            talk.send(True)
        seconds = max(talk.recv() for talk in self.talks)
        self.wake(False)
        return float(seconds) / self.steps

    def end(self) -> None:
        """End the ranks."""
        self.wake(True)
        for talk in self.talks:
            talk.send(False)
        self.process.terminate()
        self.process.wait()


def predicted(layout: str, steps: dict[int, float]) -> float:
    """The plan's seconds of a step with the batch PREDICTED, from the profile of the two others."""
    from hpclaunch.config.job import job_of_file
    from hpclaunch.guidelines.calibration import Measured, calibrate
    from hpclaunch.guidelines.communication import Links
    from hpclaunch.guidelines.expected_timing import Prior
    from hpclaunch.guidelines.intervals import deviation
    from hpclaunch.guidelines.overhead import fixed_time
    from hpclaunch.guidelines.throughput import Machine, Shape, step_time
    from hpclaunch.planner.fitting.machine import NodeModel
    from hpclaunch.planner.job.workload import stored_figures, workload_of
    from hpclaunch.planner.speed.prediction import moved_by

    typed = tuple((name, str(value)) for name, value in {**SIZE, **LAYOUTS[layout]}.items())
    job = job_of_file(JOB / "job.yaml", "transformer").sized(typed)
    figures = stored_figures(job)
    assert job.training is not None and figures is not None
    work = workload_of(job, job.training, typed)
    links = Links(gpu_gbytes_per_s=None, node_gbytes_per_s=10.0)
    node = NodeModel(
        ranks=RANKS, on_gpus=False, speed=None, device="CPUs", cores=RANKS, links=links, room=None, assumed=()
    )
    fixed = fixed_time(figures.operations, len(figures.layers))
    prior = Prior(fixed_s=fixed.seconds, fixed_spread=deviation(fixed.width))

    def shape(samples: int) -> Shape:
        parts = int(LAYOUTS[layout].get("accumulation", 1))
        return Shape(
            nodes=1, ranks_per_node=replicas_of(layout), per_rank=per_rank(layout, samples), accumulation=parts
        )

    points = [Measured(shape=shape(size), samples_per_s=shape(size).samples / steps[size]) for size in FITTED]
    moved, machine = moved_by(work, figures, node), Machine(links=links)
    return step_time(shape(PREDICTED), moved, machine, calibrate(points, moved, machine, prior)).total_s


def main() -> int:
    """Print the table; return 1 if the bar does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=8, help="of a turn")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    load = [os.getloadavg()[0]]
    runners: dict[tuple[str, int], Runners] = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for layout in LAYOUTS:
                for size in (*FITTED, PREDICTED):
                    place = Path(folder) / f"{len(runners)}"
                    runners[layout, size] = Runners(layout, size, asked.steps, place)
            rounds = [{case: runner.turn() for case, runner in runners.items()} for _ in range(asked.rounds)]
        finally:
            for runner in runners.values():
                runner.end()
    load.append(os.getloadavg()[0])
    rows = [row_of(layout, rounds) for layout in LAYOUTS]
    middle = statistics.median(abs(row["error"]) for row in rows)
    if asked.json:
        print(json.dumps({"load": load, "rows": rows, "median_error": middle}))
    else:
        for row in rows:
            times = " ".join(f"{1e3 * row['step_s'][size]:.1f}" for size in row["step_s"])
            print(
                f"{row['layout']}: {times} ms with {FITTED + (PREDICTED,)} samples of a replica;"
                f" {row['per_sample']:.2f} times the time of a sample of data parallel;"
                f" predicted {1e3 * row['predicted_s']:.1f} ms ({row['error']:+.1%})"
            )
        print(f"median error {middle:.1%}; load average {load[0]:.1f} before, {load[1]:.1f} after")
    return 0 if middle <= BAR else 1


def row_of(layout: str, rounds: list[dict[tuple[str, int], float]]) -> dict[str, Any]:
    """A layout's medians of all rounds, its cost relative to data parallel in the same round, and its prediction."""
    steps = {size: statistics.median(one[layout, size] for one in rounds) for size in (*FITTED, PREDICTED)}
    # A step of data parallel has the samples of all ranks, one of ranks that share the model those of one replica.
    ratios = [
        one[layout, PREDICTED] / replicas_of(layout) / (one["data parallel", PREDICTED] / RANKS) for one in rounds
    ]
    found = predicted(layout, steps)
    return {
        "layout": layout,
        "step_s": steps,
        "per_sample": statistics.median(ratios),
        "predicted_s": found,
        "error": found / steps[PREDICTED] - 1,
    }


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--rank":
        where, case = sys.argv[2], sys.argv[3]
        sys.argv = [str(JOB / "train.py"), *sys.argv[4:]]
        rank(where, case)
    else:
        sys.exit(main())
