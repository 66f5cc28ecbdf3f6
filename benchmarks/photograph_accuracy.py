"""Test accuracy of the same training on photographs that ResNet-50's input has shrunk, and on antialiased ones.

    HPCLAUNCH_DATA_DIR=FOLDER python benchmarks/photograph_accuracy.py [--seeds 1 2 3] [--epochs 8] [--json]

FOLDER has CIFAR-10 as class folders of JPEG or PNG files.
The square of 28 pixels in the middle of each image is shrunk by 1.4 (20 pixels) and by 1.75 (16 pixels): by these
factors most photographs of ImageNet shrink on their way to 224 pixels. Two ways of shrinking are compared:

    job           decoding.resized, as in the resnet50 job
    antialiased   the whole image decoded, cut, and resized with antialias=True, which decision 46 replaced

A small convolutional network trains on each with the same seeds, batches and epochs. Prints the test accuracy of every
seed, the medians, and the median of the differences, seed by seed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
KEPT = 28  # of 32 pixels: the same 87.5 % as in the resnet50 job
SIZES = (20, 16)
WAYS = ("job", "antialiased")
BATCH_SIZE, RATE = 128, 0.002


def shrunk(paths: list[str], size: int, way: str) -> Any:
    """The images uint8 [n, size, size, 3]."""
    import numpy as np
    import tensorflow as tf

    from hpclaunch.training.input import decoding

    begin = (32 - KEPT) // 2
    box = tf.constant([begin, begin, KEPT, KEPT])

    def antialiased(content: Any) -> Any:
        whole = tf.io.decode_image(content, 3, expand_animations=False)
        square = tf.image.crop_to_bounding_box(whole, begin, begin, KEPT, KEPT)
        pixels = tf.image.resize(square, (size, size), antialias=True)
        return tf.ensure_shape(tf.cast(tf.clip_by_value(pixels + 0.5, 0, 255), tf.uint8), (size, size, 3))

    def load(path: Any) -> Any:
        content = tf.io.read_file(path)
        return decoding.resized(content, (size, size, 3), lambda _: box) if way == "job" else antialiased(content)

    found = decoding.in_parallel(tf.data.Dataset.from_tensor_slices(paths), load).batch(1000)
    return np.concatenate([batch.numpy() for batch in found])


def files_of(folder: Path) -> tuple[list[str], Any]:
    import numpy as np

    paths, labels = [], []
    for label, name in enumerate(sorted(path.name for path in folder.iterdir() if path.is_dir())):
        own = sorted(str(path) for path in (folder / name).iterdir())
        paths += own
        labels += [label] * len(own)
    return paths, np.array(labels)


def network(size: int) -> Any:
    import tensorflow as tf

    layers = tf.keras.layers
    blocks = []
    for channels in (32, 64, 128):
        blocks += [layers.Conv2D(channels, 3, padding="same", use_bias=False), layers.BatchNormalization()]
        blocks += [layers.ReLU(), layers.MaxPooling2D(2)]
    start = [layers.InputLayer((size, size, 3)), layers.Rescaling(1 / 255)]
    return tf.keras.Sequential([*start, *blocks, layers.GlobalAveragePooling2D(), layers.Dense(10, "softmax")])


def accuracy(train: Any, test: Any, seed: int, epochs: int) -> float:
    """The test accuracy after a training."""
    import tensorflow as tf

    tf.keras.utils.set_random_seed(seed)
    model = network(train[0].shape[1])
    rate = tf.keras.optimizers.schedules.CosineDecay(RATE, epochs * (len(train[0]) // BATCH_SIZE))
    model.compile(tf.keras.optimizers.Adam(rate), "sparse_categorical_crossentropy", ["accuracy"])
    model.fit(*train, batch_size=BATCH_SIZE, epochs=epochs, verbose=0)
    return float(model.evaluate(*test, batch_size=1000, verbose=0)[1])


def study(folder: Path, seeds: list[int], epochs: int) -> dict[str, Any]:
    (train_paths, train_labels), (test_paths, test_labels) = files_of(folder / "train"), files_of(folder / "test")
    found: dict[str, Any] = {}
    for size in SIZES:
        rows: dict[str, list[float]] = {}
        for way in WAYS:
            train = (shrunk(train_paths, size, way), train_labels)
            test = (shrunk(test_paths, size, way), test_labels)
            rows[way] = []
            for seed in seeds:
                rows[way].append(accuracy(train, test, seed, epochs))
                print(f"{KEPT / size:.2f}  {way:<12} seed {seed}: {rows[way][-1]:.4f}", file=sys.stderr, flush=True)
        differences = [own - other for own, other in zip(rows["job"], rows["antialiased"], strict=True)]
        found[f"{KEPT / size:.2f}"] = {**rows, "median difference": statistics.median(differences)}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    folder = Path(os.environ.get("HPCLAUNCH_DATA_DIR", ""))
    if not (folder / "train").is_dir():
        parser.error("set HPCLAUNCH_DATA_DIR to CIFAR-10 as class folders: train/CLASS/*, test/CLASS/*")
    sys.path.insert(0, str(ROOT))
    found = study(folder, options.seeds, options.epochs)
    if options.json:
        print(json.dumps(found, indent=2))
        return 0
    for factor, row in found.items():
        medians = "  ".join(f"{way} {statistics.median(row[way]):.4f}" for way in WAYS)
        print(f"shrunk by {factor}: {medians}  difference {row['median difference']:+.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
