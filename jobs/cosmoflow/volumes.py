"""Reads MLPerf HPC's CosmoFlow volumes from TFRecords, and writes synthetic ones of the same shape.

python volumes.py FOLDER [--samples 64] [--volume-size 128] writes train-*.tfrecord and validation-*.tfrecord.
"""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

import numpy as np

from hpclaunch.training.input.made_up import written_once
from hpclaunch.training.input.shards import stream_seed
from hpclaunch.training.input.source import DataError, ImageSet
from hpclaunch.training.input.tfrecords import TFRecords, folder_of

TARGETS = 4
RECORD = "universes.json"  # beside volumes that the job universes has made: its settings, and the names of all files
PER_FILE = 4  # synthetic volumes in a file
TEST_PART = 4  # one validation volume for every four training volumes


class Volumes(TFRecords):
    """Volumes int16 [size, size, size, 4] under `x` (raw bytes) and their four parameters, float32, under `y`.

    Files are train*.tfrecord and validation*.tfrecord in one folder, or any *.tfrecord in train/ and validation/.
    """

    layout = "TFRecords of volumes"
    has_images = False
    sample_type, label_type, label_shape = np.int16, np.float32, (TARGETS,)
    window = 16  # volumes that are shuffled together: each has 16.8 MB

    def files(self) -> list:
        record = os.path.join(self.path, RECORD)
        return super().files() + ([record] if os.path.exists(record) else [])

    def _list_files(self) -> list:
        found = sorted(os.listdir(self.path))
        for split in ("train", "validation"):
            if os.path.isdir(os.path.join(self.path, split)):
                found += [os.path.join(split, name) for name in sorted(os.listdir(os.path.join(self.path, split)))]
        return found

    def _split_of(self, name: str) -> str:
        folder = os.path.dirname(name)
        if not folder:
            return super()._split_of(name)
        return ("train" if folder == "train" else "test") if name.endswith(".tfrecord") else ""

    def _features(self, split: str) -> Any:
        return None  # the names are fixed; a missing feature is reported when it is read

    def decode(self, split: str, content: Any) -> Any:
        import tensorflow as tf

        features = {"x": tf.io.FixedLenFeature([], tf.string), "y": tf.io.FixedLenFeature([TARGETS], tf.float32)}
        found = tf.io.parse_single_example(content, features)
        return tf.reshape(tf.io.decode_raw(found["x"], tf.int16), self.wanted.shape), found["y"]

    def wrong(self, what: str, where: str) -> DataError:
        return DataError(
            "{}: {}\n  expected: TFRecords, not compressed, with x: int16 volumes of {} and y: 4 numbers, as "
            "train*.tfrecord and validation*.tfrecord, or in folders train/ and validation/\n"
            "  next: use --data-dir FOLDER, or --synthetic=true".format(
                where, what, " x ".join(str(n) for n in self.wanted.shape)
            )
        )


def open_volumes(folder: str, wanted: ImageSet) -> Volumes:
    """The volumes in `folder`, or in its subfolder cosmoflow; raises DataError if there are none, or files lack."""
    place = folder_of(wanted, folder)
    record = record_of(place)
    missing = sorted(name for name in record.get("files", ()) if not os.path.exists(os.path.join(place, name)))
    if missing:
        raise DataError(
            "{}: {} of {} files are missing, the first is {}\n  next: submit the job universes again with the same "
            "settings; it makes what is missing".format(place, len(missing), len(record["files"]), missing[0])
        )
    if record.get("volume_size", wanted.shape[0]) != wanted.shape[0]:
        raise DataError(
            "{}: volumes of {size} x {size} x {size}\n  next: --set volume_size={size}".format(
                place, size=record["volume_size"]
            )
        )
    return Volumes(wanted, place)


def record_of(folder: str) -> dict[str, Any]:
    """What the job universes has recorded about the volumes in `folder`; empty if it has not made them."""
    path = os.path.join(folder, RECORD)
    if not os.path.exists(path):
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        if not isinstance(found, dict):
            raise ValueError("no object")
    except (OSError, ValueError) as error:
        raise DataError("{}: cannot be read ({})\n  next: submit the job universes again".format(path, error)) from None
    return found


def targets_of(folder: str) -> list[dict[str, Any]]:
    """The name and the range of each parameter: those of the record, else numbers in -1 .. 1."""
    unknown = [{"name": "parameter {}".format(number), "low": -1.0, "high": 1.0} for number in range(TARGETS)]
    return record_of(folder).get("targets", unknown)


def made_up(size: int, seed: int) -> Any:
    """One volume and its parameters: clumps of particles, whose number in a snapshot grows with its parameter."""
    random = np.random.RandomState(seed)
    targets = random.uniform(-1, 1, TARGETS).astype(np.float32)
    coarse = random.gamma(1.0, 1.0, (-(-size // 8),) * 3 + (1,))
    clumps = coarse.repeat(8, 0).repeat(8, 1).repeat(8, 2)[:size, :size, :size]
    counts = random.poisson(clumps * np.exp(1 + targets))
    return np.minimum(counts, np.iinfo(np.int16).max).astype(np.int16), targets


def write(folder: str, samples: int, size: int, seed: int) -> str:
    """Write `samples` training volumes and a quarter as many for validation; returns `folder`.

    Files of the same arguments are used again. Raises DataError if the folder contains anything else.
    """
    return written_once(folder, (samples, size, seed), lambda fresh: _make_all(fresh, samples, size, seed))


def _make_all(folder: str, samples: int, size: int, seed: int) -> None:
    import tensorflow as tf

    def example(split: str, number: int) -> bytes:
        volume, targets = made_up(size, stream_seed(seed, "volume", split, number))
        x = tf.train.Feature(bytes_list=tf.train.BytesList(value=[volume.tobytes()]))
        y = tf.train.Feature(float_list=tf.train.FloatList(value=targets))
        return tf.train.Example(features=tf.train.Features(feature={"x": x, "y": y})).SerializeToString()

    for split, count in (("train", samples), ("validation", max(1, samples // TEST_PART))):
        for first in range(0, count, PER_FILE):
            path = os.path.join(folder, "{}-{:05d}.tfrecord".format(split, first // PER_FILE))
            with tf.io.TFRecordWriter(path) as file:
                for number in range(first, min(count, first + PER_FILE)):
                    file.write(example(split, number))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--volume-size", type=int, default=128)
    parser.add_argument("--seed", type=int, default=1)
    typed = parser.parse_args()
    print(write(typed.folder, typed.samples, typed.volume_size, typed.seed))
