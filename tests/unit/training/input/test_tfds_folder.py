"""Folders that tensorflow_datasets has prepared: read without the package where the features are simple."""

from __future__ import annotations

import pytest

try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group training: tensorflow is not installed", allow_module_level=True)

import importlib.util
import json
import pickle
from pathlib import Path
from typing import Any

from hpclaunch.training.input import datasets, shards, tfds_folder
from hpclaunch.training.input.order import Order
from hpclaunch.training.input.source import DataError, ImageSet, Source

SMALL = ImageSet("small", shape=(4, 4, 1), classes=10, job="small", others=("other",))
MODULE = "tensorflow_datasets.core.features."
HAS_PACKAGE = importlib.util.find_spec("tensorflow_datasets") is not None


def dimensions(sides: tuple[Any, ...]) -> Any:
    return {"dimensions": [str(side) for side in sides]}


def image_feature(sides: tuple[Any, ...] = SMALL.shape, dtype: str = "uint8") -> Any:
    content = {"shape": dimensions(sides), "dtype": dtype, "encodingFormat": "png"}
    return {"pythonClassName": MODULE + "image_feature.Image", "image": content}


def label_feature(classes: int = 10) -> Any:
    return {
        "pythonClassName": MODULE + "class_label_feature.ClassLabel",
        "classLabel": {"numClasses": str(classes)},
    }


def tensor_feature() -> Any:
    content = {"shape": dimensions(SMALL.shape), "dtype": "uint8", "encoding": "none"}
    return {"pythonClassName": MODULE + "tensor_feature.Tensor", "tensor": content}


def features_of(fields: Any) -> Any:
    return {"pythonClassName": MODULE + "features_dict.FeaturesDict", "featuresDict": {"features": fields}}


PLAIN = features_of({"image": image_feature(), "label": label_feature()})
OLD = {  # before version 4.4 of the package
    "type": MODULE + "features_dict.FeaturesDict",
    "content": {
        "image": {
            "type": MODULE + "image_feature.Image",
            "content": {"shape": [None, None, 1], "dtype": "uint8", "encoding_format": "png"},
        },
        "label": {"type": MODULE + "class_label_feature.ClassLabel", "content": {"num_classes": 10}},
    },
}
SUPERVISED = {"tuple": {"items": [{"featureKey": "picture"}, {"featureKey": "kind"}]}}


def feature(value: Any) -> Any:
    if isinstance(value, bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=value))


