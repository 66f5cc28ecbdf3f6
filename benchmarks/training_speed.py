"""Images/s of training on CIFAR-10, paired with the reference scripts' settings; and of two ranks against one.

    HPCLAUNCH_DATA_DIR=FOLDER python benchmarks/training_speed.py [--rounds 7] [--batch-norm local] [--json]
    … --accuracy 194     accuracy after so many steps instead of speed [--seeds 1 2 3]
    … --ranks            one rank on one core, two ranks and two lone processes on a core each

The model is the mini-ResNet, 512 images a batch, Adam 0.001. hpclaunch is what the cifar job does: start(), its model,
its input, its optimizer. The reference is the settings of the Distributed Deep Learning bootcamp's scripts, written
anew: all images as float32, repeat, shuffle with a buffer of 10,000, batch, the model with 1 x 1 convolutions that have
strides, Keras's Adam, TensorFlow's own choice of threads and oneDNN.
Every variant has processes of its own; they take turns of some steps, and one whose turn it is not is stopped, so that
a drifting machine slows all. Prints medians of images/s and of the ratios, round by round. Ends with 1 if a bar does
not hold: hpclaunch at least as fast as the reference in float32, and 1.35 times as fast in the precision that
docs/training.md recommends for this processor; with --ranks, two ranks 1.8 times as fast as one; with --accuracy, the
training accuracy within a point (median over the seeds of the differences).
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
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BATCH_SIZE = 512
STEPS = 8  # of one turn
TO_ALL_IMAGES = 97  # steps
LONGEST_START_S = 300
BARS = {"hpclaunch/reference": 1.0, "two ranks/one rank": 1.8}
BAR_OF_RECOMMENDED = 1.35
BAR_OF_ACCURACY = 0.01
WITH_BFLOAT16 = {"avx512_bf16", "amx_bf16"}  # of /proc/cpuinfo: arithmetic, not only storage
MPIRUN = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Processes that train: `reference`: with its input and optimizer; onednn: "" leaves it to hpclaunch or TensorFlow.

    ranks: of one world. alone: so many lone processes at once. pinned: each to a core of its own.
    """

    reference: bool = False
    onednn: str = ""
    precision: str = "float32"
    ranks: int = 1
    alone: int = 1
    pinned: bool = False


SINGLE = {
    "hpclaunch": Variant(),
    "reference": Variant(reference=True),
    "hpclaunch, oneDNN off": Variant(onednn="0"),
    "reference, oneDNN on": Variant(reference=True, onednn="1"),
}
# Without arithmetic of its own for it a processor is several times slower than in float32.
if WITH_BFLOAT16 & set(Path("/proc/cpuinfo").read_text().split()):
    SINGLE["hpclaunch, bfloat16"] = Variant(precision="bfloat16")
COMPARED = (("hpclaunch", "reference"), ("hpclaunch, bfloat16", "reference"), ("hpclaunch, bfloat16", "hpclaunch"))
RATIOS = (
    ("hpclaunch", "reference"),
    ("hpclaunch, oneDNN off", "reference"),
    ("hpclaunch", "reference, oneDNN on"),
    ("hpclaunch, bfloat16", "reference"),
    ("hpclaunch, bfloat16", "hpclaunch"),
)
RANKS = {
    "one rank": Variant(pinned=True),
    "two ranks": Variant(ranks=2, pinned=True),
    "two alone": Variant(alone=2, pinned=True),
}
RANK_RATIOS = (("two ranks", "one rank"), ("two alone", "one rank"), ("two ranks", "two alone"))


# In a process of its own ------------------------------------------------------------------------------------------


def train(variant: Variant, options: argparse.Namespace) -> None:
    """Train, a turn of steps each time that the benchmark asks for one, until it asks for no more."""
    place = int(os.environ.get("OMPI_COMM_WORLD_RANK", options.place))
    if variant.pinned:
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[place]})  # before TensorFlow counts cores
    sys.path.insert(0, str(ROOT / "jobs" / "cifar"))
    batches, model, test = prepared(variant, options)
    with Client(options.train[1]) as benchmark:
        benchmark.send((options.train[0], place, os.getpid()))
        if options.accuracy:
            benchmark.recv()
            benchmark.send(accuracies(model, batches, test, options.accuracy))
            return
        import tensorflow as tf

        class Turns(tf.keras.callbacks.Callback):
            """Waits for the word before every turn, and tells seconds and images after it."""

            def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
                if not benchmark.recv():
                    os._exit(0)
                self.began = time.perf_counter()

            def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
                benchmark.send(time.perf_counter() - self.began)

        model.fit(batches, epochs=10**6, steps_per_epoch=STEPS, callbacks=[Turns()], verbose=0)


