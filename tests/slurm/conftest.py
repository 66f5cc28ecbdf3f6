"""The real Slurm cluster that the tests in this folder share; they skip where there is no root or no Slurm."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.desk import HPCLAUNCH, Desk, new_desk
from tests.slurm.users import TESTER, as_user

SCRIPT = Path(__file__).resolve().parents[1] / "cluster" / "cluster.py"
TOOLS = ("slurmctld", "slurmd", "sbatch", "munged", "mariadbd", "ip")
SKIP = "group slurm: needs root and Slurm (tests/cluster/cluster.py install)"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running test cluster: its slurm.conf, node names, GPUs and CPUs per node, partitions (default first)."""

    conf: Path
    root: Path
    name: str
    nodes: tuple[str, ...]
    gpus: int
    cpus: int
    partitions: tuple[str, ...]
    accounting: bool


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The cluster, with SLURM_CONF set; stopped at the end only if this session started it."""
    if os.geteuid() != 0 or not all(_installed(tool) for tool in TOOLS):
        pytest.skip(SKIP)
    done = _cluster_py("start", *_options())
    if done.returncode:
        pytest.fail(f"the test cluster did not start:\n{done.stdout}{done.stderr}", pytrace=False)
    running = _describe(done.stdout)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(running.conf))
        yield running
    if "already running" not in done.stdout:
        _cluster_py("stop", "--root", str(running.root))


@pytest.fixture(scope="module", autouse=True)
def ordinary_user(cluster: Cluster) -> Iterator[None]:
    """The test process is an ordinary user while it runs the tests of a file: the cluster alone needs root."""
    with as_user(TESTER):
        if not os.access(HPCLAUNCH, os.X_OK) or not os.access(sys.executable, os.X_OK):
            what = f"the user {TESTER} may not run {HPCLAUNCH} with {Path(sys.executable).resolve()}"
            step = "make .venv with a Python for everybody: rm -r .venv; make setup-dev PYTHON=/usr/bin/python3.11"
            pytest.fail(f"{what}; {step}", pytrace=False)
        yield


@pytest.fixture
def tmp_path(workdir: Path) -> Path:
    """pytest's own belongs to root."""
    return workdir


def _options() -> list[str]:
    """The options of this process's cluster: with ``pytest -n 3`` each process has its own, in a slot of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", default="/var/tmp/hpclaunch-cluster")
    parser.add_argument("--slot", type=int, default=1)
    given, others = parser.parse_known_args(shlex.split(os.environ.get("HPCLAUNCH_TEST_CLUSTER_ARGS", "")))
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    root = f"{given.root}-{number}" if number else given.root
    return [*others, "--root", root, "--slot", str(given.slot + number)]


@pytest.fixture
def workdir(cluster: Cluster, request: pytest.FixtureRequest) -> Path:
    """A fresh directory ROOT/work/TEST-N that all nodes see (their /tmp is private); it is kept after the test."""
    test = re.sub(r"[^A-Za-z0-9_.-]+", "-", request.node.name).strip("-")
    for number in itertools.count(1):
        directory = cluster.root / "work" / f"{test}-{number}"
        try:
            directory.mkdir(parents=True)
        except FileExistsError:
            continue
        return directory
    raise AssertionError("unreachable")


@pytest.fixture(scope="module")
def desk(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Desk]:
    """A person's project folder and home on the cluster, one for each file of tests."""
    desk = new_desk(cluster.root, cluster.conf, request.module.__name__)
    yield desk
    desk.slurm("scancel", f"--user={TESTER}")  # else a job that a failed test has left holds its nodes from all others


def _installed(tool: str) -> bool:
    return shutil.which(tool, path=f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin") is not None


def _cluster_py(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True)


def _describe(summary: str) -> Cluster:
    found = re.search(r"SLURM_CONF=(\S+)", summary)
    assert found, summary
    conf = Path(found[1])
    root = conf.parents[1]
    options = json.loads((root / "cluster.json").read_text(encoding="utf-8"))
    return Cluster(
        conf=conf,
        root=root,
        name=options["cluster_name"],
        nodes=tuple(f"node{number}" for number in range(1, options["nodes"] + 1)),
        gpus=options["gpus"],
        cpus=options["cpus"],
        partitions=(*options["partitions"], *(("preempt",) if options["preempt"] else ())),
        accounting=options["accounting"],
    )
