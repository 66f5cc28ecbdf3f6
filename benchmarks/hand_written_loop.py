"""Images/s of a bundled job on one and two ranks, paired with a hand-written minimal loop of the same framework.

    HPCLAUNCH_DATA_DIR=FOLDER python benchmarks/hand_written_loop.py [--rounds 11] [--ranks 1 2] [--steps 8] [--json]
    … --framework torch [--python /usr/bin/python3], or jax --python FOLDER/bin/python

The job is the whole of jobs/cifar/train.py: training.start, image_set and fit, with its callbacks, its log and its
checkpoints. The loop has nothing but the job's model, Keras's Adam, Horovod's tape, a tf.data pipeline of uint8 images
in memory, and the sums of loss and accuracy. Both have 512 images per rank and step, and as many threads per rank.
Under PyTorch and JAX the jobs are jobs/ddp and jobs/jax, and hand_written_plain.py has the loops: plain
DistributedDataParallel, and shard_map with pmean.
The processes take turns of some steps, and those whose turn it is not are stopped. Prints medians, and the medians of
the ratios, pair by pair, by wall time and by processor time; the latter is the better one on a shared machine. Ends
with 1 if the bar of 0.98 does not hold (by processor time with --shared). --work must not lie below /tmp.
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
import time
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import Any

import hand_written_plain
import training_speed
from training_speed import BATCH_SIZE, ROOT, Runners, Variant, environment

BAR = 0.98
SIDES = ("job", "loop")


class Turns:
    """Waits for the word before every turn, and tells its seconds, of wall time and of processor time."""

    def __init__(self, name: str, address: str, steps: int) -> None:
        self._benchmark, self._steps, self._made = Client(address), steps, 0
        self._benchmark.send((name, 0, os.getpid()))

    def begin(self) -> None:
        if not self._benchmark.recv():
            os._exit(0)
        self._began = time.perf_counter(), time.process_time()

    def step_ended(self) -> None:
        self._made += 1
        if self._made % self._steps == 0:
            self._benchmark.send((time.perf_counter() - self._began[0], time.process_time() - self._began[1]))
            self.begin()


def job(turns: Turns, data_dir: str) -> None:
    """Train as jobs/cifar/train.py does, for more epochs."""
    from hpclaunch import training

    words = [f"--data-dir={data_dir}", f"--batch-size-per-rank={BATCH_SIZE}", "--epochs=100000", "--warmup-epochs=0"]
    settings = training.settings("", str(ROOT / "jobs" / "cifar" / "train.py"), words)
    with training.start(settings, "cifar") as run:
        import tensorflow as tf
        from model import CIFAR10, mini_resnet

        class Steps(tf.keras.callbacks.Callback):
            def on_train_begin(self, logs: Any = None) -> None:
                turns.begin()

            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                turns.step_ended()

        data = training.image_set(run, CIFAR10)
        normalization = training.batch_norm(run, momentum=0.9)
        training.fit(run, lambda: mini_resnet(normalization, white=255), data, callbacks=[Steps()])


def loop(turns: Turns, data_dir: str) -> None:
    """The minimal loop."""
    import horovod.tensorflow as hvd
    import numpy as np
    import tensorflow as tf

    hvd.init()
    tf.config.threading.set_intra_op_parallelism_threads(max(1, len(os.sched_getaffinity(0)) // hvd.size()))
    from model import mini_resnet

    with np.load(Path(data_dir, "cifar10.npz")) as file:
        images, labels = (file[name][hvd.rank() :: hvd.size()] for name in ("x_train", "y_train"))
    samples = tf.data.Dataset.from_tensor_slices((images, labels.reshape(-1).astype(np.int64)))
    batches = samples.shuffle(10_000).repeat().batch(BATCH_SIZE).prefetch(1)
    model = mini_resnet(lambda: tf.keras.layers.BatchNormalization(momentum=0.9), white=255)
    optimizer = tf.keras.optimizers.Adam(0.001)
    entropy = tf.keras.losses.SparseCategoricalCrossentropy()
    losses, right = tf.keras.metrics.Mean(), tf.keras.metrics.SparseCategoricalAccuracy()
    hvd.broadcast_variables(model.variables, root_rank=0)

    @tf.function
    def step(inputs: Any, targets: Any) -> None:
        with tf.GradientTape() as tape:
            outputs = model(inputs, training=True)
            loss = entropy(targets, outputs)
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        losses.update_state(loss)
        right.update_state(targets, outputs)

    turns.begin()
    for inputs, targets in batches:
        step(inputs, targets)
        turns.step_ended()


def train(options: argparse.Namespace) -> None:
    """In a process of its own: train, a turn of steps each time that the benchmark asks for one."""
    side, address = options.train
    if options.framework != "tensorflow":
        os.environ["HPCLAUNCH_RUN_DIR"] = str(Path(options.data_dir, "run-" + os.environ["WORLD_SIZE"]))
        turns = Turns(f"{side} {os.environ['RANK']}", address, int(os.environ["STEPS_OF_A_TURN"]))
        play = {"job": hand_written_plain.job, "loop": hand_written_plain.loop}[side]
        play(options.framework, turns, options.data_dir, options.batch_size)
        return
    rank = os.environ.get("OMPI_COMM_WORLD_RANK", "0")
    sys.path.insert(0, str(ROOT / "jobs" / "cifar"))
    os.environ["HPCLAUNCH_RUN_DIR"] = str(Path(options.data_dir, "run-" + os.environ.get("OMPI_COMM_WORLD_SIZE", "1")))
    turns = Turns(f"{side} {rank}", address, int(os.environ["STEPS_OF_A_TURN"]))
    {"job": job, "loop": loop}[side](turns, options.data_dir)


class Sides(Runners):
    """The processes of the job or of the loop."""

    program = __file__


class PlainSides(Sides):
    """Those of PyTorch and JAX. Between its turns a process waits for a word, and computes nothing."""

    def commands(
        self, variant: Variant, options: argparse.Namespace, words: list[str]
    ) -> list[tuple[list[str], dict[str, str]]]:
        more = ["--framework", options.framework, "--batch-size", str(options.batch_size)]
        command = [options.python, self.program, *words, *more]
        return [(command, {**environment(variant), **own}) for own in hand_written_plain.places(variant.ranks)]

    def wake(self, up: bool) -> None:
        """Leave it as it is: a rank of JAX that is stopped for long is taken for a lost one."""


def measured(ranks: int, options: argparse.Namespace, listener: Listener) -> dict[str, list[list[float]]]:
    """Images per second of wall time, and of processor time, a row for every round; the first changes every round."""
    kind = Sides if options.framework == "tensorflow" else PlainSides
    runners = {side: kind(side, Variant(ranks=ranks), options, listener) for side in SIDES}
    rows: dict[str, list[list[float]]] = {side: [] for side in SIDES}
    images = ranks * options.steps * options.batch_size
    try:
        for runner in runners.values():
            runner.turn()  # the first steps trace the graph
        for number in range(options.rounds):
            for side in SIDES if number % 2 else SIDES[::-1]:
                answers = runners[side].turn()
                rows[side].append([images / max(wall for wall, _ in answers), images / sum(cpu for _, cpu in answers)])
            print(
                ranks, {side: [round(rate) for rate in rows[side][-1]] for side in SIDES}, file=sys.stderr, flush=True
            )
    finally:
        for runner in runners.values():
            runner.end()
    return rows


def summary(rows: dict[str, list[list[float]]]) -> dict[str, Any]:
    """Medians and the medians of the ratios, both by wall time and by processor time, with the ratios' quartiles."""
    found: dict[str, Any] = {"pairs": len(rows["job"])}
    for place, name in enumerate(("images_per_s", "images_per_core_s")):
        ratios = [own[place] / other[place] for own, other in zip(rows["job"], rows["loop"], strict=True)]
        found[name] = {side: statistics.median(row[place] for row in rows[side]) for side in SIDES}
        found[name]["ratio"] = statistics.median(ratios)
        found[name]["quartiles"] = statistics.quantiles(ratios, n=4)[::2] if len(ratios) > 1 else ratios * 2
    return found


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--framework", choices=["tensorflow", *hand_written_plain.JOBS], default="tensorflow")
    parser.add_argument("--python", default="/usr/bin/python3", help="that has PyTorch or JAX")
    parser.add_argument("--batch-size", type=int, default=BATCH_SIZE, help="of PyTorch and JAX")
    parser.add_argument("--steps", type=int, default=8, help="of one turn")
    parser.add_argument("--shared", action="store_true", help="the bar is for processor time")
    parser.add_argument("--work", default=".", help="a folder for the runs, which this removes")
    parser.add_argument("--data-dir", default=os.environ.get("HPCLAUNCH_DATA_DIR", ""))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--log", default=os.devnull, help="what the processes print")
    for word in ("--batch-norm", "--accuracy", "--seed", "--place"):
        parser.add_argument(word, default="0", help=argparse.SUPPRESS)
    parser.add_argument("--train", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    options = parse()
    if options.train:
        train(options)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that stopped processes are ended too
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("a process has not begun in time: see --log"))
    os.environ["STEPS_OF_A_TURN"] = str(options.steps)
    if options.framework == "tensorflow":
        options.batch_size = BATCH_SIZE
    found = {}
    with tempfile.TemporaryDirectory(dir=os.path.abspath(options.work)) as folder:
        path = str(Path(folder, "cifar10.npz"))
        words = [training_speed.__file__, "--data-dir", options.data_dir, "--unpack", path]
        subprocess.run([sys.executable, *words], env=environment(Variant()), check=True)
        options.data_dir = folder
        with Listener(str(Path(folder, "turns")), "AF_UNIX") as listener:
            for ranks in options.ranks:
                found[ranks] = summary(measured(ranks, options, listener))
    counted = "images_per_core_s" if options.shared else "images_per_s"
    if options.json:
        print(json.dumps({"ranks": found, "load_average": os.getloadavg()[0]}, indent=2))
    else:
        for ranks, row in found.items():
            for name in ("images_per_s", "images_per_core_s"):
                rates, (low, high) = row[name], row[name]["quartiles"]
                print(
                    "{} ranks, {:<18} job {:>6.0f}  loop {:>6.0f}  ratio {:.3f} (quartiles {:.3f} to {:.3f}){}".format(
                        ranks,
                        name,
                        rates["job"],
                        rates["loop"],
                        rates["ratio"],
                        low,
                        high,
                        f"  bar: {BAR}" if name == counted else "",
                    )
                )
        print(f"medians of {options.rounds} pairs, load average {os.getloadavg()[0]:.0f}")
    return 0 if all(row[counted]["ratio"] >= BAR for row in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
