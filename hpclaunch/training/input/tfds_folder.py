"""Reads a folder that tensorflow_datasets has prepared; needs this package only for features that are not simple.

Simple are one encoded image (Image, uint8) and one class (ClassLabel). The layout of the folder: the package's
documentation, "Loading externally generated datasets"; of features.json: its feature.proto, and the form before it.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
import sys
from typing import Any, Mapping

from hpclaunch.training.input.source import DataError, ImageSet, Source
from hpclaunch.training.input.tfrecords import TFRecords

INFO, FEATURES = "dataset_info.json", "features.json"
VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
FILE = re.compile(r".*-(?P<split>[^-]+)\.tfrecord-\d+-of-\d+")
SPLITS = ("train", "test", "validation")
LARGEST_JSON = 16 << 20  # bytes
PACKAGE = "tensorflow_datasets"


def find(wanted: ImageSet, folder: str) -> Source | None:
    """The data set whose folder of a version `folder` is, or contains: FOLDER/3.0.1 or FOLDER/CONFIG/3.0.1; or None.

    Of several versions it is the newest. Raises DataError for several configurations: one of them must be named.
    """
    if not os.path.isdir(folder):
        return None
    if os.path.isfile(os.path.join(folder, INFO)):
        return TfdsFolder(wanted, folder)
    newest = _newest_version(folder)
    if newest:
        return TfdsFolder(wanted, newest)
    if os.path.basename(os.path.normpath(folder)) != wanted.name:  # else the folder above all data sets would be one
        return None
    found = {name: _newest_version(os.path.join(folder, name)) for name in sorted(os.listdir(folder))}
    places = {name: place for name, place in found.items() if place}
    if len(places) > 1:
        raise DataError(
            "{}: holds several configurations of {}: {}\n  next: name the folder of one of them with --data-dir".format(
                folder, wanted.name, ", ".join(places)
            )
        )
    return TfdsFolder(wanted, next(iter(places.values()))) if places else None


def _newest_version(folder: str) -> str:
    """The folder of the newest version in `folder`; empty if there is none."""
    if not os.path.isdir(folder):
        return ""
    versions = [name for name in os.listdir(folder) if VERSION.fullmatch(name)]
    there = [name for name in versions if os.path.isfile(os.path.join(folder, name, INFO))]
    return os.path.join(folder, max(there, key=lambda name: [int(part) for part in name.split(".")])) if there else ""


class TfdsFolder(TFRecords):
    """The TFRecords of a prepared data set: NAME-SPLIT.tfrecord-00000-of-00001, dataset_info.json, features.json."""

    layout = "tensorflow_datasets"

    def __init__(self, wanted: ImageSet, path: str) -> None:
        self.wanted, self.path = wanted, path  # `wrong` needs them before anything is counted
        self._info = self._read(INFO)
        self._listed = self._splits()
        try:
            features = self._read(FEATURES)
            self._simple = self._simple_keys(_fields(features))
            foreign = "" if self._simple else _foreign(features)
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError, OverflowError) as error:
            what = "its {} or {} is not as the package writes it ({})".format(FEATURES, INFO, str(error)[:300])
            raise self.wrong(what, path) from None
        if foreign:
            raise self.wrong("{} names the class {}, which is not of {}".format(FEATURES, foreign, PACKAGE), path)
        if self._simple is None and importlib.util.find_spec(PACKAGE) is None:
            raise DataError(
                "{}: its features are not one encoded image and one class, so they can only be read with the package "
                "{}, which {} does not have\n  next: install it (pip install tensorflow-datasets), or convert the "
                "data to TFRecords or class folders".format(path, PACKAGE, sys.executable)
            )
        super().__init__(wanted, path)
        for split, names in self._names.items():
            listed = self._listed[self._split_of(names[0])]
            if listed != self.counts[split]:
                what = "{} lists {} samples, and the files of {} hold {}: the copy is incomplete".format(
                    INFO, listed, split, self.counts[split]
                )
                raise self.wrong(what, path)

    def decode(self, split: str, content: Any) -> tuple[Any, Any]:
        if self._simple is not None:
            return super().decode(split, content)
        import tensorflow as tf

        features, keys = _package_features(self.path)
        found = features.deserialize_example(content)
        image, label = (found[key] for key in keys)
        in_range = tf.debugging.Assert((label >= 0) & (label < self.wanted.classes), ["label", label])
        with tf.control_dependencies([in_range]):
            return tf.ensure_shape(image, self.wanted.shape), tf.cast(label, tf.int64)

    def _split_of(self, name: str) -> str:
        found = FILE.fullmatch(name)
        split = found.group("split") if found else ""
        return split if split in self._listed else ""

    def _features(self, split: str) -> Any:
        if self._simple is not None:
            return (*self._simple, False)
        self._check_package_features()
        return ("", "", False)

    def _check_package_features(self) -> None:
        """Raise DataError unless the package finds an image of the wanted shape and a class."""
        try:
            features, keys = _package_features(self.path)
        except Exception as error:  # of any class: it reads files, and imports what they name
            raise self.wrong("{} cannot read it ({})".format(PACKAGE, str(error)[:300]), self.path) from None
        if len(keys) != 2 or any(not isinstance(key, str) or key not in features for key in keys):
            raise self.wrong("it has no pair of an image and a class (supervised_keys)", self.path)
        image, label = (features[key] for key in keys)
        if tuple(image.shape) != self.wanted.shape or image.np_dtype != self.sample_type or tuple(label.shape) != ():
            raise self.wrong("its {} is {}, and its {} is {}".format(keys[0], image, keys[1], label), self.path)

    def _read(self, name: str) -> Any:
        """The content of a JSON file, an object. Raises DataError."""
        path = os.path.join(self.path, name)
        try:
            if not os.path.isfile(path) or os.path.getsize(path) > LARGEST_JSON:
                raise ValueError("missing, not a regular file, or larger than {} MiB".format(LARGEST_JSON >> 20))
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
            if not isinstance(found, dict):
                raise ValueError("not an object")
        except (OSError, ValueError, RecursionError) as error:
            raise self.wrong("cannot be read ({})".format(str(error)[:300]), path) from None
        return found

    def _splits(self) -> dict[str, int]:
        """The number of samples of each split that a training uses. Raises DataError, also for other files."""
        path = os.path.join(self.path, INFO)
        if self._info.get("name") in self.wanted.others:
            raise self.wrong("it is the data set {}".format(self._info["name"]), self.path)
        kind = self._info.get("fileFormat", "tfrecord")
        if kind != "tfrecord":
            raise self.wrong("its files are {}; only tfrecord can be read".format(kind), path)
        try:
            listed = {one["name"]: sum(map(int, one.get("shardLengths", ()))) for one in self._info["splits"]}
        except (LookupError, TypeError, ValueError, AttributeError):
            raise self.wrong("lists no splits with shardLengths", path) from None
        return {name: count for name, count in listed.items() if name in SPLITS}

    def _simple_keys(self, fields: Mapping[str, Any]) -> tuple[str, str] | None:
        """The names of the image and the class; None if the package must decode them. Raises DataError if unfit."""
        keys = _supervised_keys(self._info)
        images = [name for name, field in fields.items() if _kind(field) == "Image"]
        labels = [name for name, field in fields.items() if _kind(field) == "ClassLabel"]
        if not keys and len(images) == len(labels) == 1:
            keys = (images[0], labels[0])
        if len(keys) != 2 or keys[0] not in images or keys[1] not in labels:
            return None
        image = _content(fields[keys[0]])
        self._check_fit(_sides(image), _classes(_content(fields[keys[1]])))
        return (keys[0], keys[1]) if image.get("dtype", "uint8") == "uint8" else None

    def _check_fit(self, sides: list[int], classes: int) -> None:
        """Raise DataError for images of another shape (-1: any side; empty: any shape) or another number of classes."""
        fits = len(sides) == 3 and all(side in (-1, wanted) for side, wanted in zip(sides, self.wanted.shape))
        if sides and not fits:
            raise self.wrong("its images are {}".format(" x ".join(map(str, sides))), self.path)
        if classes and classes != self.wanted.classes:
            raise self.wrong("it has {} classes".format(classes), self.path)


def _sides(image: Mapping[str, Any]) -> list[int]:
    """The shape of an image feature, -1 for a side of any length; empty if any shape is possible."""
    shape = image.get("shape") or {}
    sides = shape.get("dimensions", []) if isinstance(shape, dict) else shape
    return [-1 if side in (None, "") else int(side) for side in sides]


def _classes(label: Mapping[str, Any]) -> int:
    """The number of classes of a label feature; 0 if it is not told."""
    return int(label.get("numClasses", label.get("num_classes", 0)) or 0)


def _supervised_keys(info: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the features for as_supervised=True; empty if there are none or they are not two plain ones."""
    keys = info.get("supervisedKeys") or {}
    items = (keys.get("tuple") or {}).get("items") or [{"featureKey": keys.get(one)} for one in ("input", "output")]
    names = tuple(one.get("featureKey") for one in items)
    return names if all(names) else ()


