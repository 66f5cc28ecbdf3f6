"""Strategies of TensorFlow on real processes: the losses of one process with the same global batch."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable

import pytest

from tests.horovod.conftest import PROGRAMS, ROOT, Ended

REPLICAS = ROOT / "benchmarks" / "comparisons" / "cpu_replicas.py"  # several CPU devices in one process
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
)


@pytest.fixture(scope="module")
def one_process(ranks: Callable[..., Ended]) -> list[float]:
    ended = ranks(PROGRAMS / "one_process.py", *map(str, (RANKS, SAMPLES, BATCH, EPOCHS)), size=0)
    assert ended.code == 0, ended.text
    return list(json.loads(ended.text.strip().splitlines()[-1]))


def free_ports(count: int) -> list[int]:
    """Ports that are free now; all are held until the last is known, so that they differ."""
    held = [socket.create_server(("", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def losses(ended: Ended) -> list[float]:
    assert ended.code == 0, ended.text
    (start,) = ended.events("start")
    assert (start["replicas"], start["global_batch_size"]) == (RANKS, RANKS * BATCH)
    return [line["loss"] for line in ended.events("epoch")]


def test_multiworker_has_the_losses_of_one_process(ranks: Callable[..., Ended], one_process: list[float]) -> None:
    workers = ",".join(f"localhost:{port}" for port in free_ports(RANKS))
    told = {"HPCLAUNCH_WORKERS": workers, "http_proxy": "http://localhost:9"}  # a proxy would let them wait for ever
    ended = ranks(CIFAR, *TRAIN, "--strategy=multiworker", size=RANKS, **told)
    assert losses(ended) == pytest.approx(one_process, rel=1e-5)
    assert "warning: multiworker's ranks communicate over gRPC" in ended.text


@pytest.mark.skipif(not REPLICAS.exists(), reason="group checkout: an sdist holds no benchmarks")
def test_mirrored_has_the_losses_of_one_process(ranks: Callable[..., Ended], one_process: list[float]) -> None:
    ended = ranks(REPLICAS, str(RANKS), str(CIFAR), *TRAIN, "--strategy=mirrored", size=0)
    assert losses(ended) == pytest.approx(one_process, rel=1e-5)


def test_multiworker_that_is_told_of_no_workers_says_so_at_once(ranks: Callable[..., Ended]) -> None:
    ended = ranks(CIFAR, *TRAIN, "--strategy=multiworker", size=RANKS)
    assert ended.code != 0
    assert "HPCLAUNCH_WORKERS='' should be HOST:PORT" in ended.text
