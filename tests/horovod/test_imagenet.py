"""ImageNet's TFRecords: images of any size become squares, classes are counted from the first one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group horovod: tensorflow is not installed (the extra `train` brings it)", allow_module_level=True)

from hpclaunch.training import datasets, pipeline
from tests.horovod.conftest import ROOT

WANTED = datasets.ImageSet("imagenet", shape=(16, 16, 3), classes=3, job="resnet50")


@pytest.fixture(scope="module")
def imagenet() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "jobs" / "resnet50"))
        import imagenet

        yield imagenet
    sys.modules.pop("imagenet", None)


def test_the_middle_of_an_image_is_used(imagenet: ModuleType) -> None:
    image = np.zeros((40, 80, 3), np.uint8)
    image[:, 22:58] = 200  # a band; the middle square of 35 pixels, from column 22 on, lies within it
    np.testing.assert_array_equal(imagenet.middle(image, 16), np.full((16, 16, 3), 200, np.uint8))
    assert imagenet.middle(np.zeros((1, 1, 3), np.uint8), 16).shape == (16, 16, 3)


@pytest.mark.parametrize("first_class", [0, 1])
def test_classes_are_counted_from_the_first(imagenet: ModuleType, tmp_path: Path, first_class: int) -> None:
    folder = imagenet.write(str(tmp_path / "imagenet"), 9, WANTED, first_class, 1)
    source = imagenet.open_imagenet(str(tmp_path), WANTED, first_class)
    assert source.counts == {"train": 9, "test": 2}
    images, labels = source.read("train", np.arange(9))
    assert (images.shape, images.dtype) == ((9, 16, 16, 3), np.uint8)
    assert sorted(labels.tolist()) == sorted(np.arange(9) % 3)
    with pytest.raises(datasets.DataError, match="damaged, or not as expected"):
        imagenet.open_imagenet(folder, WANTED, first_class + 1).read("train", np.arange(9))


def test_what_is_not_there_is_told(imagenet: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(datasets.DataError, match="no such folder"):
        imagenet.open_imagenet(str(tmp_path / "none"), WANTED, 1)
    with pytest.raises(datasets.DataError, match=r"no file train\*"):
        imagenet.open_imagenet(str(tmp_path), WANTED, 1)


def test_samples_are_evaluated_some_at_a_time() -> None:
    asked: list[int] = []

    def read(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        asked.append(len(positions))
        return positions[:, None].astype(np.int16), positions

    batches = list(pipeline.evaluation_stream(read, np.arange(11), 2, at_once=2))
    assert asked == [4, 4, 3]
    assert tf.concat([labels for _, labels in batches], 0).numpy().tolist() == list(range(11))
    assert batches[0][0].dtype == tf.int16
