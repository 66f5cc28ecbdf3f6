"""Reads images from class folders (train/CLASS/*.jpg|png); opens only the files that are asked for, never resizes."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import numpy as np

from hpclaunch.training.datasets import ImageSet, Source

EXTENSIONS = (".jpg", ".jpeg", ".png")
SPLITS = ("train", "test")


def find(wanted: ImageSet, folder: str) -> Source | None:
    """The class folders in `folder`, or None if it has neither train/ nor test/."""
    if not any(os.path.isdir(os.path.join(folder, split)) for split in SPLITS):
        return None
    return ImageFolders(wanted, folder)


class ImageFolders(Source):
    """Class folders; a class's label is its place among the sorted folder names."""

    layout = "class folders"

    def __init__(self, wanted: ImageSet, path: str) -> None:
        super().__init__(wanted, path)
        self._files: dict[str, list[str]] = {}
        self._labels: dict[str, np.ndarray] = {}
        self.classes: list[str] = []
        names = hashlib.sha256()
        for split in SPLITS:
            classes = self._class_names(split)
            if self.classes and classes != self.classes:
                raise self.wrong("classes differ: {} in train/, {} in test/".format(self.classes, classes), path)
            self.classes = classes
            self._list(split)
            names.update("\n".join(self._files[split]).encode("utf-8", "surrogateescape"))
        self.counts = {split: len(self._files[split]) for split in SPLITS}
        self.fingerprint = "names-" + names.hexdigest()[:16]

    def _class_names(self, split: str) -> list[str]:
        folder = os.path.join(self.path, split)
        if not os.path.isdir(folder):
            raise self.wrong("the folder {}/ is missing".format(split), self.path)
        classes = sorted(
            entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith(".")
        )
        if len(classes) != self.wanted.classes:
            raise self.wrong("{} class folders, not {}".format(len(classes), self.wanted.classes), folder)
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

    def read(self, split: str, indices: Any) -> tuple[Any, Any]:
        """Decode the images at `indices`; raises DataError naming the first file that is no image of the shape."""
        images = np.empty((len(indices),) + self.wanted.shape, np.uint8)
        for row, index in enumerate(indices):
            images[row] = self._decode(os.path.join(self.path, self._files[split][index]))
        return images, self._labels[split][indices]

    def _decode(self, path: str) -> np.ndarray:
        import tensorflow as tf

        try:
            with open(path, "rb") as file:
                content = file.read()
            with tf.device("/CPU:0"):
                image = tf.io.decode_image(content, channels=self.wanted.shape[2], expand_animations=False).numpy()
        except (OSError, tf.errors.OpError) as error:
            reason = str(error).split("\n")[0]
            raise self.wrong(
                "not a readable image ({} bytes: {})".format(os.path.getsize(path), reason), path
            ) from None
        if image.shape != self.wanted.shape:
            raise self.wrong("the image is {}".format(" x ".join(str(n) for n in image.shape)), path)
        return image
