"""Packed text as the ranks of the job transformer read it."""

from __future__ import annotations

import pytest

try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group training: tensorflow is not installed", allow_module_level=True)

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hpclaunch.training.input import packed_text as text
from tests.unit.training.input.test_text_packing import Write, packed, tokens_of, write  # noqa: F401


def test_windows_follow_each_other_and_targets_are_the_next_tokens(
    write: Write,  # noqa: F811
    tmp_path: Path,
) -> None:
    folder = tmp_path / "data" / "text"
    texts = {f"n{number}": f"text number {number}" for number in range(30)}
    packed(folder, "--from", str(write(**texts)), "--vocabulary=257")
    source = text.open_text(str(tmp_path / "data"), 8, 257, "transformer")
    tokens = tokens_of(folder / "train.npy")
    assert source.counts["train"] == (len(tokens) - 1) // 8
    every = np.arange(source.counts["train"])
    inputs, targets = source.read("train", every)
    assert inputs.dtype == np.uint16 and inputs.flags.c_contiguous
    assert inputs.ravel().tolist() == tokens[: len(inputs) * 8]
    assert targets.ravel().tolist() == tokens[1 : len(inputs) * 8 + 1]
    again = [source.read("train", own) for own in (every[1::2], every[::2])]
    assert again[0][0].tolist() == inputs[1::2].tolist() and again[1][1].tolist() == targets[::2].tolist()
    assert source.decoded([*b"ab", 256, *b"c", 256 + 1]) == "ab\n\nc"


def test_streamed_windows_are_those_in_memory(tmp_path: Path) -> None:
    from hpclaunch.training.input.shards import Shard

    folder = text.write(str(tmp_path / "made"), 40, 16, 1)
    source = text.open_text(folder, 16, 257, "transformer")
    own = np.array([3, 0, 7, 5])

    def backwards(length: Any, name: Any) -> Any:
        return tf.range(tf.cast(length, tf.int64))[::-1]

    rows = list(source.samples("train", Shard(own, 4), backwards, 1, 1).as_numpy_iterator())
    inputs, targets = source.read("train", own[::-1][1:])
    assert [row.tolist() for row, _ in rows] == inputs.tolist()
    assert [row.tolist() for _, row in rows] == targets.tolist()


@pytest.mark.parametrize(
    ("damage", "context", "size", "message"),
    [
        (lambda folder: None, 8, 256, "has 257 different tokens, and the model has 256 (vocabulary)"),
        (lambda folder: None, 10**6, 257, "is shorter than one sample: a context of 1000000 tokens"),
        (lambda folder: (folder / "tokens.json").unlink(), 8, 257, "no packed text: No such file or directory"),
        (lambda folder: (folder / "tokens.json").write_text("{}"), 8, 257, "is not a record of packed text"),
        (lambda folder: (folder / "test.npy").unlink(), 8, 257, "test.npy: cannot be read"),
        (lambda folder: (folder / "test.npy").write_bytes(b"PK"), 8, 257, "test.npy: cannot be read"),
        (
            lambda folder: (folder / "test.npy").write_bytes((folder / "train.npy").read_bytes()),
            8,
            257,
            "test.npy has another length than tokens.json says",
        ),
    ],
)
def test_data_that_do_not_fit_or_are_damaged_are_named(
    tmp_path: Path, damage: Callable[[Path], object], context: int, size: int, message: str
) -> None:
    from hpclaunch.training.input.source import DataError

    folder = Path(text.write(str(tmp_path / "made"), 40, 16, 1))
    damage(folder)
    with pytest.raises(DataError) as error:
        text.open_text(str(folder), context, size, "transformer")
    assert message in str(error.value) and "hpclaunch data fetch transformer" in str(error.value)