def write_records(path: Path, numbers: range, names: tuple[str, str] = ("image", "label"), plain: bool = False) -> None:
    """Images whose grey is their number, of the class of its last digit."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in numbers:
            pixels = np.full(SMALL.shape, number, np.uint8)
            content = pixels.ravel().tolist() if plain else tf.io.encode_png(pixels).numpy()
            found = {names[0]: feature(content), names[1]: feature([number % 10]), "id": feature(b"n")}
            writer.write(tf.train.Example(features=tf.train.Features(feature=found)).SerializeToString())


def prepared(folder: Path, features: Any = PLAIN, *, name: str = "small", plain: bool = False, **info: Any) -> Path:
    """What download_and_prepare leaves: 20 images to train in two shards, 10 to test, and a split that is not used."""
    folder.mkdir(parents=True)
    names = ("picture", "kind") if "supervisedKeys" in info else ("image", "label")
    write_records(folder / f"{name}-train.tfrecord-00000-of-00002", range(12), names, plain)
    write_records(folder / f"{name}-train.tfrecord-00001-of-00002", range(12, 20), names, plain)
    write_records(folder / f"{name}-test.tfrecord-00000-of-00001", range(10), names, plain)
    write_records(folder / f"{name}-extra.tfrecord-00000-of-00001", range(3), names, plain)
    lengths = {"train": ["12", "8"], "test": ["10"], "extra": ["3"]}
    splits = [{"name": split, "shardLengths": found} for split, found in lengths.items()]
    (folder / "dataset_info.json").write_text(json.dumps({"name": name, "splits": splits, **info}))
    (folder / "features.json").write_text(json.dumps(features))
    return folder


def opened(folder: Path, wanted: ImageSet = SMALL) -> Source:
    return datasets.open_dataset(str(folder), wanted)


def check_content(source: Source) -> None:
    assert source.layout == "tensorflow_datasets" and source.counts == {"train": 20, "test": 10}
    images, labels = source.read("train", [13, 2, 19, 2])
    assert images.shape == (4, 4, 4, 1) and images.dtype == np.uint8
    assert images[:, 0, 0, 0].tolist() == [13, 2, 19, 2] and labels.tolist() == [3, 2, 9, 2]


@pytest.mark.parametrize("place", ["3.0.1", "small/3.0.1", "small/config/3.0.1"])
def test_a_version_is_found_from_its_own_folder_up_to_that_of_all_data_sets(tmp_path: Path, place: str) -> None:
    prepared(tmp_path / place)
    check_content(opened(tmp_path / "small" if place.startswith("small/") else tmp_path))
    check_content(opened(tmp_path / place))
    if place.startswith("small/"):
        prepared(tmp_path / "unlike" / "9.0.0", features_of({}), name="unlike")
        check_content(opened(tmp_path))


def test_of_several_versions_it_is_the_newest_and_of_several_configurations_one_must_be_named(tmp_path: Path) -> None:
    for version in ("3.0.1", "10.0.0", "3.0.0.incomplete"):
        prepared(tmp_path / "small" / version)
    assert Path(opened(tmp_path).path).name == "10.0.0"
    for config in ("a", "b"):
        prepared(tmp_path / "other" / "small" / config / "1.0.0")
    with pytest.raises(DataError, match="several configurations of small: a, b"):
        opened(tmp_path / "other")
    check_content(opened(tmp_path / "other" / "small" / "b"))


def test_the_older_form_of_the_features_and_named_keys_are_read_too(tmp_path: Path) -> None:
    check_content(opened(prepared(tmp_path / "old", OLD)))
    text = {"pythonClassName": MODULE + "text_feature.Text", "text": {}}
    second = features_of({"picture": image_feature(), "kind": label_feature(), "view": image_feature(), "id": text})
    check_content(opened(prepared(tmp_path / "named", second, supervisedKeys=SUPERVISED)))


def test_a_source_can_be_sent_to_other_ranks_and_streamed(tmp_path: Path) -> None:
    source = pickle.loads(pickle.dumps(opened(prepared(tmp_path / "1.0.0"))))
    assert source.fingerprint == source.fingerprint_here() and len(source.files()) == 3
    shard = source.stream_shard(shards.shuffled(20, 1), 1, 0, 1)
    found = [int(label) for _, label in source.samples("train", shard, Order(), tf.constant(0, tf.int64), 1)]
    assert sorted(found) == sorted(number % 10 for number in range(20))


@pytest.mark.parametrize(
    ("features", "info", "words"),
    [
        (features_of({"image": image_feature((8, 8, 1)), "label": label_feature()}), {}, "its images are 8 x 8 x 1"),
        (features_of({"image": image_feature(), "label": label_feature(3)}), {}, "it has 3 classes"),
        (PLAIN, {"fileFormat": "array_record"}, "its files are array_record; only tfrecord"),
        (PLAIN, {"name": "other"}, "it is the data set other"),
        (PLAIN, {"splits": [{"shardLengths": ["1"]}]}, "lists no splits with shardLengths"),
        (PLAIN, {"splits": [{"name": "train", "shardLengths": ["20"]}]}, "no file test"),
        (
            PLAIN,
            {"splits": [{"name": n, "shardLengths": ["20"]} for n in ("train", "test")]},
            "lists 20 samples, and the files of test hold 10: the copy is incomplete",
        ),
        ([], {}, "features.json: cannot be read"),
        (
            features_of({"image": {"pythonClassName": "os.path.Image", "image": {}}}),
            {},
            "names the class os.path.Image",
        ),
        (features_of({"image": image_feature(("x", 4, 1)), "label": label_feature()}), {}, "not as the package writes"),
        (features_of({"image": image_feature(), "label": label_feature()}), {"supervisedKeys": True}, "not as the pac"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, features: Any, info: dict[str, Any], words: str) -> None:
    prepared(tmp_path / "1.0.0", features, **{"name": "small", **info})
    with pytest.raises(DataError, match=words):
        opened(tmp_path / "1.0.0")


def test_a_damaged_description_is_named(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "1.0.0")
    (folder / "dataset_info.json").write_text("{" * 100_000)
    with pytest.raises(DataError, match=r"dataset_info\.json: cannot be read"):
        opened(folder)


if HAS_PACKAGE:  # tests/processes/training/test_tfds_package.py runs this in a process that has it

    def test_the_package_decodes_other_features(tmp_path: Path) -> None:
        fields = features_of({"image": tensor_feature(), "label": label_feature()})
        info = {"fileFormat": "tfrecord", "version": "1.0.0", "moduleName": "small"}
        folder = prepared(tmp_path / "small" / "1.0.0", fields, plain=True, **info)
        source = opened(folder)
        check_content(source)
        assert source.fingerprint == source.fingerprint_here()

else:

    @pytest.mark.parametrize("fields", [{"image": tensor_feature()}, {"image": image_feature(dtype="float32")}, {}])
    def test_other_features_need_the_package(tmp_path: Path, fields: Any) -> None:
        prepared(tmp_path / "1.0.0", features_of({**fields, "label": label_feature()}))
        with pytest.raises(DataError, match=r"can only be read with the package tensorflow_datasets, which"):
            opened(tmp_path / "1.0.0")


def test_the_uppermost_folder_of_all_data_sets_is_no_data_set(tmp_path: Path) -> None:
    prepared(tmp_path / "unlike" / "1.0.0")
    assert tfds_folder.find(SMALL, str(tmp_path)) is None
    with pytest.raises(DataError, match="no data set of a known layout"):
        opened(tmp_path)
