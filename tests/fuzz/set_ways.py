"""Hostile data sets of several files: MNIST's idx files, and folders that tensorflow_datasets has prepared."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.data_ways import edited, edits, prepare_training
from tests.fuzz.scene import Scene, Way
from tests.fuzz.text_ways import changed, changes

PARTS = ("train-images", "train-labels", "t10k-images", "t10k-labels")
SAMPLES = 3


def prepare_idx(scene: Scene) -> None:
    """Write the four files, as they are and packed, and read both once."""
    from hpclaunch.training.input.source import ImageSet

    prepare_training(scene)
    scene.store["grey"] = ImageSet("grey", shape=(4, 4, 1), classes=SAMPLES, job="mnist")
    for packed in (False, True):
        for part in PARTS:
            write_part(scene, part, packed)
        read_whole(scene, folder_of(scene, packed), "grey")


def folder_of(scene: Scene, packed: bool) -> Path:
    return scene.place / "data" / ("packed" if packed else "idx")


def write_part(scene: Scene, part: str, packed: bool, inner: Any = (), outer: Any = ()) -> None:
    """One of the files. Changes are made in its content, and (outer) in the file as it is on disk."""
    if part.endswith("images"):
        kind, content = 3, struct.pack(">4I", 0x803, SAMPLES, 4, 4) + bytes(range(16 * SAMPLES))
    else:
        kind, content = 1, struct.pack(">2I", 0x801, SAMPLES) + bytes(range(SAMPLES))
    content = edited(content, inner)
    folder = folder_of(scene, packed)
    folder.mkdir(exist_ok=True)
    name = f"{part}-idx{kind}-ubyte" + (".gz" if packed else "")
    (folder / name).write_bytes(edited(gzip.compress(content) if packed else content, outer))


def read_whole(scene: Scene, folder: Path, wanted: str) -> None:
    found = scene.store["open"](str(folder), scene.store[wanted])
    for split, count in found.counts.items():
        found.read(split, scene.store["np"].arange(min(count, 50)))


def feed_idx(scene: Scene, which: int, packed: bool, inner: Any, outer: Any) -> None:
    write_part(scene, PARTS[which], packed, inner, outer)
    try:
        with scene.met():
            read_whole(scene, folder_of(scene, packed), "grey")
    finally:
        write_part(scene, PARTS[which], packed)


# --- tensorflow_datasets

FEATURES = "tensorflow_datasets.core.features."
JSON_FILES: dict[str, Any] = {
    "dataset_info.json": {
        "name": "small",
        "fileFormat": "tfrecord",
        "supervisedKeys": {"tuple": {"items": [{"featureKey": "image"}, {"featureKey": "label"}]}},
        "splits": [{"name": split, "shardLengths": [str(SAMPLES)]} for split in ("train", "test")],
    },
    "features.json": {
        "pythonClassName": FEATURES + "features_dict.FeaturesDict",
        "featuresDict": {
            "features": {
                "image": {
                    "pythonClassName": FEATURES + "image_feature.Image",
                    "image": {"shape": {"dimensions": ["4", "4", "3"]}, "dtype": "uint8", "encodingFormat": "png"},
                },
                "label": {
                    "pythonClassName": FEATURES + "class_label_feature.ClassLabel",
                    "classLabel": {"numClasses": "3"},
                },
            }
        },
    },
}


def prepare_folder(scene: Scene) -> None:
    """Write a good folder, and read it once: what is loaded late is loaded now."""
    import tensorflow as tf

    prepare_training(scene)
    folder = scene.place / "data/prepared"
    folder.mkdir()
    for split in ("train", "test"):
        with tf.io.TFRecordWriter(str(folder / f"small-{split}.tfrecord-00000-of-00001")) as writer:
            for label in range(SAMPLES):
                image = tf.io.encode_png(tf.fill((4, 4, 3), tf.cast(label, tf.uint8))).numpy()
                found = {
                    "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=found)).SerializeToString())
    for name, content in JSON_FILES.items():
        (folder / name).write_text(json.dumps(content))
    read_whole(scene, folder, "small")


def feed_folder(scene: Scene, name: str, inner: Any, outer: Any, deep: int) -> None:
    """A change of what a JSON file says, and at times of its bytes; the records, which have their own way, stay."""
    file = scene.place / "data/prepared" / name
    text = json.dumps(changed(JSON_FILES[name], inner)).encode("utf-8", "surrogateescape")
    file.write_bytes(edited(text, outer) if deep % 4 == 0 else text)
    try:
        with scene.met():
            if deep == 1:
                read_whole(scene, file.parent, "small")
            else:
                scene.store["open"](str(file.parent), scene.store["small"])
    finally:
        file.write_text(json.dumps(JSON_FILES[name]))


SET_WAYS = {
    "IDX files": Way(st.tuples(st.integers(0, 3), st.booleans(), edits, edits), feed_idx, prepare_idx),
    "tensorflow_datasets folders": Way(
        st.tuples(st.sampled_from(list(JSON_FILES)), changes, edits, st.integers(0, 7)), feed_folder, prepare_folder
    ),
}
