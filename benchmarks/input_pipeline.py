"""Images/s and peak memory of the input pipeline alone, without a model, paired with the reference scripts' pipeline.

    python benchmarks/input_pipeline.py [--pairs 25] [--json]

The reference is the settings of the Distributed Deep Learning bootcamp's scripts, written anew: the whole set as
float32, repeat, shuffle with a buffer of 10,000, batch (CIFAR-10: 512, MNIST: 256), no prefetch. The images are random,
as both pipelines treat all pixels alike. Speed: one process holds both and takes some batches of one, then of the
other, again and again, so that a drifting machine slows both; prints medians and the median of the ratios. Memory: a
process for each. Ends with 1 if the bar of 3 does not hold.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
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


def reference(images: Any, labels: Any, batch_size: int) -> Any:
    """Batches as the reference scripts make them."""
    import tensorflow as tf

    whole = tf.data.Dataset.from_tensor_slices(((images / 255.0).astype("float32"), labels))
    return whole.repeat().shuffle(10_000).batch(batch_size)


def hpclaunch(images: Any, labels: Any, batch_size: int) -> Any:
    """Batches as the bundled jobs make them, in a rank as `start` leaves it."""
    from hpclaunch.training import pipeline
    from hpclaunch.training.start import start

    start("benchmark", 1)
    return pipeline.training_batches(images, labels, batch_size, seed=1, rank=0)


def batches_of(variant: str, name: str) -> Any:
    """An endless iterator over batches, already warm."""
    import numpy as np

    count, shape, batch_size = SETS[name]
    images = np.random.RandomState(0).randint(0, 256, (count, *shape), np.uint8)
    made = iter({"reference": reference, "hpclaunch": hpclaunch}[variant](images, np.arange(count) % 10, batch_size))
    for _ in itertools.islice(made, ROUND_BATCHES):
        pass
    return made


def rate(batches: Any) -> tuple[float, float]:
    """Images of the next batches per second of wall time and of processor time."""
    began, began_cpu = time.perf_counter(), time.process_time()
    seen = sum(len(labels) for _, labels in itertools.islice(batches, ROUND_BATCHES))
    return seen / (time.perf_counter() - began), seen / (time.process_time() - began_cpu)


def compare(name: str, pairs: int) -> dict[str, Any]:
    """Medians of both variants' speed, and of the ratios pair by pair."""
    ours, theirs = batches_of("hpclaunch", name), batches_of("reference", name)
    rows = [(rate(ours), rate(theirs)) for _ in range(pairs)]
    result: dict[str, Any] = {}
    for place, key in enumerate(("images_per_s", "images_per_cpu_s")):
        result[key] = [statistics.median(row[side][place] for row in rows) for side in (0, 1)]
        result[key + "_ratio"] = statistics.median(row[0][place] / row[1][place] for row in rows)
    return result


def peak_mb(variant: str, name: str) -> float:
    """Peak memory of a process that has made some batches."""
    for _ in itertools.islice(batches_of(variant, name), ROUND_BATCHES):
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_own_process(*words: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        own = {"PYTHONPATH": str(Path(__file__).resolve().parents[1]), "HPCLAUNCH_RUN_DIR": folder}
        command = [sys.executable, __file__, "--one", *words]
        done = subprocess.run(command, env={**os.environ, **own}, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=25)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        what, name, *rest = options.one
        print(json.dumps(compare(name, int(rest[0])) if what == "compare" else peak_mb(what, name)))
        return 0
    results = {name: in_own_process("compare", name, str(options.pairs)) for name in options.sets}
    for name, row in results.items():
        row["peak_mb"] = [in_own_process(variant, name) for variant in ("hpclaunch", "reference")]
        row["peak_mb_ratio"] = row["peak_mb"][0] / row["peak_mb"][1]
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        print(f"medians of {options.pairs} pairs: hpclaunch, reference, ratio (bar for images/s: {BAR})")
        for name, row in results.items():
            print(name)
            for key in ("images_per_s", "images_per_cpu_s", "peak_mb"):
                print("  {:<18}{:>10.0f}{:>10.0f}{:>8.2f}".format(key, *row[key], row[key + "_ratio"]))
    return 0 if all(row["images_per_s_ratio"] >= BAR for row in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
