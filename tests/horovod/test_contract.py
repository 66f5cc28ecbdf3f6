"""Two real ranks: the same weights, disjoint shards, a whole log; whatever goes wrong stops both, with one message."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group horovod: numpy is not installed (the extra `train` brings it)", allow_module_level=True)

from tests.horovod.conftest import PROGRAMS, ROOT, Ended
from tests.tiers import LONG

CIFAR = ROOT / "jobs" / "cifar" / "train.py"
MNIST = ROOT / "jobs" / "mnist" / "train.py"
SMALL = ("--synthetic=true", "--synthetic-samples=401", "--batch-size-per-rank=64")


@pytest.fixture(scope="module")
def trained(ranks) -> Ended:  # type: ignore[no-untyped-def]
    ended = ranks(
        PROGRAMS / "train_and_hash.py",
        str(CIFAR.parent),
        *SMALL,
        "--epochs=3",
        "--record-shards=true",
        "--export-model=false",
        "--scale-learning-rate=linear",
        "--warmup-epochs=1",
        HPCLAUNCH_WORLD_SIZE="2",
    )
    assert ended.code == 0, ended.text
    return ended


def test_all_ranks_hold_the_same_weights(trained: Ended) -> None:
    first, second = [json.loads((trained.run_dir / f"weights-{rank}.json").read_text()) for rank in (0, 1)]
    assert first == second and len(first) > 40  # batch norm's statistics too


def test_ranks_compute_with_onednn(trained: Ended) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("group x86_64: elsewhere TensorFlow decides about oneDNN")
    assert [json.loads((trained.run_dir / f"onednn-{rank}.json").read_text()) for rank in (0, 1)] == [True, True]


def test_shards_are_disjoint_and_complete(trained: Ended) -> None:
    parts = [np.load(trained.run_dir / "shards" / f"rank-000{rank}.npy") for rank in (0, 1)]
    assert sorted(np.concatenate(parts)) == list(range(401))
    (event,) = trained.events("shards")
    assert [row["samples"] for row in event["shards"]] == [201, 200]
    assert [row["padding"] for row in event["shards"]] == [0, 1]
    assert [row["sum"] for row in event["shards"]] == [int(part.sum()) for part in parts]
    assert [row["local_rank"] for row in event["shards"]] == [0, 1]


def test_metrics_tell_the_whole_run(trained: Ended) -> None:
    (start,), epochs, (end,) = trained.events("start"), trained.events("epoch"), trained.events("end")
    assert (start["world_size"], start["global_batch_size"], start["steps_per_epoch"]) == (2, 128, 4)
    assert start["options"]["batch_size_per_rank"] == 64 and len(start["hosts"]) == 1
    assert [epoch["epoch"] for epoch in epochs] == [1, 2, 3]
    assert epochs[-1]["accuracy"] > 0.9 > epochs[0]["accuracy"]
    assert all(epoch["images_per_s"] > 0 and epoch["seconds"] > 0 for epoch in epochs)
    assert epochs[-1]["learning_rate"] == pytest.approx(0.002)
    assert end["test_samples"] == 100 and 0 <= end["test_accuracy"] <= 1


def test_synthetic_data_is_said_aloud_and_marked_in_every_line(trained: Ended) -> None:
    lines = [json.loads(line) for line in (trained.run_dir / "metrics.jsonl").read_text().splitlines()]
    assert lines and all(line["synthetic"] is True for line in lines)
    assert trained.speakers("SYNTHETIC DATA") == ["0"]


def test_progress_comes_from_rank_0_alone(trained: Ended) -> None:
    assert trained.speakers("epoch 3/3") == ["0"]
    assert trained.speakers("test accuracy") == ["0"]


def test_the_last_two_checkpoints_stay_with_the_weights_once_and_every_ranks_own(trained: Ended) -> None:
    older, newer = sorted((trained.run_dir / "checkpoints").iterdir())
    facts = json.loads((newer / "checkpoint.json").read_text())
    assert (json.loads((older / "checkpoint.json").read_text())["epoch"], facts["epoch"]) == (2, 3)
    assert sorted(path.name for path in newer.iterdir()) == sorted(
        ["checkpoint.json", "shared.npz", *(f"rank-{rank:04d}.npz" for rank in range(facts["world_size"]))]
    )
    with np.load(newer / "shared.npz") as shared, np.load(newer / "rank-0001.npz") as own:
        assert sum(shared[name].size for name in shared.files if name.startswith(("weight-", "statistic-"))) == 490_378
        assert not [name for name in own.files if name.startswith("statistic-")]  # averaged at the epoch's end
        assert any(name.startswith("optimizer-") for name in shared.files)


def test_a_job_runs_alone(ranks) -> None:  # type: ignore[no-untyped-def]
    ended = ranks(MNIST, *SMALL, "--epochs=1", size=0, HPCLAUNCH_RUN_DIR="")
    assert ended.code == 0, ended.text
    assert (ended.run_dir / "mnist-output" / "metrics.jsonl").exists()


def stops(ended: Ended, message: str, speakers: list[str] | None = None) -> None:
    assert ended.code != 0, ended.text
    assert message in ended.text
    if speakers is not None:
        assert sorted(ended.speakers(message)) == speakers, ended.text
    assert not ended.events("end")


def test_another_world_size_stops_every_rank(ranks) -> None:  # type: ignore[no-untyped-def]
    ended = ranks(MNIST, *SMALL, HPCLAUNCH_WORLD_SIZE="4")
    stops(ended, "the world has 2 ranks, but 4 were requested", ["0"])
    assert (ended.run_dir / "exit-code").read_text() == "1\n"


def test_singletons_stop_and_name_the_mpi_type(ranks) -> None:  # type: ignore[no-untyped-def]
    ended = ranks(MNIST, *SMALL, size=0, HPCLAUNCH_WORLD_SIZE="2")
    stops(ended, "the world has 1 rank, but 2 were requested")
    assert "srun's --mpi type" in ended.text or "built without MPI" in ended.text


def test_missing_data_is_one_message(ranks, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    ended = ranks(CIFAR, f"--data-dir={tmp_path}")
    stops(ended, "contains no data set of a known layout", ["0"])
    assert "hpclaunch data fetch cifar" in ended.text
    assert (ended.run_dir / "exit-code").read_text() == "1\n"


def test_a_promised_gpu_that_is_missing_stops_all(ranks) -> None:  # type: ignore[no-untyped-def]
    stops(ranks(MNIST, *SMALL, HPCLAUNCH_EXPECT_GPU="1"), "the site promises GPUs", ["0"])


def test_a_fault_on_one_rank_is_told_by_rank_0(ranks) -> None:  # type: ignore[no-untyped-def]
    ended = ranks(PROGRAMS / "fail.py", "together")
    stops(ended, "1 of 2 ranks, first rank 1: the disk of this rank is gone", ["0"])


def test_the_code_of_the_first_failing_rank_is_recorded(ranks) -> None:  # type: ignore[no-untyped-def]
    ended = ranks(PROGRAMS / "fail.py", "exit")
    assert ended.code != 0  # and it has ended, though the other rank waits for ever
    assert (ended.run_dir / "exit-code").read_text() == "7\n"


if LONG:  # test_resuming.py sees what it leaves behind, too

    def test_a_loss_that_is_no_number_stops_all(ranks) -> None:  # type: ignore[no-untyped-def]
        ended = ranks(MNIST, *SMALL, "--learning-rate=1e30", "--optimizer=sgd")
        stops(ended, "training has diverged", ["0"])
