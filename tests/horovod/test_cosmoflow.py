"""CosmoFlow's volumes: written and read back alike from memory and as a stream, in both layouts; damage is named."""

from __future__ import annotations

import gzip
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

try:
    import numpy as np
    import tensorflow  # noqa: F401
except ImportError:
    pytest.skip("group horovod: tensorflow is not installed (the extra `train` brings it)", allow_module_level=True)

from hpclaunch.training.input import shards
from hpclaunch.training.input.order import RandomOrder
from hpclaunch.training.input.source import DataError, ImageSet
from tests.horovod.conftest import ROOT

SIZE, SAMPLES = 8, 10
WANTED = ImageSet("cosmoflow", shape=(SIZE, SIZE, SIZE, 4), classes=0, job="cosmoflow")


@pytest.fixture(scope="module")
def volumes() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "jobs" / "cosmoflow"))
        import volumes

        yield volumes
    sys.modules.pop("volumes", None)


@pytest.fixture
def folder(volumes: ModuleType, tmp_path: Path) -> Path:
    return Path(volumes.write(str(tmp_path / "cosmoflow"), SAMPLES, SIZE, 1))


def test_what_was_written_is_read_again(volumes: ModuleType, folder: Path) -> None:
    source = volumes.open_volumes(str(folder.parent), WANTED)
    assert source.counts == {"train": SAMPLES, "test": 2}
    cubes, targets = source.read("train", np.array([7, 0]))
    for row, number in enumerate((7, 0)):
        volume, parameters = volumes.made_up(SIZE, shards.stream_seed(1, "volume", "train", number))
        np.testing.assert_array_equal(cubes[row], volume)
        np.testing.assert_array_equal(targets[row], parameters)
    assert (cubes.dtype, targets.dtype, targets.shape) == (np.int16, np.float32, (2, 4))


def test_a_stream_holds_every_volume_once(volumes: ModuleType, folder: Path) -> None:
    source = volumes.open_volumes(str(folder), WANTED)
    expected, _ = source.read("train", np.arange(SAMPLES))
    seen = []
    for rank in range(2):
        shard = source.stream_shard(shards.shuffled(SAMPLES, 1), 1, rank, 2)
        found = source.samples("train", shard, RandomOrder(1, rank, 0), 0, 1)
        seen += [volume.numpy().tobytes() for volume, _ in found]
    assert sorted(seen) == sorted(volume.tobytes() for volume in expected)


def test_mlperfs_folders_are_read_as_well(volumes: ModuleType, folder: Path) -> None:
    other = folder.parent / "other"
    for split in ("train", "validation"):
        (other / split).mkdir(parents=True)
        for number, file in enumerate(sorted(folder.glob(f"{split}-*"))):
            shutil.copy(file, other / split / f"univ_ics_2019-05_a{number}.tfrecord")
    (other / "train" / "readme.txt").write_text("not a record")
    found, same = volumes.open_volumes(str(other), WANTED), volumes.open_volumes(str(folder), WANTED)
    assert found.counts == same.counts
    for one, two in zip(found.read("test", np.arange(2)), same.read("test", np.arange(2)), strict=True):
        np.testing.assert_array_equal(one, two)


def test_what_is_no_volume_is_told(volumes: ModuleType, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        volumes.open_volumes(str(tmp_path / "nowhere"), WANTED)
    larger = ImageSet("cosmoflow", (16, 16, 16, 4), 0, "cosmoflow")
    with pytest.raises(DataError, match=r"not as expected .*16 x 16 x 16 x 4"):
        try:
            volumes.open_volumes(str(folder), larger).read("train", np.arange(1))
        except DataError as error:
            raise DataError(str(error).replace("\n", " ")) from None
    file = folder / "train-00000.tfrecord"
    file.write_bytes(gzip.compress(file.read_bytes()))
    with pytest.raises(DataError, match="compressed with gzip"):
        volumes.open_volumes(str(folder), WANTED)


def test_a_larger_parameter_has_more_particles(volumes: ModuleType) -> None:
    made = [volumes.made_up(32, seed) for seed in range(20)]
    means = np.log([volume.mean(axis=(0, 1, 2)) for volume, _ in made]).ravel()
    targets = np.array([parameters for _, parameters in made]).ravel()
    assert np.corrcoef(means, targets)[0, 1] > 0.9