def _fields(features: Any) -> dict[str, Any]:
    """The features of the uppermost level by name; empty if it is no FeaturesDict."""
    content = _content(features) if _kind(features) == "FeaturesDict" else {}
    found = content.get("features", content)
    return found if isinstance(found, dict) else {}


def _kind(feature: Any) -> str:
    """The name of a feature's class, without its module."""
    name = feature.get("pythonClassName") or feature.get("type") or "" if isinstance(feature, dict) else ""
    return str(name).rpartition(".")[2]


def _foreign(part: Any) -> str:
    """A class outside of the package in features.json, whose module the package would import; empty for none."""
    if isinstance(part, list):
        return next(filter(None, map(_foreign, part)), "")
    if not isinstance(part, dict):
        return ""
    named = [part[key] for key in ("pythonClassName", "type") if isinstance(part.get(key), str)]
    foreign = [name[:100] for name in named if "." in name and not name.startswith(PACKAGE + ".")]
    return foreign[0] if foreign else _foreign(list(part.values()))


def _content(feature: Mapping[str, Any]) -> dict[str, Any]:
    """What a feature says of itself: the value beside its class name, in the form of each version of the package."""
    names = ("pythonClassName", "type", "proto_cls")
    inner: Any = next((value for key, value in feature.items() if key not in names), {})
    if isinstance(inner, str):  # versions 4.4 to 4.5 have JSON within JSON
        inner = json.loads(inner)
    return inner if isinstance(inner, dict) else {}


@functools.lru_cache(maxsize=4)
def _package_features(path: str) -> tuple[Any, tuple[str, ...]]:
    """The package's own features of the data set in `path`, and the names of image and class."""
    import tensorflow_datasets

    info = tensorflow_datasets.builder_from_directory(path).info
    return info.features, tuple(info.supervised_keys or ("image", "label"))
