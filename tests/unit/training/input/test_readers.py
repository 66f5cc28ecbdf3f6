"""The readers: every layout gives the same images; what is missing, damaged or hostile is refused in one message."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

from hpclaunch.training.input import cifar_pickles, datasets
from hpclaunch.training.input.source import DataError, ImageSet
from hpclaunch.training.input.synthetic import Synthetic

CIFAR10 = ImageSet("cifar10", shape=(32, 32, 3), classes=10, job="cifar")
MNIST = ImageSet("mnist", shape=(28, 28, 1), classes=10, job="mnist")


def arrays(wanted: ImageSet, train: int = 40, test: int = 10) -> dict[str, Any]:
    random = np.random.RandomState(0)
    made = {}
    for split, count in (("train", train), ("test", test)):
        made["x_" + split] = random.randint(0, 256, (count,) + wanted.shape).astype(np.uint8)
        made["y_" + split] = np.arange(count) % wanted.classes
    return made


def write_batches(folder: Path, made: dict[str, Any], protocol: int = 2) -> Path:
    """The layout of the original files: five training files and one test file, stored by colour planes."""
    folder.mkdir(parents=True)
    images, labels = np.split(made["x_train"], 5), np.split(made["y_train"], 5)
    parts = [(f"data_batch_{n + 1}", images[n], labels[n]) for n in range(5)]
    for name, x, y in [*parts, ("test_batch", made["x_test"], made["y_test"])]:
        planes = np.ascontiguousarray(x.transpose(0, 3, 1, 2)).reshape(len(x), -1)
        content = {
            "data": planes,
            "labels": [int(label) for label in y],
            "batch_label": "x",
            "filenames": ["a.png"],
        }
        (folder / name).write_bytes(pickle.dumps(content, protocol=protocol))
    return folder


def refused(path: Any, wanted: ImageSet = CIFAR10) -> str:
    """The message with which the data at `path` is refused, whether on opening or on reading."""
    with pytest.raises(DataError) as error:
        source = datasets.open_dataset(str(path), wanted)
        for split, count in source.counts.items():
            source.read(split, np.arange(count))
    text = str(error.value)
    assert f"next: hpclaunch data fetch {wanted.job}" in text and "expected:" in text
    return text


# ---- npz


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("wanted", [CIFAR10, MNIST])
def test_npz_gives_the_rows_asked_for_in_order(tmp_path: Path, wanted: ImageSet, compressed: bool) -> None:
    made = arrays(wanted, train=5000)
    save = np.savez_compressed if compressed else np.savez
    save(tmp_path / f"{wanted.name}.npz", **made)
    source = datasets.open_dataset(str(tmp_path), wanted)
    assert source.counts == {"train": 5000, "test": 10}
    rows = np.array([4999, 0, 17, 17, 2500])
    images, labels = source.read("train", rows)
    assert images.dtype == np.uint8 and (images == made["x_train"][rows]).all()
    assert labels.dtype == np.int64 and (labels == made["y_train"][rows]).all()
    assert source.read("train", np.array([], np.int64))[0].shape == (0,) + wanted.shape


def test_npz_without_a_channel_axis_and_with_labels_in_a_column(tmp_path: Path) -> None:
    made = arrays(MNIST)
    made["x_train"], made["x_test"] = made["x_train"][..., 0], made["x_test"][..., 0]
    made["y_train"] = made["y_train"].reshape(-1, 1).astype(np.uint8)
    path = tmp_path / "mnist" / "mnist.npz"
    path.parent.mkdir()
    np.savez(path, **made)
    for place in (path, path.parent, tmp_path):  # the file, its folder, the folder above
        source = datasets.open_dataset(str(place), MNIST)
        assert source.read("test", np.arange(10))[0].shape == (10, 28, 28, 1)


def spoil(made: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {name: value for name, value in {**made, **changes}.items() if value is not None}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"y_test": None}, "no array y_test"),
        ({"x_train": np.zeros((40, 16, 16, 3), np.uint8)}, r"x_train is uint8 [40, 16, 16, 3]"),
        ({"x_train": np.zeros((40, 32, 32, 3), np.float32)}, "x_train is float32"),
        ({"y_train": np.zeros(39, np.int64)}, "for 40 images"),
        ({"y_train": np.zeros(40, np.float32)}, "y_train is float32"),
        ({"y_train": np.full(40, 10)}, "labels 10..10"),
        ({"y_train": np.full(40, -1)}, "labels -1..-1"),
        ({"x_train": np.zeros((0, 32, 32, 3), np.uint8), "y_train": np.zeros(0, np.int64)}, "0 labels for 0 images"),
        ({"y_train": np.array([{}] * 40, object)}, "Python objects, which are never loaded"),
        ({"x_train": np.asfortranarray(np.zeros((40, 32, 32, 3), np.uint8))}, "stored by columns"),
    ],
)
def test_npz_that_does_not_fit(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    np.savez(tmp_path / "cifar10.npz", **spoil(arrays(CIFAR10), **changes))
    assert said in refused(tmp_path)


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9])
def test_npz_truncated(tmp_path: Path, keep: float) -> None:
    path = tmp_path / "cifar10.npz"
    np.savez(path, **arrays(CIFAR10))
    os.truncate(path, int(path.stat().st_size * keep))
    assert "truncated, or not an npz file" in refused(tmp_path)


def test_npz_with_a_flipped_byte(tmp_path: Path) -> None:
    path = tmp_path / "cifar10.npz"
    np.savez(path, **arrays(CIFAR10))
    content = bytearray(path.read_bytes())
    content[5000] ^= 255
    path.write_bytes(content)
    assert "corrupt" in refused(tmp_path)


# ---- cifar-10-batches-py


@pytest.mark.parametrize("protocol", [2, 4])
def test_pickles_give_the_rows_asked_for_in_order(tmp_path: Path, protocol: int) -> None:
    made = arrays(CIFAR10)
    folder = write_batches(tmp_path / "cifar10" / "cifar-10-batches-py", made, protocol)
    rows = np.array([39, 0, 8, 7, 23])
    for place in (tmp_path, tmp_path / "cifar10", folder):
        source = datasets.open_dataset(str(place), CIFAR10)
        images, labels = source.read("train", rows)
        assert (images == made["x_train"][rows]).all() and (labels == made["y_train"][rows]).all()
        assert (source.read("test", np.arange(10))[0] == made["x_test"]).all()


def test_pickles_of_python_2_are_read(tmp_path: Path) -> None:
    # Python 2's byte strings stand where Python 3 writes text: an array's state as Python 2 wrote it.
    folder = write_batches(tmp_path / "cifar-10-batches-py", arrays(CIFAR10))
    data = b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n"
    data += b"K\x00\x85U\x01b\x87R(K\x01K\x01M\x00\x0c\x86"
    data += b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R("
    data += b"K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T\x00\x0c\x00\x00"
    data += bytes(3072 * [200]) + b"tbU\x06labels]K\x07au."
    (folder / "test_batch").write_bytes(data)
    images, labels = datasets.open_dataset(str(tmp_path), CIFAR10).read("test", np.arange(1))
    assert images.min() == images.max() == 200 and list(labels) == [7]


class Hostile:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.made = (function, arguments)

    def __reduce__(self) -> Any:
        return self.made


@pytest.mark.parametrize(
    "payload",
    [
        Hostile(os.system, "touch HACKED"),
        Hostile(eval, "open('HACKED', 'w')"),
        Hostile(getattr, str, "format"),
        {"data": Hostile(np.load, "x", None, True), "labels": []},
        {"data": Hostile(bytearray, 10), "labels": []},
        {"data": np.array([{}], object), "labels": [1]},
        {"data": np.zeros((1, 3072), np.float64), "labels": [1]},
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_a_hostile_pickle_is_refused_unrun(tmp_path: Path, monkeypatch: Any, payload: Any, protocol: int) -> None:
    monkeypatch.chdir(tmp_path)
    folder = write_batches(tmp_path / "cifar-10-batches-py", arrays(CIFAR10))
    (folder / "data_batch_3").write_bytes(pickle.dumps(payload, protocol=protocol))
    assert "data_batch_3" in refused(tmp_path)
    assert not (tmp_path / "HACKED").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "truncated, or not a CIFAR-10 pickle"),
        (b"\x80\x02garbage", "truncated, or not a CIFAR-10 pickle"),
        (pickle.dumps([1, 2], 2), "no dictionary"),
        (pickle.dumps({"data": None, "labels": []}, 2), "`data` is NoneType"),
        (pickle.dumps({"data": np.zeros((2, 7), np.uint8), "labels": [0, 1]}, 2), "`data` is uint8 [2, 7]"),
        (pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "labels": [0]}, 2), "1 labels for 2 images"),
        (pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "labels": [0, 10]}, 2), "labels 0..10"),
        (pickle.dumps({"data": np.zeros((1, 3072), np.uint8), "labels": ["1"]}, 2), "not a list of whole numbers"),
    ],
    ids=["empty", "garbage", "list", "none", "narrow", "counts", "range", "text"],
)
def test_a_damaged_pickle(tmp_path: Path, content: bytes, said: str) -> None:
    folder = write_batches(tmp_path / "cifar-10-batches-py", arrays(CIFAR10))
    (folder / "data_batch_2").write_bytes(content)
    text = refused(tmp_path)
    assert said in text and "data_batch_2" in text


def test_a_missing_pickle(tmp_path: Path) -> None:
    folder = write_batches(tmp_path / "cifar-10-batches-py", arrays(CIFAR10))
    (folder / "data_batch_4").unlink()
    assert "the file data_batch_4 is missing" in refused(tmp_path)
    assert cifar_pickles.find(CIFAR10, str(tmp_path / "nowhere")) is None


# ---- class folders (what needs no decoding; decoding is tested with TensorFlow in tests/horovod)


def write_folders(folder: Path, classes: int = 10) -> Path:
    for split in ("train", "test"):
        for label in range(classes):
            place = folder / split / f"class{label}"
            place.mkdir(parents=True)
            (place / "0.jpg").write_bytes(b"")
    return folder


def test_class_folders_are_counted_without_opening_an_image(tmp_path: Path) -> None:
    source = datasets.open_dataset(str(write_folders(tmp_path / "cifar10").parent), CIFAR10)
    assert source.counts == {"train": 10, "test": 10}
    before = source.fingerprint
    (tmp_path / "cifar10" / "train" / "class0" / "1.PNG").write_bytes(b"")
    assert datasets.open_dataset(str(tmp_path), CIFAR10).fingerprint != before


def test_class_folders_that_do_not_fit(tmp_path: Path) -> None:
    assert "9 class folders, not 10" in refused(write_folders(tmp_path / "a", classes=9))
    folder = write_folders(tmp_path / "b")
    (folder / "test" / "class0").rename(folder / "test" / "other")
    assert "classes differ" in refused(folder)
    folder = write_folders(tmp_path / "c")
    (folder / "train" / "class3" / "0.jpg").unlink()
    assert "no image" in refused(folder)
    (tmp_path / "d" / "train").mkdir(parents=True)
    assert "0 class folders" in refused(tmp_path / "d")


# ---- nothing there


def test_missing_data(tmp_path: Path) -> None:
    assert "does not exist" in refused(tmp_path / "nowhere")
    assert "contains no data set of a known layout (found: nothing)" in refused(tmp_path)
    (tmp_path / "readme.txt").write_text("x")
    assert "(found: readme.txt)" in refused(tmp_path)
    assert "found: a file" in refused(tmp_path / "readme.txt")
    assert "no data folder was given" in refused("")


# ---- synthetic


def test_synthetic_images_depend_on_seed_and_number_only() -> None:
    one, other = Synthetic(CIFAR10, 100, seed=1), Synthetic(CIFAR10, 100, seed=2)
    assert one.counts == {"train": 100, "test": 25}
    images, labels = one.read("train", np.array([5, 99, 5]))
    assert images.shape == (3, 32, 32, 3) and images.dtype == np.uint8 and list(labels) == [5, 9, 5]
    assert (images[0] == images[2]).all() and (images == one.read("train", np.array([5, 99, 5]))[0]).all()
    assert (images != other.read("train", np.array([5, 99, 5]))[0]).any()
    assert (images[0] != one.read("test", np.array([5]))[0][0]).any()


# ---- limits


def spoiled_batch(folder: Path, content: bytes) -> str:
    batches = write_batches(folder / "cifar-10-batches-py", arrays(CIFAR10))
    (batches / "data_batch_2").write_bytes(content)
    return refused(folder)


def many_arrays(length: int, number: int) -> bytes:
    """A pickle of Python 2 whose arrays all name the same text as their content."""
    text = b"X" + length.to_bytes(4, "little") + b"x" * length + b"q\x01"
    kind = b"cnumpy\ndtype\n(X\x02\x00\x00\x00u1tRq\x02"
    make = b"cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04(h\x04))tq\x05"
    state = b"(K\x01(J" + length.to_bytes(4, "little") + b"th\x02\x89h\x01tq\x06"
    return b"\x80\x02" + text + kind + make + state + b"h\x03h\x05Rh\x06b" * number + b"."


@pytest.mark.parametrize(
    ("content", "said"),
    [
        # The argument of a type is a pair of a pair of a pair: as text it has 2 ** 60 parts.
        (b"\x80\x02cnumpy\ndtype\n(K\x00" + b"".join(b"q%ch%c\x86" % (n, n) for n in range(60)) + b"tR.", "refused"),
        # The same as the key of a dictionary: its hash would never be known.
        (
            b"\x80\x02}K\x00" + b"".join(b"q%ch%c\x86" % (n, n) for n in range(60)) + b"K\x01s.",
            "a key that is not text",
        ),
        (b"\x80\x02}r\xff\xff\xff\x7f.", "labels` is"),  # a memo of 16 GB
        (b"\x80\x04\x8e" + b"\xff" * 7 + b"\x00.", "ends within a value"),  # bytes without an end
        (b"\x80\x02" + b"]" * 2_000_000, "more than 1000000 steps"),
        (b"\x80\x02" + b")" + b"\x85" * 500_000 + b".", "no dictionary"),
        (b"\x80\x02I" + b"9" * 1_000_000 + b"\n.", "which plain values do not need"),
        (b"\x80\x02c" + b"x" * 1_000_000, "a name without an end"),
        (many_arrays(1000, 1), "no dictionary"),
        (many_arrays(1000, 2), "more text to encode than the file contains"),
    ],
    ids=["text", "hash", "memo", "length", "steps", "depth", "digits", "name", "array", "arrays"],
)
def test_a_small_pickle_stays_small(tmp_path: Path, content: bytes, said: str) -> None:
    text = spoiled_batch(tmp_path, content)
    assert said in text or "`data` is" in text
    assert len(text) < 2000


def test_a_pickle_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    batches = write_batches(tmp_path / "cifar-10-batches-py", arrays(CIFAR10))
    os.truncate(batches / "data_batch_2", 6 * 2**30)
    assert "the file is larger than 64 MiB" in refused(tmp_path)


def npz_with(path: Path, name: str, header: bytes, size: int = 0, **archive: Any) -> None:
    """An archive of four good arrays, one of which is replaced by a header and zeros."""
    made = arrays(CIFAR10)
    with zipfile.ZipFile(path, "w", **archive) as target:
        for key, value in made.items():
            with target.open(key + ".npy", "w") as member:
                if key == name:
                    member.write(header + bytes(size))
                else:
                    np.save(member, value)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (
            b"\x93NUMPY\x01\x00"
            b"\x46\x00" + b"{'descr': '|u1', 'fortran_order': False, 'shape': (2000000000,), }".ljust(69) + b"\n",
            "its shape needs",
        ),
        (b"\x93NUMPY\x02\x00" + b"\xff\xff\xff\x7f" + b"(" * 20_000, "the header of y_train has"),
        (b"\x93NUMPY\x01\x00" + b"\x20\x4e" + b"(" * 20_000, "the header of y_train has"),
        (b"\x93NUMPY\x09\x00" + bytes(100), "version (9, 0)"),
        (b"\x93NUMPY\x01\x00" + b"\x10\x27" + b"(" * 10_000, "not an npz file"),
        (b"\x93NUMPY\x01\x00" + b"\x10\x27" + b"-" * 9_999 + b"1", "not an npz file"),
    ],
    ids=["shape", "long", "longer than NumPy allows", "version", "deep", "operators"],
)
def test_an_npz_header_promises_no_more_than_the_file_holds(tmp_path: Path, header: bytes, said: str) -> None:
    npz_with(tmp_path / "cifar10.npz", "y_train", header)
    assert said in refused(tmp_path)


def test_an_npz_of_a_member_that_is_packed_otherwise_is_refused(tmp_path: Path) -> None:
    good = (
        b"\x93NUMPY\x01\x00\x46\x00" + b"{'descr': '|i1', 'fortran_order': False, 'shape': (40,), }".ljust(69) + b"\n"
    )
    npz_with(tmp_path / "cifar10.npz", "y_train", good, 40, compression=zipfile.ZIP_LZMA)
    assert "compressed in a way that NumPy does not use" in refused(tmp_path)
