"""Images per core-second of ResNet-50's input, without a model, paired with a hand-written tf.data pipeline.

    python benchmarks/photographs.py [--photos FOLDER] [--pairs 15] [--json]
    … --pixels --photos FOLDER      how far the images are from antialiased ones, by the factor by which they shrink

FOLDER has JPEG files of any size, such as a thousand of ImageNet's; without it they are the job's synthetic ones.
hpclaunch is the job's own input: its records, its shuffling, mirror images and shifts by up to 16 pixels, uint8.
The hand-written pipeline does less: one tf.data map with decode_and_crop_jpeg, resize (bilinear, not antialiased) and
random_flip_left_right. It runs with and without a cast to uint8, and the faster one counts. All read the same
TFRecords, in batches of 32.

Each pipeline has a process of its own. They take turns, one pass over the records each, and one whose turn it is not is
stopped. The figure is images per second of processor time, because the machine may be shared. Prints medians and the
medians of the ratios, pair by pair. Ends with 1 if the bar of 0.95 does not hold.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from input_pipeline import answer, turn

ROOT = Path(__file__).resolve().parents[1]
BAR = 0.95
SIZE, BATCH_SIZE, MADE_UP = 224, 32, 1024
USED = 0.875  # of the shorter side of an image
SHUFFLED = 2048  # records, as in the library
FILES = 8
FACTORS = (0, 1, 1.25, 1.5, 2, 4, 1000)  # edges of the rows of --pixels


def hpclaunch(folder: str) -> Any:
    """Batches of a rank as in the resnet50 job."""
    from hpclaunch.training.input import shards, streaming
    from hpclaunch.training.input.augmentation import Augmentation
    from hpclaunch.training.rank.start import start

    start("benchmark", 1)
    source = opened(folder)
    shard = source.stream_shard(shards.shuffled(source.counts["train"], 1), 1, 0, 1)
    augment = Augmentation(flip_horizontal=True, crop=16, classes=1000)
    return streaming.training_stream(source, shard, BATCH_SIZE, 1, 0, augment=augment, as_pixels=True)


def opened(folder: str) -> Any:
    """The job's own reader of the records."""
    sys.path.insert(0, str(ROOT / "jobs" / "resnet50"))
    from imagenet import open_imagenet
    from model import images_of

    return open_imagenet(folder, images_of(SIZE, 1000), 1)


