"""Real CIFAR-10 on the real cluster: Horovod ranks on four hosts, each with its own shard."""

from __future__ import annotations

import importlib.util
import os
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.slurm.desk import Desk, Submitted
from tests.tiers import LONG

TRAINING_IMAGES = 50_000
ON_FOUR_HOSTS = TRAINING_IMAGES if LONG else 4096
RANKS_OF_A_HOST = 2 if LONG else 1
BATCH = () if LONG else ("--set", "batch_size_per_rank=64")  # small steps, enough of them to see the accuracy rise
LONG_S = 1200
pytestmark = pytest.mark.timeout(LONG_S)


@pytest.fixture(scope="module")
def data() -> str:
    if importlib.util.find_spec("horovod") is None:
        pytest.skip("group horovod: needs TensorFlow and Horovod (the extra train)")
    folder = os.environ.get("HPCLAUNCH_TEST_DATA", "")
    if not (Path(folder) / "cifar10").is_dir():
        pytest.skip("group cifar10: set HPCLAUNCH_TEST_DATA to a folder that holds cifar10/")
    return str(Path(folder).resolve())


@dataclass
class PeakMemory:
    """The largest sum of PSS over the processes of a run, in GB, looked at twice a second in a thread."""

    folder: Path
    peak: float = 0.0
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> PeakMemory:
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        mark = f"{self.folder}/runs/".encode()
        while not self._over.wait(0.5):
            self.peak = max(self.peak, sum(pss(process, mark) for process in Path("/proc").glob("[0-9]*")) / 1e9)


def pss(process: Path, mark: bytes) -> int:
    """Bytes, if the process is a rank of ours, else 0."""
    try:
        command = (process / "cmdline").read_bytes()
        if mark not in command or b"train.py" not in command:
            return 0
        lines = (process / "smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def check_training(desk: Desk, run: Submitted, hosts: int, each: int, images: int) -> None:
    """``each`` ranks on every host, shards disjoint and together complete, nothing made up."""
    import numpy as np

    assert desk.ended(run) == "COMPLETED 0:0", run.log()
    (start,) = run.metrics("start")
    assert start["world_size"] == each * hosts
    assert start["hosts"] == ["node1", "node2", "node3", "node4"][:hosts]
    assert start["synthetic"] is False
    (told,) = run.metrics("shards")
    assert [row["rank"] for row in told["shards"]] == list(range(each * hosts))
    assert set(Counter(row["host"] for row in told["shards"]).values()) == {each}
    shards = [np.load(run.path / "shards" / f"rank-{rank:04d}.npy") for rank in range(each * hosts)]
    together = np.concatenate(shards)
    assert len(together) == len(np.unique(together)) == images
    assert [len(shard) for shard in shards] == [row["samples"] for row in told["shards"]]
    if images == TRAINING_IMAGES:
        assert set(together) == set(range(TRAINING_IMAGES))
    assert run.metrics("epoch")[0]["accuracy"] > 0.1
    (end,) = run.metrics("end")
    assert end["test_samples"] == 10_000


def test_cifar_on_four_hosts(desk: Desk, data: str, record_property: Callable[[str, object], None]) -> None:
    """In the long tier on eight ranks, with all its images."""
    command = (
        "submit",
        "cifar",
        "--nodes",
        "4",
        "--tasks-per-node",
        str(RANKS_OF_A_HOST),
        "--data-dir",
        data,
        "--set",
        "epochs=1",
        *BATCH,
        "--wait",
        "--",
        "--record-shards=true",
        f"--train-samples={ON_FOUR_HOSTS}",
    )
    with PeakMemory(desk.folder) as memory:
        done = desk.run(*command, seconds=LONG_S)
    assert done.returncode == 0, done.stderr
    run = desk.newest()
    check_training(desk, run, 4, RANKS_OF_A_HOST, ON_FOUR_HOSTS)
    if LONG:
        assert run.metrics("epoch")[0]["accuracy"] > 0.2  # a mean over 13 steps that began at 0.1
    end = run.metrics("end")[0]
    found = {"peak PSS (GB)": round(memory.peak, 2), "test accuracy": end["test_accuracy"], "seconds": end["seconds"]}
    found["training accuracy"] = [round(line["accuracy"], 4) for line in run.metrics("epoch")]
    print(found)
    record_property("cifar", found)
    assert 1 < memory.peak < 8


SOME = 2048
# Small steps, so that a few thousand images are enough to see the accuracy rise.
TWO_BY_TWO = ("--nodes", "2", "--tasks-per-node", "2")
SMALL = (*TWO_BY_TWO, "--set", "epochs=2", "--set", "batch_size_per_rank=64", "--walltime", "20m")
TAIL = ("--", "--record-shards=true", f"--train-samples={SOME}")


def test_some_of_cifar_under_mpirun_with_the_script_given_to_sbatch_by_hand(desk: Desk, data: str) -> None:
    done = desk.run("render", "cifar", *SMALL, "--data-dir", data, "--launcher", "mpirun", "-o", "by-hand.sh", *TAIL)
    assert done.returncode == 0, done.stderr
    run = Submitted(path=Path(done.stdout.strip()), job_id=desk.slurm("sbatch", "--parsable", "by-hand.sh").strip())
    desk.wait(run, seconds=LONG_S)
    check_training(desk, run, 2, 2, SOME)
    first, last = (line["accuracy"] for line in run.metrics("epoch"))
    assert last > first
