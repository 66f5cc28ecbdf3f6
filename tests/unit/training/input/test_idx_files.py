"""The four idx files of MNIST and Fashion-MNIST: packed or not, damage that is named, none taken for another set."""

from __future__ import annotations

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

import gzip
import os
import pickle
import struct
from pathlib import Path

from hpclaunch.training.input import datasets
from hpclaunch.training.input.source import DataError, ImageSet, Source

CLOTHES = ImageSet("clothes", shape=(3, 2, 1), classes=10, job="one", others=("digits",), fetch="one --set dataset=x")
DIGITS = ImageSet("digits", shape=(3, 2, 1), classes=10, job="one", others=("clothes",))
COUNTS = {"train": 20, "t10k": 10}


def images(count: int) -> bytes:
    """Images whose grey is their number."""
    pixels = np.repeat(np.arange(count, dtype=np.uint8), 6)
    return struct.pack(">4I", 0x803, count, 3, 2) + pixels.tobytes()


def labels(count: int) -> bytes:
    return struct.pack(">2I", 0x801, count) + (np.arange(count) % 10).astype(np.uint8).tobytes()


def write_set(folder: Path, packed: bool = True, separator: str = "-") -> Path:
    folder.mkdir(parents=True)
    for part, count in COUNTS.items():
        for kind, content in (("images", images(count)), ("labels", labels(count))):
            name = f"{part}-{kind}{separator}idx{3 if kind == 'images' else 1}-ubyte"
            (folder / (name + ".gz" if packed else name)).write_bytes(gzip.compress(content) if packed else content)
    return folder


def opened(folder: Path, wanted: ImageSet = CLOTHES) -> Source:
    return datasets.open_dataset(str(folder), wanted)


@pytest.mark.parametrize(("packed", "separator"), [(True, "-"), (False, "-"), (False, ".")])
def test_rows_are_read_in_the_order_asked_for(tmp_path: Path, packed: bool, separator: str) -> None:
    write_set(tmp_path / "clothes", packed, separator)
    source = pickle.loads(pickle.dumps(opened(tmp_path)))
    assert source.layout == "idx" and source.counts == {"train": 20, "test": 10} and len(source.files()) == 4
    found, classes = source.read("train", [13, 2, 19, 2])
    assert found.shape == (4, 3, 2, 1) and found.dtype == np.uint8
    assert found[:, 1, 1, 0].tolist() == [13, 2, 19, 2] and classes.tolist() == [3, 2, 9, 2]
    assert source.read("test", [9])[0].ravel().tolist() == [9] * 6
    assert source.fingerprint == source.fingerprint_here()


def test_other_content_has_another_fingerprint_also_if_only_a_pixel_differs(tmp_path: Path) -> None:
    first = opened(write_set(tmp_path / "a"))
    second = write_set(tmp_path / "b")
    changed = bytearray(images(20))
    changed[-1] ^= 1
    (second / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(bytes(changed)))
    assert opened(second).fingerprint != first.fingerprint


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("train-images-idx3-ubyte.gz", gzip.compress(images(20))[:-30], "truncated, or not an idx file"),
        ("train-images-idx3-ubyte.gz", gzip.compress(images(20)[:-1]), "135 bytes, where its header needs 136"),
        ("train-images-idx3-ubyte.gz", b"nothing", "truncated, or not an idx file"),
        ("train-images-idx3-ubyte.gz", gzip.compress(labels(20)), "its magic number is 0x801, that of images is 0x803"),
        ("train-images-idx3-ubyte.gz", gzip.compress(images(19)), "20 labels for 19 images"),
        ("t10k-labels-idx1-ubyte.gz", gzip.compress(labels(9)), "9 labels for 10 images"),
        ("t10k-labels-idx1-ubyte.gz", gzip.compress(struct.pack(">2I", 0x801, 10) + b"\x0a" * 10), "labels 10..10"),
        ("t10k-labels-idx1-ubyte.gz", gzip.compress(struct.pack(">2I", 0x801, 2**32 - 1)), "samples; at most"),
        ("t10k-images-idx3-ubyte.gz", gzip.compress(struct.pack(">4I", 0x803, 10, 2, 3)), "images of 2 x 3"),
        ("t10k-images-idx3-ubyte.gz", None, "no file t10k-images-idx3-ubyte.gz"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else None,  # packed bytes hold the time
)
def test_what_is_damaged_or_missing_is_named(tmp_path: Path, name: str, content: bytes | None, words: str) -> None:
    path = write_set(tmp_path / "clothes") / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=words) as refused:
        opened(tmp_path)
    assert "next: hpclaunch data fetch one --set dataset=x" in str(refused.value)


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    path = write_set(tmp_path / "clothes") / "t10k-images-idx3-ubyte.gz"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(DataError, match="not a regular file"):
        opened(tmp_path)


def test_images_of_the_same_shape_that_are_something_else_are_not_taken(tmp_path: Path) -> None:
    write_set(tmp_path / "digits")
    rows = {"x": np.zeros((10, 3, 2), np.uint8), "y": np.arange(10)}
    np.savez(tmp_path / "digits.npz", **{f"{name}_{part}": rows[name] for name in rows for part in ("train", "test")})
    for folder in (tmp_path / "digits", tmp_path, tmp_path / "digits.npz"):
        opened(folder, DIGITS)
        with pytest.raises(DataError, match="no data set of a known layout"):
            opened(folder, CLOTHES)
