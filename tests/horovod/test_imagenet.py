"""ImageNet's TFRecords: images of any size become squares, classes are counted from the first one."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

try:
    import numpy as np
    import tensorflow
except ImportError:
    pytest.skip("group horovod: tensorflow is not installed (the extra `train` brings it)", allow_module_level=True)

from hpclaunch.training.input import decoding, shards, streaming
from hpclaunch.training.input.augmentation import Augmentation, random_numbers
from hpclaunch.training.input.moves import Moves
from hpclaunch.training.input.source import DataError, ImageSet
from hpclaunch.training.rank.failure import AgreedError
from tests.horovod.conftest import ROOT

WANTED = ImageSet("imagenet", shape=(16, 16, 3), classes=3, job="resnet50")


@pytest.fixture(scope="module")
def imagenet() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "jobs" / "resnet50"))
        import imagenet

        yield imagenet
    sys.modules.pop("imagenet", None)


@pytest.mark.parametrize("encode", [tensorflow.io.encode_jpeg, tensorflow.io.encode_png])
def test_the_middle_of_an_image_is_used(imagenet: ModuleType, encode: Callable[[Any], Any]) -> None:
    image = np.zeros((40, 80, 3), np.uint8)
    image[:, 16:64] = 200  # a band; the middle square of 35 pixels, from column 22 on, lies within it
    found = decoding.resized(encode(image), (16, 16, 3), imagenet.square).numpy()
    np.testing.assert_array_equal(found, np.full((16, 16, 3), 200, np.uint8))
    assert imagenet.square(tensorflow.constant([40, 80, 3])).numpy().tolist() == [2, 22, 35, 35]
    assert imagenet.square(tensorflow.constant([1, 1, 3])).numpy().tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("shift", "corner"),
    [((0, 0), (2, 22)), ((1, -2), (4, 18)), ((-9, 9), (0, 42)), ((100, -100), (5, 0))],  # 35 / 16 pixels for each
)
def test_a_shift_moves_the_square_inside_the_image(
    imagenet: ModuleType, shift: tuple[int, int], corner: tuple[int, int]
) -> None:
    found = imagenet.square(tensorflow.constant([40, 80, 3]), tensorflow.constant(shift), 16).numpy().tolist()
    assert found == [*corner, 35, 35]


def test_a_stream_shifts_the_square_and_mirrors_the_image(imagenet: ModuleType, tmp_path: Path) -> None:
    wanted = ImageSet("imagenet", shape=(112, 112, 3), classes=3, job="resnet50")
    picture = np.random.RandomState(1).randint(0, 256, (128, 130, 3)).astype(np.uint8)  # its square: 112 pixels
    source = one_picture(imagenet, tmp_path, wanted, picture)
    augment = Augmentation(flip_horizontal=True, flip_vertical=True, crop=8)
    stream = streaming.training_stream(
        source, shards.Shard(np.arange(24), 24), 4, 5, 0, augment=augment, as_pixels=True
    )
    found = [image for batch, _ in itertools.islice(stream, 6) for image in batch.numpy()]
    draws = random_numbers(5, 0, 0, 0, 24)
    assert len({tuple(move) for move in Moves(augment).of_batch(draws).numpy().tolist()}) > 20
    for image, (down, right, below, beside) in zip(found, Moves(augment).of_batch(draws).numpy(), strict=True):
        part = picture[8 + below : 120 + below, 9 + beside : 121 + beside]
        np.testing.assert_array_equal(image, part[:: -1 if down else 1, :: -1 if right else 1])


def one_picture(imagenet: ModuleType, folder: Path, wanted: ImageSet, picture: Any) -> Any:
    """Records with the same picture, 24 times."""
    encoded = tensorflow.train.BytesList(value=[tensorflow.io.encode_png(picture).numpy()])
    features = {
        "image/encoded": tensorflow.train.Feature(bytes_list=encoded),
        "image/class/label": tensorflow.train.Feature(int64_list=tensorflow.train.Int64List(value=[1])),
    }
    record = tensorflow.train.Example(features=tensorflow.train.Features(feature=features)).SerializeToString()
    for name, count in (("train-00000-of-00001", 24), ("validation-00000-of-00001", 1)):
        with tensorflow.io.TFRecordWriter(str(folder / name)) as file:
            for _ in range(count):
                file.write(record)
    return imagenet.open_imagenet(str(folder), wanted, 1)


@pytest.mark.parametrize("first_class", [0, pytest.param(1, marks=pytest.mark.long_tier)])
def test_classes_are_counted_from_the_first(imagenet: ModuleType, tmp_path: Path, first_class: int) -> None:
    folder = imagenet.write(str(tmp_path / "imagenet"), 9, WANTED, first_class, 1)
    source = imagenet.open_imagenet(str(tmp_path), WANTED, first_class)
    assert source.counts == {"train": 9, "test": 2}
    images, labels = source.read("train", np.arange(9))
    assert (images.shape, images.dtype) == ((9, 16, 16, 3), np.uint8)
    assert sorted(labels.tolist()) == sorted(np.arange(9) % 3)
    with pytest.raises(DataError, match=r"damaged, or not as expected(.|\n)*--first-class"):
        imagenet.open_imagenet(folder, WANTED, first_class + 1).read("train", np.arange(9))


def test_what_is_not_there_is_told(imagenet: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        imagenet.open_imagenet(str(tmp_path / "none"), WANTED, 1)
    with pytest.raises(DataError, match=r"no file train\*"):
        imagenet.open_imagenet(str(tmp_path), WANTED, 1)


def test_every_validation_image_is_evaluated_once(imagenet: ModuleType, tmp_path: Path) -> None:
    source = imagenet.open_imagenet(imagenet.write(str(tmp_path / "new"), 44, WANTED, 1, 1), WANTED, 1)
    images, labels = source.read("test", np.arange(11))
    found = []
    for rank in range(3):
        own = shards.evaluation_shard(11, rank, 3)
        batches = list(streaming.evaluation_stream(source, own, 2))
        assert [len(answers) for _, answers in batches] == [2] * (len(own) // 2) + [1] * (len(own) % 2)
        found += [
            (image.numpy(), int(label)) for some, answers in batches for image, label in zip(some, answers, strict=True)
        ]
    assert [label for _, label in found] == labels.tolist()
    np.testing.assert_array_equal([image for image, _ in found], images)
    assert list(streaming.evaluation_stream(source, shards.evaluation_shard(0, 0, 1), 2)) == []


def test_damage_in_the_validation_is_named(imagenet: ModuleType, tmp_path: Path) -> None:
    folder = imagenet.write(str(tmp_path / "new"), 44, WANTED, 1, 1)
    source = imagenet.open_imagenet(folder, WANTED, 1)
    file = Path(folder, "validation-00000-of-00001")
    content = bytearray(file.read_bytes())
    content[-40] ^= 1  # in the last record
    file.write_bytes(content)
    with pytest.raises(
        AgreedError, match=r"validation-00000-of-00001: damaged[^\n]*\n  expected: TFRecords, not compr"
    ):
        list(streaming.evaluation_stream(source, np.arange(11), 2))
