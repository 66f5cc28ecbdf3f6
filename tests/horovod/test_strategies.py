"""Strategies of TensorFlow on real processes: the losses of one process with the same global batch."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable

import pytest

from tests.horovod.conftest import PROGRAMS, ROOT, Ended

REPLICAS = ROOT / "benchmarks" / "comparisons" / "cpu_replicas.py"  # several CPU devices in one process
WITHOUT = PROGRAMS / "without_horovod.py"
CIFAR = ROOT / "jobs" / "cifar" / "train.py"
RANKS, SAMPLES, BATCH, EPOCHS = 2, 63, 8, 2  # 63: the second rank repeats a sample, and the last batch is smaller
TRAIN = (
    f"--synthetic-samples={SAMPLES}",
    f"--batch-size-per-rank={BATCH}",
    f"--epochs={EPOCHS}",
    "--synthetic=true",
    "--batch-norm=none",
    "--optimizer=sgd",
    "--learning-rate=0.01",
    "--export-model=false",
)


@pytest.fixture(scope="module")
def one_process(ranks: Callable[..., Ended]) -> list[float]:
    return losses_of_one_process(ranks, RANKS, BATCH)


def losses_of_one_process(ranks: Callable[..., Ended], parts: int, batch: int) -> list[float]:
    """The losses of Keras alone, with the batches of so many replicas put together."""
    ended = ranks(PROGRAMS / "one_process.py", *map(str, (parts, SAMPLES, batch, EPOCHS)), size=0)
    assert ended.code == 0, ended.text
    return list(json.loads(ended.text.strip().splitlines()[-1]))


def free_ports(count: int) -> list[int]:
    """Ports that are free now; all are held until the last is known, so that they differ."""
    held = [socket.create_server(("", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def losses(ended: Ended, replicas: int = RANKS) -> list[float]:
    assert ended.code == 0, ended.text
    for start in ended.events("start"):
        assert (start["replicas"], start["global_batch_size"]) == (replicas, RANKS * BATCH)
    return [line["loss"] for line in ended.events("epoch")]


def test_multiworker_without_horovod_has_the_losses_of_one_process(
    ranks: Callable[..., Ended], one_process: list[float]
) -> None:
    workers = ",".join(f"localhost:{port}" for port in free_ports(RANKS))
    told = {"HPCLAUNCH_WORKERS": workers, "http_proxy": "http://localhost:9"}  # a proxy would let them wait for ever
    ended = ranks(WITHOUT, str(CIFAR), *TRAIN, "--strategy=multiworker", size=RANKS, **told)
    assert losses(ended) == pytest.approx(one_process, rel=1e-5)
    assert "warning: multiworker's ranks communicate over gRPC" in ended.text


@pytest.mark.skipif(not REPLICAS.exists(), reason="group checkout: an sdist holds no benchmarks")
def test_mirrored_without_horovod_has_the_losses_of_one_process(
    ranks: Callable[..., Ended], one_process: list[float]
) -> None:
    ended = ranks(WITHOUT, str(REPLICAS), str(RANKS), str(CIFAR), *TRAIN, "--strategy=mirrored", size=0)
    assert losses(ended) == pytest.approx(one_process, rel=1e-5)


@pytest.mark.long_tier
@pytest.mark.skipif(not REPLICAS.exists(), reason="group checkout: an sdist holds no benchmarks")
def test_central_storage_has_the_losses_of_one_process_also_when_it_is_resumed(
    ranks: Callable[..., Ended], one_process: list[float]
) -> None:
    words = (str(RANKS), str(CIFAR), *TRAIN, "--strategy=central-storage")
    first = ranks(REPLICAS, *words, "--epochs=1", size=0)
    again = ranks(REPLICAS, *words, size=0, HPCLAUNCH_RUN_DIR=str(first.run_dir))
    assert again.code == 0, again.text
    assert losses(first) == pytest.approx(one_process, rel=1e-5)
    assert [line["epoch"] for line in first.events("epoch")] == [1, 2]


@pytest.mark.skipif(not REPLICAS.exists(), reason="group checkout: an sdist holds no benchmarks")
def test_one_device_has_the_losses_of_one_process(ranks: Callable[..., Ended]) -> None:
    words = (*TRAIN, f"--batch-size-per-rank={RANKS * BATCH}", "--strategy=one-device")
    ended = ranks(REPLICAS, str(RANKS), str(CIFAR), *words, size=0)  # the other device stays idle
    assert losses(ended, replicas=1) == pytest.approx(losses_of_one_process(ranks, 1, RANKS * BATCH), rel=1e-5)


def test_the_loss_scale_of_float16_acts_and_steps_that_overflow_are_skipped(ranks: Callable[..., Ended]) -> None:
    ended = ranks(PROGRAMS / "loss_scale.py", "mirrored", "one-device", size=0)
    assert ended.code == 0, ended.text
    found = [json.loads(line) for line in ended.text.splitlines() if line.startswith('{"strategy"')]
    assert [(one["strategy"], one["replicas"]) for one in found] == [("mirrored", 2), ("one-device", 1)]
    for one in found:
        assert one["tiny"] == [False, True]  # a gradient that is zero in float16 needs the scale
        halved = one["changed"].index(True)  # steps that overflowed, changed no weight, and halved the scale
        assert halved > 0 and one["changed"] == [False] * halved + [True] * (6 - halved) and one["finite"]
        assert one["scales"] == [2.0 ** (19 - min(step, halved)) for step in range(1, 7)]
        assert one["resumed"] == one["scales"][-1]


def test_multiworker_that_is_told_of_no_workers_says_so_at_once(ranks: Callable[..., Ended]) -> None:
    ended = ranks(CIFAR, *TRAIN, "--strategy=multiworker", size=RANKS)
    assert ended.code != 0
    assert "HPCLAUNCH_WORKERS='' should be HOST:PORT" in ended.text
