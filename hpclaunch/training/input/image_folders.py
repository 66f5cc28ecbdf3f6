"""Reads images from class folders (train/CLASS/*.jpg|png); opens only the files asked for.

Images of another size are refused, or resized if the data set is a person's own (ImageSet.resized).
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hpclaunch.training.input.shards import Shard
from hpclaunch.training.input.source import VALIDATION, ImageSet, Source, data_error

if TYPE_CHECKING:
    from hpclaunch.training.input.order import Order

EXTENSIONS = (".jpg", ".jpeg", ".png")
SPLITS = ("train", "test")
BATCH = 256  # images per batch while a shard is read into memory


def find(wanted: ImageSet, folder: str) -> Source | None:
    """The class folders in `folder`, or None if it has neither train/ nor test/."""
    if not any(os.path.isdir(os.path.join(folder, split)) for split in SPLITS):
        return None
    return ImageFolders(wanted, folder)


def opened(wanted: ImageSet, folder: str) -> Source:
    """The class folders in `folder`; raises DataError if there are none."""
    if not os.path.isdir(folder):
        raise data_error(wanted, "no such folder", folder or "--data-dir and HPCLAUNCH_DATA_DIR are empty")
    found = find(wanted, folder)
    if found is None:
        raise data_error(wanted, "neither train/ nor test/ is there", folder)
    return found


class ImageFolders(Source):
    """Class folders; the label of a class is the place of its folder among the sorted names.

    The folder validation/ is one of the splits if it is there.
    """

    layout = "class folders"
    streams = True
    streams_tests = True
    any_order = True
    decodes = True

    def __init__(self, wanted: ImageSet, path: str) -> None:
        super().__init__(wanted, path)
        self._files: dict[str, list[str]] = {}
        self._labels: dict[str, np.ndarray] = {}
        self.classes: list[str] = []
        names = hashlib.sha256()
        self._splits = [*SPLITS, VALIDATION] if os.path.isdir(os.path.join(path, VALIDATION)) else [*SPLITS]
        for split in self._splits:
            classes = self._class_names(split)
            if self.classes and classes != self.classes:
                raise self.wrong("classes differ: {} in train/, {} in {}/".format(self.classes, classes, split), path)
            self.classes = classes
            self.wanted = replace(self.wanted, classes=len(classes))
            self._list(split)
            names.update("\n".join(self._files[split]).encode("utf-8", "surrogateescape"))
        self.counts = {split: len(self._files[split]) for split in self._splits}
        self.fingerprint = "names-" + names.hexdigest()[:16]

    def _class_names(self, split: str) -> list[str]:
        folder = os.path.join(self.path, split)
        if not os.path.isdir(folder):
            raise self.wrong("the folder {}/ is missing".format(split), self.path)
        classes = sorted(
            entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith(".")
        )
        if not classes or len(classes) != (self.wanted.classes or len(classes)):
            wanted = self.wanted.classes or "one or more"
            raise self.wrong("{} class folders, not {}".format(len(classes), wanted), folder)
        return classes

    def _list(self, split: str) -> None:
        files: list[str] = []
        labels: list[int] = []
        for label, name in enumerate(self.classes):
            found = sorted(
                f for f in os.listdir(os.path.join(self.path, split, name)) if f.lower().endswith(EXTENSIONS)
            )
            if not found:
                raise self.wrong("no image (*.jpg, *.jpeg, *.png)", os.path.join(self.path, split, name))
            files += [os.path.join(split, name, f) for f in found]
            labels += [label] * len(found)
        self._files[split] = files
        self._labels[split] = np.array(labels, np.int64)

    def files(self) -> list[str]:
        return [os.path.join(self.path, name) for split in self._splits for name in self._files[split]]

    def fingerprint_here(self) -> str:
        """Rank 0's fingerprint, if this host has the class folders; a missing file is reported when it is read."""
        for split in self._splits:
            for name in self.classes:
                folder = os.path.join(self.path, split, name)
                if not os.path.isdir(folder):
                    raise self.wrong("the class folder is missing on this host", folder)
        return self.fingerprint

    def read(self, split: str, indices: Any) -> tuple[Any, Any]:
        """Decode the images at `indices`; raises DataError with the first file that is not an image of the shape.

        Where there is no TensorFlow, Pillow decodes them; pixels of a JPEG may then differ by one.
        """
        if importlib.util.find_spec("tensorflow") is None:
            return self.read_with_pillow(split, indices), self._labels[split][indices]
        import tensorflow as tf

        from hpclaunch.training.input import decoding

        images = np.empty((len(indices),) + self.wanted.shape, np.uint8)
        paths = tf.data.Dataset.from_tensor_slices(self._paths(split, indices))
        done = 0
        try:
            for batch in decoding.in_parallel(paths, self._load).batch(BATCH).prefetch(1):
                images[done : done + len(batch)] = batch.numpy()
                done += len(batch)
        except tf.errors.OpError:
            for index in indices[done:]:  # the error does not name the file
                self._check_file(os.path.join(self.path, self._files[split][index]))
            raise
        return images, self._labels[split][indices]

    def read_with_pillow(self, split: str, indices: Any) -> np.ndarray:
        """The images at `indices`, without TensorFlow; raises DataError with the first file that is not as expected."""
        try:
            from PIL import Image
        except ImportError:
            raise self.wrong("JPEG and PNG files need TensorFlow or Pillow (pip install pillow)", self.path) from None
        images = np.empty((len(indices),) + self.wanted.shape, np.uint8)
        for row, index in enumerate(indices):
            path = os.path.join(self.path, self._files[split][index])
            try:
                with Image.open(path) as image:
                    found = image.convert("L" if self.wanted.shape[2] == 1 else "RGB")
                    pixels = np.asarray(found.resize(self.wanted.shape[1::-1]) if self.wanted.resized else found)
            except OSError as error:
                reason = "not a readable image ({} bytes: {})".format(os.path.getsize(path), error)
                raise self.wrong(reason, path) from None
            if pixels.shape[:2] != self.wanted.shape[:2]:
                raise self.wrong("the image is {}".format(" x ".join(str(n) for n in pixels.shape)), path)
            images[row] = pixels.reshape(self.wanted.shape)
        return images

    def encoded(self, split: str, shard: Shard, order: Order, skip: Any) -> Any:
        import tensorflow as tf

        paths, labels = self._paths(split, shard.indices), tf.constant(self._labels[split][shard.indices])
        places = order(len(shard.indices), "samples")[skip:]
        # Gathered for the whole epoch: a map would take some microseconds for every image.
        found = {"path": tf.gather(paths, places), "label": tf.gather(labels, places)}
        return tf.data.Dataset.from_tensor_slices(found)

    def decode(self, split: str, content: Any) -> tuple[Any, Any]:
        return self._load(content["path"]), content["label"]

    def _paths(self, split: str, indices: Any) -> Any:
        import tensorflow as tf

        # As bytes: a file name need not be valid text.
        return tf.constant([os.fsencode(os.path.join(self.path, self._files[split][i])) for i in indices], tf.string)

    def _load(self, path: Any) -> Any:
        import tensorflow as tf

        from hpclaunch.training.input import decoding

        content = tf.io.read_file(path)
        return (decoding.resized if self.wanted.resized else decoding.image)(content, self.wanted.shape)

    def _check_file(self, path: str) -> None:
        """Raise DataError if the file is not an image of the shape."""
        import tensorflow as tf

        try:
            with open(path, "rb") as file:
                content = file.read()
            found = tf.io.decode_image(content, channels=self.wanted.shape[2], expand_animations=False).shape
        except (OSError, tf.errors.OpError) as error:
            size = os.path.getsize(path) if os.path.exists(path) else 0
            reason = str(error).split("\n")[0]
            raise self.wrong("not a readable image ({} bytes: {})".format(size, reason), path) from None
        if tuple(found) != self.wanted.shape and not self.wanted.resized:
            raise self.wrong("the image is {}".format(" x ".join(str(n) for n in found)), path)
