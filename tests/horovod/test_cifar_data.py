"""Real images on two real ranks: accuracy rises, and every test image counts once."""

from __future__ import annotations

import pytest

from tests.horovod.conftest import ROOT


# On the cluster tests/slurm/test_cifar.py learns from them, too.
@pytest.mark.long_tier
def test_cifar_learns_from_class_folders(ranks, test_data: str) -> None:  # type: ignore[no-untyped-def]
    ended = ranks(
        ROOT / "jobs" / "cifar" / "train.py",
        "--epochs=3",
        "--train-samples=2048",
        "--batch-size-per-rank=64",
        "--export-model=false",
        HPCLAUNCH_DATA_DIR=test_data,
        HPCLAUNCH_WORLD_SIZE="2",
    )
    assert ended.code == 0, ended.text
    (start,), epochs, (end,) = ended.events("start"), ended.events("epoch"), ended.events("end")
    assert start["data"]["layout"] == "class folders" and start["data"]["samples"] == {"train": 50000, "test": 10000}
    assert start["synthetic"] is False
    assert epochs[-1]["accuracy"] > epochs[0]["accuracy"] > 0.12
    assert end["test_samples"] == 10000 and end["test_accuracy"] > 0.15


@pytest.mark.long_tier  # test_jobs.py trains on fewer images
def test_mnist_learns_from_npz(ranks, test_data: str) -> None:  # type: ignore[no-untyped-def]
    ended = ranks(
        ROOT / "jobs" / "mnist" / "train.py",
        "--epochs=1",
        "--train-samples=8192",
        "--batch-size-per-rank=64",
        "--export-model=false",
        HPCLAUNCH_DATA_DIR=test_data,
    )
    assert ended.code == 0, ended.text
    (end,) = ended.events("end")
    assert end["test_samples"] == 10000 and end["test_accuracy"] > 0.85
