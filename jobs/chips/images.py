"""The article's six versions of each photograph, made during training, after the photographs are split."""

from typing import Any

import numpy as np

from hpclaunch.training.input.image_folders import ImageFolders
from hpclaunch.training.input.shards import Shard, stream_seed
from hpclaunch.training.input.source import Source

VERSIONS = 6  # as it is, upside down, mirrored, and turned by 90, 180 and 270 degrees


class ChipImages(Source):
    """Training photographs in six versions each, and unchanged ones for validation; the split is by photograph.

    The article made the versions before the split. So most of its validation photographs were also in the training set,
    in another version. Here sample n of "train" is version n % 6 of a training photograph. "validation" has a part of
    the photographs in train/, "test" those in test/.
    """

    divides_validation = True

    def __init__(self, photographs: Source, part: float, seed: int) -> None:
        """photographs: class folders, already staged. part: the fraction for validation, at least one and never all."""
        super().__init__(photographs.wanted, photographs.path)
        self._photographs = photographs
        self.layout = photographs.layout + ", six versions"
        self.classes = getattr(photographs, "classes", [])  # class folders have names
        # `samples` pairs photographs with versions by their place in the order; other layouts have their own order.
        self.streams = self.any_order = isinstance(photographs, ImageFolders)
        total = photographs.counts["train"]
        held_out = min(total - 1, max(1, round(total * part)))
        order = np.random.RandomState(stream_seed(seed, "validation")).permutation(total).astype(np.int64)
        self.held_out, self.trained = np.sort(order[:held_out]), np.sort(order[held_out:])
        self.counts = {
            "train": VERSIONS * len(self.trained),
            "validation": held_out,
            "test": photographs.counts["test"],
        }
        self.fingerprint = "{}-{}-{}".format(photographs.fingerprint, held_out, seed)

    def files(self) -> list:
        return self._photographs.files()

    def fingerprint_here(self) -> str:
        self._photographs.fingerprint_here()
        return self.fingerprint

    def read(self, split: str, indices: Any) -> Any:
        if split == "test":
            return self._photographs.read("test", indices)
        if split == "validation":
            return self._photographs.read("train", self.held_out[indices])
        indices = np.asarray(indices, np.int64)
        needed, back = np.unique(indices // VERSIONS, return_inverse=True)  # each file is decoded once
        images, labels = self._photographs.read("train", self.trained[needed])
        images = np.stack([turned(images[row], n % VERSIONS) for row, n in zip(back, indices)])
        return images, labels[back]

    def samples(self, split: str, shard: Shard, order: Any, skip: Any, threads: int) -> Any:
        import tensorflow as tf

        versions = tf.constant(shard.indices % VERSIONS)
        photographs = Shard(self.trained[shard.indices // VERSIONS], shard.samples)
        places = tf.data.Dataset.from_tensor_slices(order(len(shard.indices), "samples")[skip:])
        both = tf.data.Dataset.zip((self._photographs.samples("train", photographs, order, skip, threads), places))
        return both.map(lambda sample, place: (turned_tensor(sample[0], tf.gather(versions, place)), sample[1]))


def turned(image: Any, version: int) -> Any:
    """Version 0 .. 5 of a square image (NumPy)."""
    if version < 3:
        return (image, image[::-1], image[:, ::-1])[version]
    return np.rot90(image, version - 2)


def turned_tensor(image: Any, version: Any) -> Any:
    """The same for a tensor, and for a version that is a tensor too."""
    import tensorflow as tf

    makers = [lambda: image, lambda: image[::-1], lambda: image[:, ::-1]]
    makers += [lambda quarters=quarters: tf.image.rot90(image, quarters) for quarters in (1, 2, 3)]
    return tf.ensure_shape(tf.switch_case(tf.cast(version, tf.int32), makers), image.shape)
