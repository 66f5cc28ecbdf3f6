"""A job on two real ranks reads class folders: one rank a node copies them, each rank streams its own part."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group horovod: tensorflow is not installed (the extra `train` brings it)", allow_module_level=True)

from hpclaunch.training.input import shards
from hpclaunch.training.input.epoch_order import Part, Sampler
from tests.horovod.conftest import PROGRAMS, ROOT

IMAGES = 33
STREAM = ("--input=stream", "--batch-size-per-rank=4")


def write_images(folder: Path, shape: tuple[int, int, int]) -> Path:
    random = np.random.RandomState(3)
    for split in ("train", "test"):
        for number in range(IMAGES):
            place = folder / split / f"class{number % 10}"
            place.mkdir(parents=True, exist_ok=True)
            image = random.randint(0, 256, shape).astype(np.uint8)
            (place / f"{number}.png").write_bytes(tf.io.encode_png(image).numpy())
    return folder


def test_a_job_streams_from_the_nodes_copy_and_augments(ranks, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    data = write_images(tmp_path / "data", (32, 32, 3))
    ended = ranks(
        PROGRAMS / "train_and_hash.py",
        str(ROOT / "jobs" / "cifar"),
        *STREAM,
        "--epochs=2",
        "--train-samples=30",
        "--export-model=false",
        "--stage-to=$NODE_DISK/sets",
        *("--flip-horizontal=true", "--crop=2", "--scale-images=0.1", "--contrast=0.2", "--mixup=0.2", "--cutmix=1"),
        *("--shear=0.1", "--lens-distortion=0.1"),
        *("--optimizer=sgd", "--warmup-epochs=1", "--accumulation=2", "--precision=bfloat16"),
        HPCLAUNCH_DATA_DIR=str(data),
        NODE_DISK=str(tmp_path / "disk"),
    )
    assert ended.code == 0, ended.text
    first, second = [json.loads((ended.run_dir / f"weights-{rank}.json").read_text()) for rank in (0, 1)]
    assert first == second and len(first) > 40
    (start,), (shards,), (end,) = ended.events("start"), ended.events("shards"), ended.events("end")
    (copy,) = (tmp_path / "disk" / "sets").iterdir()
    assert start["data"]["path"] == str(copy / "data") and start["steps_per_epoch"] == 2
    assert [row["samples"] for row in shards["shards"]] == [15, 15]
    assert end["test_samples"] == IMAGES
    assert [epoch["epoch"] for epoch in ended.events("epoch")] == [1, 2]


def test_an_image_damaged_in_training_is_named_once_and_stops_both(ranks, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    data = write_images(tmp_path / "data", (28, 28, 1))
    damaged = data / "train" / "class5" / "15.png"
    damaged.write_bytes(damaged.read_bytes()[:60])
    ended = ranks(ROOT / "jobs" / "mnist" / "train.py", *STREAM, HPCLAUNCH_DATA_DIR=str(data))
    assert ended.code != 0, ended.text
    assert len(ended.speakers("not a readable image")) == len(ended.speakers("error: ")) == 1, ended.text
    assert "train/class5/15.png" in ended.text and "next: hpclaunch data fetch mnist" in ended.text
    assert not ended.speakers("Traceback")
    assert (ended.run_dir / "exit-code").read_text() == "1\n"
    assert not ended.events("end")


@pytest.mark.parametrize("own_loop", [pytest.param("false", marks=pytest.mark.long_tier), "true"])
def test_damage_in_what_another_rank_has_left_is_named(ranks, own_loop: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    data, run_dir = write_images(tmp_path / "data", (28, 28, 1)), tmp_path / "run"
    extra = {"HPCLAUNCH_DATA_DIR": str(data), "HPCLAUNCH_RUN_DIR": str(run_dir)}
    run_dir.mkdir()
    program = PROGRAMS / "damaged_later.py"
    begun = ranks(program, "--stop-after=2", "--seed=1", size=1, **extra)
    assert "the attempt ends here" in begun.text and list((run_dir / "checkpoints").iterdir()), begun.text
    sampler = Sampler(shards.shuffled(IMAGES, 1), 1, 2, 4)
    sampler.resume(0, (Part(1, 8),))
    left = [set(sampler.rest(0, rank).tolist()) for rank in (0, 1)]  # type: ignore[union-attr]
    others = left[1] - left[0] - set(sampler.held(1).indices.tolist())
    files = sorted((data / "train").glob("*/*.png"))
    damaged = files[min(others)]
    damaged.write_bytes(damaged.read_bytes()[:60])
    ended = ranks(program, "--seed=1", f"--own-loop={own_loop}", **extra)
    assert "resuming from" in ended.text and ended.code != 0, ended.text
    assert ended.speakers("not a readable image") == ["1"] and not ended.speakers("Traceback"), ended.text
    assert f"train/{damaged.parent.name}/{damaged.name}" in ended.text