def prepared(variant: Variant, options: argparse.Namespace) -> tuple[Any, Any, Any]:
    """Training batches, the compiled model, and batches for the test."""
    from hpclaunch.training.rank.start import start
    from hpclaunch.training.rank.world import World

    if variant.reference:
        import horovod.tensorflow as hvd
        import tensorflow as tf

        hvd.init()
        tf.random.set_seed(options.seed)
        world = World(rank=0, size=1, local_rank=0, local_size=1, host="", device="", threads=0, run_dir="")
    else:
        world = start("benchmark", options.seed)  # before anything imports TensorFlow, as in the jobs
    import numpy as np
    from model import CIFAR10, mini_resnet

    from hpclaunch.training.input import datasets, pipeline, shards
    from hpclaunch.training.optimization import batch_norm, optimizers, precision, reduction

    source = datasets.open_dataset(options.data_dir, CIFAR10)
    order = shards.shuffled(source.counts["train"], options.seed)
    images, labels = source.read("train", order[world.rank :: world.size])
    precision.use(variant.precision)
    as_pixels = not variant.reference  # uint8 up to the model's first layer, as in the job
    normalization = batch_norm.maker(options.batch_norm, momentum=0.9)
    model = reference_resnet(normalization) if variant.reference else mini_resnet(normalization, white=255)
    reduction.broadcast_weights(model, world)
    if variant.reference:
        optimizer: Any = tf.keras.optimizers.Adam(0.001)
        whole = tf.data.Dataset.from_tensor_slices(((images / 255.0).astype("float32"), labels))
        batches = whole.repeat().shuffle(10_000).batch(BATCH_SIZE)
    else:
        optimizer = optimizers.make("adam", 0.001)
        # Whole batches only: all turns are of the same size.
        even = len(labels) // BATCH_SIZE * BATCH_SIZE
        batches = pipeline.training_batches(
            images[:even], labels[:even], BATCH_SIZE, options.seed, world.rank, as_pixels=as_pixels
        )
    model.compile(reduction.distributed(optimizer, world), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    held_out = source.read("test", np.arange(source.counts["test"]))
    test = pipeline.evaluation_batches(*held_out, BATCH_SIZE, as_pixels=as_pixels)
    return batches, model, test


def reference_resnet(normalization: Any) -> Any:
    """The same function as the cifar job's mini_resnet of images in 0..1, layer by layer as the scripts have it."""
    import tensorflow as tf

    layers = tf.keras.layers

    def conv(x: Any, filters: int, size: int, stride: int = 1, padding: str = "valid") -> Any:
        kernel = tf.keras.initializers.GlorotUniform(seed=0)
        x = layers.Conv2D(filters, size, strides=stride, padding=padding, kernel_initializer=kernel)(x)
        return normalization()(x)

    def residual(x: Any, narrow: int, wide: int, stride: int) -> Any:
        y = layers.ReLU()(conv(x, narrow, 1, stride))
        y = layers.ReLU()(conv(y, narrow, 3, padding="same"))
        return layers.ReLU()(layers.Add()([conv(y, wide, 1), conv(x, wide, 1, stride)]))

    image = layers.Input((32, 32, 3))
    x = layers.ReLU()(conv(layers.ZeroPadding2D(3)(image), 64, 7, stride=2))
    x = layers.MaxPooling2D(3, strides=2)(x)
    x = residual(residual(x, 64, 256, stride=1), 128, 512, stride=2)
    x = layers.Flatten()(layers.AveragePooling2D(2, padding="same")(x))
    kernel = tf.keras.initializers.GlorotUniform(seed=0)
    return tf.keras.Model(image, layers.Dense(10, activation="softmax", kernel_initializer=kernel)(x))


def unpack(data_dir: str, path: str) -> None:
    """Write CIFAR-10 as one .npz: class folders would be decoded by every process anew."""
    import numpy as np

    sys.path.insert(0, str(ROOT / "jobs" / "cifar"))
    from model import CIFAR10

    from hpclaunch.training.input import datasets

    source = datasets.open_dataset(data_dir, CIFAR10)
    arrays = {}
    for split in ("train", "test"):
        arrays[f"x_{split}"], arrays[f"y_{split}"] = source.read(split, np.arange(source.counts[split]))
    np.savez(path, **arrays)


def accuracies(model: Any, batches: Any, test: Any, steps: int) -> tuple[float, float]:
    """Training accuracy over the last steps that make up all images, and test accuracy, after `steps` in all."""
    last = min(TO_ALL_IMAGES, steps)
    iterator = iter(batches)
    found = [model.train_on_batch(*next(iterator))[1] for _ in range(steps)]
    return statistics.mean(found[-last:]), float(model.evaluate(test, verbose=0)[1])


# The benchmark ----------------------------------------------------------------------------------------------------


class Runners:
    """The processes of one variant, stopped until it is their turn."""

    program = __file__

    def __init__(self, name: str, variant: Variant, options: argparse.Namespace, listener: Listener) -> None:
        words = ["--train", name, str(listener.address), "--batch-norm", options.batch_norm]
        words += ["--data-dir", options.data_dir, "--accuracy", str(options.accuracy), "--seed", str(options.seed)]
        with open(options.log, "ab") as log:
            self.started = [
                subprocess.Popen(command, env=variables, stdout=log, stderr=log)
                for command, variables in self.commands(variant, options, words)
            ]
        signal.alarm(LONGEST_START_S)  # a process that has failed never calls
        self.talks: list[Connection] = [listener.accept() for _ in range(variant.ranks * variant.alone)]
        signal.alarm(0)
        self.pids = [talk.recv()[2] for talk in self.talks]
        self.wake(False)

    def commands(
        self, variant: Variant, options: argparse.Namespace, words: list[str]
    ) -> list[tuple[list[str], dict[str, str]]]:
        """What is started: the command and the environment of each process, or of mpirun."""
        command = [sys.executable, self.program, *words]
        if variant.ranks > 1:
            command = [*MPIRUN, "-np", str(variant.ranks), *command]
        return [([*command, "--place", str(place)], environment(variant)) for place in range(variant.alone)]

    def wake(self, up: bool) -> None:
        for pid in self.pids:
            os.kill(pid, signal.SIGCONT if up else signal.SIGSTOP)

    def turn(self) -> Any:
        """What all processes answer to one word, given to all at the same time."""
        self.wake(True)
        for talk in self.talks:
            talk.send(True)
        answers = [talk.recv() for talk in self.talks]
        self.wake(False)
        return answers

    def images_per_s(self) -> float:
        return len(self.talks) * STEPS * BATCH_SIZE / max(self.turn())

    def end(self) -> None:
        # SIGTERM would not do: ranks note it, so that they can save before they end.
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):  # mpirun ends all ranks when one has gone
                os.kill(pid, signal.SIGKILL)
        for process in self.started:
            process.wait()