def by_hand(folder: str, as_pixels: bool = False) -> Any:
    """Batches as a hand-written input makes them: float32, or as_pixels uint8."""
    import tensorflow as tf

    names = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    }

    def load(record: Any) -> Any:
        found = tf.io.parse_single_example(record, names)
        content = found["image/encoded"]
        shape = tf.image.extract_jpeg_shape(content)
        side = tf.cast(USED * tf.cast(tf.minimum(shape[0], shape[1]), tf.float32), tf.int32)
        box = tf.stack([(shape[0] - side) // 2, (shape[1] - side) // 2, side, side])
        image = tf.image.resize(tf.io.decode_and_crop_jpeg(content, box, channels=3), [SIZE, SIZE])
        image = tf.cast(image + 0.5, tf.uint8) if as_pixels else image
        return tf.image.random_flip_left_right(image), found["image/class/label"] - 1

    files = sorted(str(path) for path in Path(folder).glob("train-*"))
    records = tf.data.Dataset.from_tensor_slices(files).shuffle(len(files)).repeat()
    records = records.interleave(tf.data.TFRecordDataset, cycle_length=4).shuffle(SHUFFLED)
    threads = len(os.sched_getaffinity(0))
    return records.map(load, num_parallel_calls=threads).batch(BATCH_SIZE).prefetch(1)


def by_hand_uint8(folder: str) -> Any:
    return by_hand(folder, as_pixels=True)


VARIANTS = {"hpclaunch": hpclaunch, "by hand": by_hand, "by hand, uint8": by_hand_uint8}


def serve(variant: str, folder: str, steps: int) -> None:
    """In a process of its own: one measurement for every line of input."""
    batches = iter(VARIANTS[variant](folder))
    for _ in itertools.islice(batches, steps):
        pass
    print("ready", flush=True)
    for _ in sys.stdin:
        began, began_cpu = time.perf_counter(), time.process_time()
        seen = sum(len(labels) for _, labels in itertools.islice(batches, steps))
        print(json.dumps([seen / (time.process_time() - began_cpu), seen / (time.perf_counter() - began)]), flush=True)


def jpeg_files(photos: Path) -> list[bytes]:
    """The contents of the JPEG files below a folder; a few of ImageNet's have the name and another format."""
    paths = sorted(path for path in photos.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    return [content for content in (path.read_bytes() for path in paths) if content.startswith(b"\xff\xd8")]


def write_records(photos: Path, folder: Path) -> None:
    """The JPEG files below `photos` as the TFRecords of the job, in FILES files, and one of them for the validation."""
    import tensorflow as tf

    contents = jpeg_files(photos)
    for name, own in [(f"train-{n:05d}-of-{FILES:05d}", contents[n::FILES]) for n in range(FILES)] + [
        ("validation-00000-of-00001", contents[:1])
    ]:
        with tf.io.TFRecordWriter(str(folder / name)) as file:
            for number, content in enumerate(own):
                encoded = tf.train.Feature(bytes_list=tf.train.BytesList(value=[content]))
                label = tf.train.Feature(int64_list=tf.train.Int64List(value=[1 + number % 1000]))
                features = tf.train.Features(feature={"image/encoded": encoded, "image/class/label": label})
                file.write(tf.train.Example(features=features).SerializeToString())


def write_made_up(folder: Path) -> None:
    """The job's synthetic records."""
    sys.path.insert(0, str(ROOT / "jobs" / "resnet50"))
    import imagenet
    from model import images_of

    imagenet.write(str(folder), MADE_UP, images_of(SIZE, 1000), 1, 1)


def pixels(photos: Path) -> dict[str, dict[str, float]]:
    """By the factor by which photographs shrink: the mean distance (RMSE, grey levels) from the antialiased reference.

    The reference is the square of the decoded image, resized with antialias=True. Beside the job's images stand the
    hand-written ones (bilinear), and, as a measure of what is usual, another antialiasing filter (Lanczos).
    """
    import numpy as np
    import tensorflow as tf

    sys.path.insert(0, str(ROOT / "jobs" / "resnet50"))
    from imagenet import square as middle

    from hpclaunch.training.input import decoding

    shape = (SIZE, SIZE, 3)
    found: dict[int, list[dict[str, float]]] = {}
    for content in jpeg_files(photos):
        image = tf.io.decode_image(content, 3, expand_animations=False)
        square = tf.image.crop_to_bounding_box(image, *middle(tf.shape(image)).numpy())
        reference = rounded(tf.image.resize(square, shape[:2], antialias=True))
        others = {
            "hpclaunch": decoding.resized(content, shape, middle).numpy().astype(float),
            "by hand": rounded(tf.image.resize(square, shape[:2])),
            "Lanczos": rounded(tf.image.resize(square, shape[:2], method="lanczos3", antialias=True)),
        }
        row = {name: float(np.sqrt(np.mean((other - reference) ** 2))) for name, other in others.items()}
        place = int(np.searchsorted(FACTORS, square.shape[0] / SIZE, side="left"))
        found.setdefault(place, []).append(row)
    return {
        f"{FACTORS[place - 1]} to {FACTORS[place]}": {
            "photographs": len(rows),
            **{name: statistics.mean(row[name] for row in rows) for name in rows[0]},
        }
        for place, rows in sorted(found.items())
    }


def rounded(image: Any) -> Any:
    import numpy as np

    return np.clip(np.round(image.numpy()), 0, 255)


def compare(folder: str, pairs: int, steps: int) -> dict[str, list[list[float]]]:
    """Per variant and round: images per second of processor time, and of wall time; the first changes every round."""
    started = {
        variant: subprocess.Popen(
            [sys.executable, __file__, "--serve", variant, folder, str(steps)],
            env=environment(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for variant in VARIANTS
    }
    for process in started.values():
        answer(process, "ready")
        process.send_signal(signal.SIGSTOP)
    rows: dict[str, list[list[float]]] = {variant: [] for variant in VARIANTS}
    names = list(VARIANTS)
    for number in range(pairs):
        first = number % len(names)
        for variant in names[first:] + names[:first]:
            rows[variant].append(turn(started[variant]))
    for process in started.values():
        process.kill()
        process.wait()
    return rows


def environment(folder: str) -> dict[str, str]:
    own = {"PYTHONPATH": str(ROOT), "HPCLAUNCH_RUN_DIR": folder, "TF_CPP_MIN_LOG_LEVEL": "3"}
    return {**os.environ, **own, "CUDA_VISIBLE_DEVICES": "-1"}


def summary(rows: dict[str, list[list[float]]]) -> dict[str, Any]:
    """Medians, and the median ratio of hpclaunch to the faster hand-written variant, by processor and by wall time."""
    medians = {name: [statistics.median(column) for column in zip(*row, strict=True)] for name, row in rows.items()}
    best = max((name for name in medians if name != "hpclaunch"), key=lambda name: medians[name][0])
    ratios = [
        [own / other for own, other in zip(*pair, strict=True)]
        for pair in zip(rows["hpclaunch"], rows[best], strict=True)
    ]
    return {
        "against": best,
        "images_per_core_s": {name: values[0] for name, values in medians.items()},
        "images_per_s": {name: values[1] for name, values in medians.items()},
        "ratio": statistics.median(ratio[0] for ratio in ratios),
        "ratio_range": [min(ratio[0] for ratio in ratios), max(ratio[0] for ratio in ratios)],
        "wall_ratio": statistics.median(ratio[1] for ratio in ratios),
        "pairs": len(ratios),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--steps", type=int, default=MADE_UP // BATCH_SIZE, help="batches of one turn")
    parser.add_argument("--pixels", action="store_true", help="compare the images of --photos")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(*options.serve[:2], int(options.serve[2]))
        return 0
    if options.pixels:
        table = pixels(options.photos)
        if options.json:
            print(json.dumps(table, indent=2))
            return 0
        print("RMSE from an antialiased resize, grey levels, by the factor by which photographs shrink")
        for factor, row in table.items():
            print(f"{factor:<12}" + "".join(f"  {name} {value:.4g}" for name, value in row.items()))
        return 0
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made, "records")
        if options.photos:
            folder.mkdir()
            write_records(options.photos, folder)
        else:
            write_made_up(folder)
        found = summary(compare(str(folder), options.pairs, options.steps))
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        for name, rate in found["images_per_core_s"].items():
            print(f"{name:<18}{rate:>8.0f} images per core-second{found['images_per_s'][name]:>8.0f} images/s")
        low, high = found["ratio_range"]
        print(
            f"hpclaunch / {found['against']}: {found['ratio']:.3f} ({low:.2f} to {high:.2f}; bar: {BAR}), by wall time "
            f"{found['wall_ratio']:.3f}; medians of {found['pairs']} pairs"
        )
    return 0 if found["ratio"] >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
