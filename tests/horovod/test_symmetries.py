"""The symmetries of a cube, of which the job cosmoflow applies one to every training volume."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group horovod: tensorflow is not installed (the extra `train` brings it)", allow_module_level=True)

from hpclaunch.training.input.augmentation import DRAWS, random_numbers
from hpclaunch.training.input.pipeline import training_batches
from tests.horovod.conftest import ROOT

SIZE = 4
VOLUMES = np.random.RandomState(1).randint(0, 1000, (3, SIZE, SIZE, SIZE, 2)).astype(np.int16)
TARGETS = np.arange(3, dtype=np.float32)[:, None].repeat(4, axis=1)


@pytest.fixture(scope="module")
def symmetries() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "jobs" / "cosmoflow"))
        import symmetries

        yield symmetries
    sys.modules.pop("symmetries", None)


def every_symmetry(volume: np.ndarray) -> set[bytes]:
    """By the definition: each order of the directions, each of them in both senses."""
    found = set()
    for order in itertools.permutations(range(3)):
        turned = volume.transpose(*order, 3)
        for x, y, z in itertools.product((1, -1), repeat=3):
            found.add(turned[::x, ::y, ::z].tobytes())
    return found


def test_all_symmetries_occur_equally_often(symmetries: ModuleType) -> None:
    draws = np.zeros((48, DRAWS), np.float32)
    draws[:, symmetries.WHICH] = (np.arange(48) + 0.5) / 48
    moved, _ = symmetries.Symmetries().apply(np.repeat(VOLUMES[:1], 48, axis=0), np.zeros(48), draws)
    assert {one.tobytes() for one in moved.numpy()} == every_symmetry(VOLUMES[0])
    assert len(every_symmetry(VOLUMES[0])) == symmetries.COUNT == 48
    assert (moved.dtype, moved.shape) == (tf.int16, (48, SIZE, SIZE, SIZE, 2))
    np.testing.assert_array_equal(moved[0], VOLUMES[0])


def test_a_batch_is_moved_volume_by_volume_and_alike_when_it_is_resumed(symmetries: ModuleType) -> None:
    batches = training_batches(VOLUMES, TARGETS, 3, 7, 1, augment=symmetries.Symmetries(), as_pixels=True)
    epochs = [(volumes.numpy(), targets.numpy()) for volumes, targets in batches.take(2)]
    for volumes, targets in epochs:
        assert volumes.dtype == np.int16
        for volume, target in zip(volumes, targets, strict=True):
            assert volume.tobytes() in every_symmetry(VOLUMES[int(target[0])])
    assert len({volume.tobytes() for volumes, _ in epochs for volume in volumes}) > 3, "another one in every epoch"
    resumed = training_batches(
        VOLUMES, TARGETS, 3, 7, 1, first_epoch=1, augment=symmetries.Symmetries(), as_pixels=True
    )
    np.testing.assert_array_equal(next(iter(resumed))[0], epochs[1][0])


def test_the_largest_random_number_has_a_symmetry_too(symmetries: ModuleType) -> None:
    draws = random_numbers(1, 0, 0, 0, 3).numpy()
    draws[:, symmetries.WHICH] = np.nextafter(np.float32(1), np.float32(0))
    moved, _ = symmetries.Symmetries().apply(VOLUMES, TARGETS, draws)
    for volume, original in zip(moved.numpy(), VOLUMES, strict=True):
        assert volume.tobytes() in every_symmetry(original)
