"""Reads ImageNet's TFRecords with images cut to one size, and writes synthetic ones.

python imagenet.py FOLDER [--samples 1024] [--image-size 224] [--classes 1000] writes train-* and validation-*.
"""

import argparse
import os
from typing import Any

import numpy as np

from hpclaunch.training.input.made_up import written_once
from hpclaunch.training.input.source import DataError, ImageSet
from hpclaunch.training.input.synthetic import Synthetic
from hpclaunch.training.input.tfrecords import TFRecords, folder_of

FILES = 8  # synthetic training files
KEPT = 0.875  # fraction of the shorter side that is used, as in published evaluations


class ImageNet(TFRecords):
    """JPEG images of any size under `image/encoded`, classes from `first_class` on under `image/class/label`.

    Files are train-00000-of-01024 and validation-00000-of-00128, as TensorFlow's own scripts write them. The square in
    the middle of an image is used, with 87.5 % of the shorter side, and resized to the wanted size. A shift (the
    parameter crop) moves this square inside the image: it cuts other pixels, and no zeros.
    """

    layout = "TFRecords of photographs"

    def __init__(self, wanted: ImageSet, path: str, first_class: int) -> None:
        self.first_class = first_class
        super().__init__(wanted, path)

    def decode(self, split: str, content: Any) -> Any:
        return self._cut(split, content, None)

    def decode_moved(self, split: str, content: Any, moves: Any, move: Any) -> Any:
        image, label = self._cut(split, content, move[2:])
        return moves.mirror(image, move), label

    def _cut(self, split: str, content: Any, shift: Any) -> Any:
        import tensorflow as tf

        from hpclaunch.training.input import decoding

        image_key, label_key, _ = self._keys[split]
        features = {image_key: tf.io.FixedLenFeature([], tf.string), label_key: tf.io.FixedLenFeature([], tf.int64)}
        found = tf.io.parse_single_example(content, features)
        # A class out of range is an error of gather; an assertion would take longer for every image.
        label = tf.gather(tf.range(self.wanted.classes, dtype=tf.int64), found[label_key] - self.first_class)
        size = self.wanted.shape[0]
        # This decodes PNG too: one of ImageNet's files is not a JPEG.
        return decoding.resized(found[image_key], self.wanted.shape, lambda shape: square(shape, shift, size)), label

    def wrong(self, what: str, where: str) -> DataError:
        last = self.first_class + self.wanted.classes - 1
        return DataError(
            "{}: {}\n  expected: TFRecords, not compressed, as train-00000-of-01024 and validation-00000-of-00128, "
            "with JPEG or PNG under image/encoded and a class from {} to {} under image/class/label\n"
            "  next: set --first-class and --classes as in the data, or --data-dir FOLDER, or --synthetic=true".format(
                where, what, self.first_class, last
            )
        )


def square(shape: Any, shift: Any = None, size: int = 1) -> Any:
    """The square in the middle of an image [h, w, c] of `shape`: top, left, side, side; 87.5 % of the shorter side.

    shift: moves it inside the image, int32 [2] (down, right), in pixels of the new image, which is `size` high.
    """
    import tensorflow as tf

    shorter = tf.cast(tf.reduce_min(shape[:2]), tf.float32)
    side = tf.maximum(tf.cast(tf.round(KEPT * shorter), tf.int32), 1)
    room = shape[:2] - side
    corner = room // 2
    if shift is not None:
        moved = tf.round(tf.cast(shift * side, tf.float32) / size)
        corner = tf.clip_by_value(corner + tf.cast(moved, tf.int32), 0, room)
    return tf.concat([corner, tf.stack([side, side])], 0)


def open_imagenet(folder: str, wanted: ImageSet, first_class: int) -> ImageNet:
    """The records in `folder`, or in its subfolder imagenet; raises DataError if there are none."""
    return ImageNet(wanted, folder_of(wanted, folder), first_class)


def write(folder: str, samples: int, wanted: ImageSet, first_class: int, seed: int) -> str:
    """Write `samples` synthetic JPEG images for training and a quarter as many for validation; returns `folder`.

    Files of the same arguments are used again. Raises DataError if the folder contains anything else.
    """
    settings = (samples, wanted.shape[0], wanted.classes, first_class, seed)
    return written_once(folder, settings, lambda fresh: _make_all(fresh, Synthetic(wanted, samples, seed), first_class))


def _make_all(folder: str, source: Synthetic, first_class: int) -> None:
    for split, called, files in (("train", "train", min(FILES, source.counts["train"])), ("test", "validation", 1)):
        numbers = np.array_split(np.arange(source.counts[split]), files)
        for file_number, own in enumerate(numbers):
            path = os.path.join(folder, "{}-{:05d}-of-{:05d}".format(called, file_number, files))
            _write_file(path, *source.read(split, own), first_class)


def _write_file(path: str, images: Any, labels: Any, first_class: int) -> None:
    import tensorflow as tf

    height, width = images.shape[1:3]
    with tf.io.TFRecordWriter(path) as file:
        for image, label in zip(images, labels):
            # Like photographs, they are larger than the used part, and not square.
            large = tf.image.resize(image, [int(height * 1.2), int(width * 1.4)], method="nearest")
            encoded = tf.train.BytesList(value=[tf.io.encode_jpeg(tf.cast(large, tf.uint8), quality=90).numpy()])
            found = {
                "image/encoded": tf.train.Feature(bytes_list=encoded),
                "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(label) + first_class])),
            }
            file.write(tf.train.Example(features=tf.train.Features(feature=found)).SerializeToString())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--first-class", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    typed = parser.parse_args()
    shape = (typed.image_size, typed.image_size, 3)
    made = ImageSet("imagenet", shape=shape, classes=typed.classes, job="resnet50")
    print(write(typed.folder, typed.samples, made, typed.first_class, typed.seed))
