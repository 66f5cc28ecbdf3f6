"""Real ranks on this machine: `ranks` starts a script under horovodrun and gives back what it said and left."""

from __future__ import annotations

import atexit
import functools
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.training.rank import keras_version  # before any TensorFlow, so that tf.keras is Keras 2 here as well
from tests.tiers import LONG

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
LONGEST_S = 3600 if LONG else 600
"""It only ends what would never end: four ranks of a case of the long tier take ten minutes on two cores."""
GLOORUN = [sys.executable, str(PROGRAMS / "gloorun.py"), "--gloo"]
# More ranks than cores, on cores that others use: a rank that waits lets the others work.
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
# What a surrounding job or a person's shell may have set and these tests, or the library, decide themselves.
OWN = ("HPCLAUNCH_", "HOROVOD_", "OMPI_", "PMI", "SLURM_", "OMP_", keras_version.VARIABLE)


FORKED = Path(__file__).parent / "forked"
READ_LATER = ("HPCLAUNCH_", "HOROVOD_", "OMP_NUM_THREADS", "TF_DETERMINISTIC_OPS")
"""The beginnings of variables that no import reads: a forked rank may have them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(2 * LONGEST_S))


@dataclass(frozen=True)
class Ended:
    """How a launch ended: exit code, what all ranks printed, and the run directory."""

    code: int
    text: str
    run_dir: Path

    def events(self, kind: str) -> list[dict[str, Any]]:
        path = self.run_dir / "metrics.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line for line in lines if line["event"] == kind]

    def speakers(self, message: str) -> list[str]:
        """The ranks whose output holds `message`, as horovodrun labels its lines."""
        return re.findall(r"\[(\d+)\]<std(?:err|out)>:[^\n]*" + re.escape(message), self.text)


def environment(run_dir: Path, extra: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
    own = {"HPCLAUNCH_RUN_DIR": str(run_dir), "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"}
    # Horovod looks for work every 5 ms, not every one: a tenth of what a small run takes of the processor.
    chosen = {**kept, **own, "HOROVOD_CYCLE_TIME": "5", **extra}
    if chosen["HPCLAUNCH_RUN_DIR"] == "":  # a program that is started by hand has none
        del chosen["HPCLAUNCH_RUN_DIR"]
    return chosen


@pytest.fixture(scope="session", autouse=True)
def horovod_is_there() -> None:
    for name in ("tensorflow", "horovod"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"group horovod: {name} is not installed (the extra `train` brings it)")


@functools.cache
def forking_server() -> str:
    """The socket of a process that has TensorFlow and Horovod imported; it ends with this process of the tests."""
    folder = tempfile.mkdtemp(prefix="ranks-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    process = subprocess.Popen(
        [sys.executable, str(FORKED / "server.py"), f"{folder}/socket"],
        env=environment(Path(folder), {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin and process.stdout and process.stdout.readline() == "ready\n"
    atexit.register(process.communicate)  # it ends with its stdin
    return f"{folder}/socket"


def python_of(extra: Mapping[str, str], mpi: bool) -> list[str]:
    """The words before a script: a new interpreter, or where the fast tier may, a forked one."""
    is_usual = all(name.startswith(READ_LATER) for name in extra)
    if LONG or mpi or not is_usual:
        return [sys.executable]
    return [sys.executable, "-I", "-S", str(FORKED / "client.py"), forking_server()]


@pytest.fixture(scope="session")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Ended]:
    def run(script: Path, *arguments: str, size: int = 2, mpi: bool = False, **extra: str) -> Ended:
        run_dir = tmp_path_factory.mktemp(script.stem)
        command = [*python_of(extra, mpi), str(script), *arguments]
        if size:  # 0: no launcher at all
            command = [*(MPIRUN if mpi else GLOORUN), "-np", str(size), *command]
        done = subprocess.run(
            command,
            env=environment(run_dir, {"HPCLAUNCH_EXIT_FILE": str(run_dir / "exit-code"), **extra}),
            cwd=run_dir,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONGEST_S,
        )
        return Ended(done.returncode, done.stdout, run_dir)

    return run


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The option that names 44 houses, of which a program trains on 40."""
    import numpy as np

    path = tmp_path_factory.mktemp("own-data") / "houses.npz"
    random = np.random.RandomState(3)
    features = random.normal(size=(44, 6)).astype("float32")
    np.savez(path, features=features, price=(features @ random.normal(size=6)).astype("float32"))
    return f"--data-dir={path}"


@pytest.fixture(scope="session")
def test_data() -> str:
    found = os.environ.get("HPCLAUNCH_TEST_DATA", "")
    if not found:
        pytest.skip("group cifar10: set HPCLAUNCH_TEST_DATA to the folder that holds cifar10/ and mnist/")
    return found