def environment(variant: Variant) -> dict[str, str]:
    """Of a variant's processes: what a person's shell says of threads and oneDNN does not count."""
    ours = ("TF_", "OMP_", "HPCLAUNCH_", "HOROVOD_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    onednn = {"TF_ENABLE_ONEDNN_OPTS": variant.onednn} if variant.onednn else {}
    own = {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    return {**kept, **own, "HPCLAUNCH_RUN_DIR": tempfile.gettempdir(), **onednn}


def measured(variants: dict[str, Variant], options: argparse.Namespace, listener: Listener) -> dict[str, list[float]]:
    """Images/s of every variant, a number a round; all take a turn in every round, the first in another each time."""
    runners = {name: Runners(name, variant, options, listener) for name, variant in variants.items()}
    try:
        for runner in runners.values():
            runner.turn()  # the first steps trace the graph and fill buffers
        rows = []
        for number in range(options.rounds):
            names = list(variants)
            names = names[number % len(names) :] + names[: number % len(names)]
            row = {name: runners[name].images_per_s() for name in names}
            print("  ".join(f"{name} {row[name]:.0f}" for name in variants), file=sys.stderr, flush=True)
            rows.append(row)
    finally:
        for runner in runners.values():
            runner.end()
    return {name: [row[name] for row in rows] for name in variants}


def accuracy(options: argparse.Namespace, listener: Listener) -> int:
    """Train every variant with every seed, one after the other, and tell how the accuracies differ; the exit code."""
    names = {name: SINGLE[name] for pair in COMPARED for name in pair if name in SINGLE}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for seed in options.seeds:
        options.seed = seed
        for name, variant in names.items():
            runner = Runners(name, variant, options, listener)
            try:
                found[name].append(runner.turn()[0])
            finally:
                runner.end()
            print("seed {}, {}: training {:.4f}, test {:.4f}".format(seed, name, *found[name][-1]), flush=True)
    held = True
    for one, other in COMPARED:
        if one in found:
            training, test = (
                [a[place] - b[place] for a, b in zip(found[one], found[other], strict=True)] for place in (0, 1)
            )
            held = held and abs(statistics.median(training)) <= BAR_OF_ACCURACY
            told = "{:+.1%} ({:+.1%} to {:+.1%})"
            print(
                f"{one} - {other}: training",
                told.format(statistics.median(training), min(training), max(training)),
                f"(bar: {BAR_OF_ACCURACY:.0%}), test",
                told.format(statistics.median(test), min(test), max(test)),
            )
    return 0 if held else 1


def bars() -> dict[str, float]:
    """BARS, and that of the precision which docs/training.md recommends for this processor."""
    recommended = "hpclaunch, bfloat16/reference" if "hpclaunch, bfloat16" in SINGLE else "hpclaunch/reference"
    return {**BARS, recommended: BAR_OF_RECOMMENDED}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batch-norm", choices=["none", "local"], default="local")
    parser.add_argument("--ranks", action="store_true")
    parser.add_argument("--accuracy", type=int, default=0, metavar="STEPS")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="of --accuracy")
    parser.add_argument("--data-dir", default=os.environ.get("HPCLAUNCH_DATA_DIR", ""))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--log", default=os.devnull, help="what the processes print")
    parser.add_argument("--train", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--unpack", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--place", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    options = parse()
    variants, wanted = (RANKS, RANK_RATIOS) if options.ranks else (SINGLE, RATIOS)
    if options.train:
        train({**SINGLE, **RANKS}[options.train[0]], options)
        return 0
    if options.unpack:
        unpack(options.data_dir, options.unpack)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that stopped processes are ended too
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(f"a process has not begun after {LONGEST_START_S} s: see --log"))
    began = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder, Listener(str(Path(folder, "turns")), "AF_UNIX") as listener:
        words = ["--data-dir", options.data_dir, "--unpack", str(Path(folder, "cifar10.npz"))]
        subprocess.run([sys.executable, __file__, *words], env=environment(Variant()), check=True)
        options.data_dir = folder
        if options.accuracy:
            return accuracy(options, listener)
        rates = measured(variants, options, listener)
    load = (began, os.getloadavg()[0])
    ratios = {
        f"{a}/{b}": statistics.median(x / y for x, y in zip(rates[a], rates[b], strict=True))
        for a, b in wanted
        if a in rates and b in rates
    }
    wanted_at_least = bars()
    held = all(ratios[key] >= bar for key, bar in wanted_at_least.items() if key in ratios)
    if options.json:
        print(json.dumps({"images_per_s": rates, "ratios": ratios, "load_average": load}, indent=2))
        return 0 if held else 1
    print(
        f"medians of {options.rounds} rounds, batch norm {options.batch_norm}, load average {load[0]}, then {load[1]}"
    )
    for name, found in rates.items():
        print(f"  {name:<24}{statistics.median(found):>8.0f} images/s  ({min(found):.0f} to {max(found):.0f})")
    for key, ratio in ratios.items():
        print(f"  {key:<46}{ratio:>6.2f}" + (f"  (bar: {wanted_at_least[key]})" if key in wanted_at_least else ""))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
