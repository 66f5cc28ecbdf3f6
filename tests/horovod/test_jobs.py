"""The jobs without published data on two real ranks, at a small size: shards differ, losses fall."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.horovod.conftest import ROOT, Ended
from tests.tiers import LONG

SMALL = {
    "chips": ("--image-size=96", "--synthetic-samples=24", "--batch-size-per-rank=16", "--epochs=2"),
    # A rate of its own: the default one warms up for four epochs.
    "cosmoflow": (
        "--volume-size=32",
        "--synthetic-samples=17",
        "--batch-size-per-rank=4",
        "--epochs=3",
        "--warmup-epochs=0",
        "--learning-rate=0.01",
    ),
    "resnet50": (
        "--image-size=32",
        "--classes=2",
        "--synthetic-samples=32",
        "--batch-size-per-rank=8",
        "--epochs=3",
        "--warmup-epochs=0",
        "--learning-rate=0.001",
        "--crop=0",
        "--export-model=false",  # files of so many layers take longer than the training
        "--noise-scale=false",
    ),
    "transformer": (
        "--vocabulary=257",
        "--synthetic-samples=256",
        "--context=16",
        "--hidden=32",
        "--layers=1",
        "--batch-size-per-rank=8",
        "--epochs=2",
    ),
}


# test_transformer.py and test_universes.py train those jobs.
JOBS = list(SMALL) if LONG else ["chips"]


@pytest.mark.parametrize("job", JOBS)
def test_a_job_trains(job: str, ranks: Callable[..., Ended]) -> None:
    ended = ranks(ROOT / "jobs" / job / "train.py", "--synthetic=true", *SMALL[job])
    assert ended.code == 0, ended.text
    (start,) = ended.events("start")
    assert (start["job"], start["world_size"]) == (job, 2)
    (told,) = ended.events("shards")
    assert sum(shard["samples"] for shard in told["shards"]) == start["data"]["samples"]["train"]
    assert len({shard["sha256"] for shard in told["shards"]}) == 2
    losses = [line["loss"] for line in ended.events("epoch")]
    assert losses[-1] < losses[0]
    (end,) = ended.events("end")
    if job == "chips":  # its class folders have names, and an epoch ends with its validation
        assert json.loads((ended.run_dir / "model/model.json").read_text())["classes"] == ["Defective", "Non-Defective"]
        assert all("val_accuracy" in line for line in ended.events("epoch"))
    assert end["test_samples"] == start["data"]["samples"]["test"]
