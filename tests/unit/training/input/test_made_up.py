"""Made-up data are whole or not there, are written once, and never mix with others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

try:
    import tensorflow as tf
except ImportError:
    pytest.skip("group training: tensorflow is not installed", allow_module_level=True)

from hpclaunch.training.input import made_up
from hpclaunch.training.input.source import DataError, ImageSet
from hpclaunch.training.input.synthetic import Synthetic


def leave(text: str, folder: str) -> None:
    Path(folder, "data").write_text(text)


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_the_same_settings_write_once(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    for text in ("first", "second"):
        found = made_up.written_once(str(folder), (8, 32), lambda fresh, text=text: leave(text, fresh))
        assert found == str(folder)
    assert (folder / "data").read_text() == "first"
    assert names(tmp_path) == ["new"]


def test_other_data_stay_and_are_not_mixed_with(tmp_path: Path) -> None:
    made_up.written_once(str(tmp_path / "new"), (8, 32), lambda fresh: leave("first", fresh))
    with pytest.raises(DataError, match=r"new: holds other data[^\n]*\n  next: name another folder"):
        made_up.written_once(str(tmp_path / "new"), (4, 32), lambda fresh: leave("second", fresh))
    assert (tmp_path / "new" / "data").read_text() == "first"
    assert made_up.place("/run", 8, 32) != made_up.place("/run", 4, 32)


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), tf.errors.ResourceExhaustedError(None, None, "disk full")]
)
def test_what_cannot_be_written_leaves_nothing(tmp_path: Path, error: Exception) -> None:
    def half(fresh: str) -> None:
        leave("half", fresh)
        raise error

    with pytest.raises(DataError, match=r"new: made-up data cannot be written: .*(No space left|disk full)"):
        made_up.written_once(str(tmp_path / "new"), (8,), half)
    assert names(tmp_path) == []


def test_what_a_killed_program_has_left_is_written_anew(tmp_path: Path) -> None:
    (tmp_path / "new.partial").mkdir()
    (tmp_path / "new.partial" / "data-of-before").write_text("half")
    (tmp_path / "new").mkdir()  # an empty folder is one to write to
    made_up.written_once(str(tmp_path / "new"), (8,), lambda fresh: leave("whole", fresh))
    assert names(tmp_path) == ["new"] and names(tmp_path / "new") == [".complete-8", "data"]


def test_stand_ins_of_many_classes_take_little_memory() -> None:
    source = Synthetic(ImageSet("imagenet", (224, 224, 3), 1000, "resnet50"), 8, 1)
    assert sum(array.nbytes for array in vars(source).values() if hasattr(array, "nbytes")) < 100e6
