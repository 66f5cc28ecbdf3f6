"""Two real ranks read class folders: rank 0 lists, one rank a node copies, each image is read once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group horovod: tensorflow is not installed (the extra `train` brings it)", allow_module_level=True)

from tests.horovod.conftest import PROGRAMS

PROGRAM = PROGRAMS / "read_input.py"


def write_images(folder: Path, count: int = 11) -> None:
    for split in ("train", "test"):
        for number in range(count):
            place = folder / split / f"class{number % 2}"
            place.mkdir(parents=True, exist_ok=True)
            image = np.full((8, 8, 3), number, np.uint8)
            (place / f"{number}.png").write_bytes(tf.io.encode_png(image).numpy())


def test_every_image_is_read_once_from_the_nodes_copy(ranks, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    write_images(tmp_path / "data")
    ended = ranks(PROGRAM, str(tmp_path / "data"), str(tmp_path / "local"))
    assert ended.code == 0, ended.text
    parts = [json.loads((ended.run_dir / f"read-{rank}.json").read_text()) for rank in (0, 1)]
    seen = [round(grey) for part in parts for grey in part["seen"]]
    assert set(seen) == set(range(11)) and len(seen) == 12  # one is padding
    assert parts[0]["steps"] == parts[1]["steps"] == 3
    (copy,) = (tmp_path / "local").iterdir()
    assert {part["path"] for part in parts} == {str(copy / "data")}


def test_a_damaged_image_is_named_once_and_stops_both(ranks, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    write_images(tmp_path / "data")
    (tmp_path / "data" / "train" / "class1" / "5.png").write_bytes(b"\x89PNG")
    ended = ranks(PROGRAM, str(tmp_path / "data"), str(tmp_path / "local"))
    assert ended.code != 0 and len(ended.speakers("not a readable image")) == 1, ended.text
    assert "class1/5.png" in ended.text
