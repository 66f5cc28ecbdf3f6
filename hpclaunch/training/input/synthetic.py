"""Synthetic images of a data set's shape, with a pattern for each class; used only with --synthetic=true."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpclaunch.training.input.shards import stream_seed
from hpclaunch.training.input.source import ImageSet, Source

TEST_PART = 4  # one test image for every four training images


class Synthetic(Source):
    """Image i of a split depends only on (seed, split, i), so that ranks agree without communication."""

    layout = "synthetic"

    def __init__(self, wanted: ImageSet, samples: int, seed: int) -> None:
        super().__init__(wanted, "(made up)")
        self.counts = {"train": samples, "test": max(1, samples // TEST_PART)}
        self.fingerprint = "synthetic-{}-{}".format(seed, samples)
        self._seed = seed
        # A coarse pattern per class, easy enough that accuracy rises within an epoch. It is enlarged only when it is
        # used: 1000 classes of ImageNet's size would take 1.2 GB.
        height, width, channels = wanted.shape
        random = np.random.RandomState(stream_seed(seed, "patterns"))
        self._coarse = random.uniform(64, 192, (wanted.classes, -(-height // 4), -(-width // 4), channels))

    def files(self) -> list[str]:
        return []

    def read(self, split: str, indices: Any) -> tuple[Any, Any]:
        labels = np.asarray(indices, np.int64) % self.wanted.classes
        images = np.empty((len(indices),) + self.wanted.shape, np.uint8)
        height, width = self.wanted.shape[:2]
        for row, index in enumerate(indices):
            pattern = self._coarse[labels[row]].repeat(4, axis=0).repeat(4, axis=1)[:height, :width]
            noise = np.random.RandomState(stream_seed(self._seed, split, int(index))).normal(0, 48, self.wanted.shape)
            images[row] = np.clip(pattern + noise, 0, 255)
        return images, labels
