"""Images/s and peak memory of the input pipeline alone, without a model, paired with the reference scripts' pipeline.

    python benchmarks/input_pipeline.py [--pairs 25] [--json]

The reference is the settings of the Distributed Deep Learning bootcamp's scripts, written anew: the whole set as
float32, repeat, shuffle with a buffer of 10,000, batch (CIFAR-10: 512, MNIST: 256), no prefetch. The images are random,
as both pipelines treat all pixels alike. Each has a process of its own (in one, they would break up each other's heap);
they take turns, some batches each, so that a drifting machine slows all. One whose turn it is not is stopped, as
tf.data would go on and fill its buffers. Prints medians and the medians of the ratios. Ends with 1 if the bar of 3
does not hold.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BAR = 3.0
# (images, shape, batch size)
SETS = {"cifar": (50_000, (32, 32, 3), 512), "mnist": (60_000, (28, 28, 1), 256)}
ROUND_BATCHES = 30
KEYS = ("images_per_s", "images_per_cpu_s", "peak_mb")


def reference(images: Any, labels: Any, batch_size: int) -> Any:
    """Batches as the reference scripts make them."""
    import tensorflow as tf

    whole = tf.data.Dataset.from_tensor_slices(((images / 255.0).astype("float32"), labels))
    return whole.repeat().shuffle(10_000).batch(batch_size)


def hpclaunch(images: Any, labels: Any, batch_size: int, as_pixels: bool = True) -> Any:
    """Batches of a rank as in the bundled jobs: uint8, which the model's first layer scales."""
    from hpclaunch.training.input import pipeline
    from hpclaunch.training.rank.start import start

    start("benchmark", 1)
    return pipeline.training_batches(images, labels, batch_size, seed=1, rank=0, as_pixels=as_pixels)


def hpclaunch_float32(images: Any, labels: Any, batch_size: int) -> Any:
    """The same, scaled to float32 in the pipeline, as the reference does."""
    return hpclaunch(images, labels, batch_size, as_pixels=False)


def batches_of(variant: str, name: str) -> Any:
    """An endless iterator over batches, already warm."""
    import numpy as np

    count, shape, batch_size = SETS[name]
    images = np.random.RandomState(0).randint(0, 256, (count, *shape), np.uint8)
    made = iter(VARIANTS[variant](images, np.arange(count) % 10, batch_size))
    for _ in itertools.islice(made, ROUND_BATCHES):
        pass
    return made


def rate(batches: Any) -> tuple[float, float]:
    """Images of the next batches per second of wall time and of processor time."""
    began, began_cpu = time.perf_counter(), time.process_time()
    seen = sum(len(labels) for _, labels in itertools.islice(batches, ROUND_BATCHES))
    return seen / (time.perf_counter() - began), seen / (time.process_time() - began_cpu)


VARIANTS = {"hpclaunch": hpclaunch, "float32": hpclaunch_float32, "reference": reference}


def serve(variant: str, name: str) -> None:
    """In a process of its own: one measurement for every line of input."""
    batches = batches_of(variant, name)
    print("ready", flush=True)
    for _ in sys.stdin:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps([*rate(batches), peak]), flush=True)


def compare(name: str, pairs: int) -> dict[str, Any]:
    """For each of KEYS the medians of VARIANTS, and the medians of the ratios to the reference, pair by pair."""
    with tempfile.TemporaryDirectory() as folder:
        own = {"PYTHONPATH": str(Path(__file__).resolve().parents[1]), "HPCLAUNCH_RUN_DIR": folder}
        environment = {**os.environ, **own, "TF_CPP_MIN_LOG_LEVEL": "3"}
        started = [
            subprocess.Popen(
                [sys.executable, __file__, "--serve", variant, name],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for variant in VARIANTS
        ]
        for process in started:
            answer(process, "ready")
            process.send_signal(signal.SIGSTOP)
        rows = [[turn(process) for process in started] for _ in range(pairs)]
        for process in started:
            process.kill()
            process.wait()
    result: dict[str, Any] = {}
    for place, key in enumerate(KEYS):
        result[key] = [statistics.median(row[side][place] for row in rows) for side in range(3)]
        result[key + "_ratio"] = [
            statistics.median(row[side][place] / row[2][place] for row in rows) for side in (0, 1)
        ]
    return result


def turn(process: Any) -> list[float]:
    """One measurement by a process that is stopped before and after."""
    process.send_signal(signal.SIGCONT)
    process.stdin.write("go\n")
    process.stdin.flush()
    found = json.loads(answer(process, "["))
    process.send_signal(signal.SIGSTOP)
    return list(found)


def answer(process: Any, begins: str) -> str:
    """The next line of a process that begins so; libraries may print others."""
    for line in process.stdout:
        if line.startswith(begins):
            return str(line)
    raise SystemExit(f"{process.args} ended")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=25)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(*options.serve)
        return 0
    results = {name: compare(name, options.pairs) for name in options.sets}
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        print(f"medians of {options.pairs} rounds (bar for images/s of hpclaunch: {BAR} times the reference)")
        print(" " * 20 + "hpclaunch   float32 reference    ratio of the first two to the reference")
        for name, row in results.items():
            print(name)
            for key in KEYS:
                print(
                    "  {:<18}{:>10.0f}{:>10.0f}{:>10.0f}{:>9.2f}{:>7.2f}".format(key, *row[key], *row[key + "_ratio"])
                )
    return 0 if all(row["images_per_s_ratio"][0] >= BAR for row in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
