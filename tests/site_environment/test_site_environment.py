"""The jobs in an environment as an older site has it: Python 3.8, TensorFlow 2.12, Horovod; hpclaunch is not installed.

It takes some minutes to make (Horovod is compiled), and is kept in .cache; CI makes it always.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiers import LONG

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / ".cache" / "site-environment"
PYTHON, TENSORFLOW = "3.8", "tensorflow-cpu==2.12.*"
# With MPI alone, as many sites have it, it compiles in two thirds of the time.
PARTS = ("WITH_TENSORFLOW", "WITH_MPI", "WITHOUT_GLOO", "WITHOUT_PYTORCH", "WITHOUT_MXNET")
HOROVOD = {f"HOROVOD_{name}": "1" for name in PARTS}
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # as containers run their tests
SITE = """\
title: this machine with an older environment
scheduler: local
defaults: {{node_type: workstation}}
node_types:
  workstation: {{title: this machine, cores_per_node: 1}}
launchers:
  default: mpirun
  options: {{mpirun: {{}}}}
environment:
  venv: {venv}
"""


@pytest.fixture(scope="session")
def venv() -> Path:
    """The environment, made by uv on first use."""
    if (KEPT / "complete").is_file():
        return KEPT
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if os.environ.get("CI") != "true" and os.environ.get("HPCLAUNCH_TEST_SITE_ENVIRONMENT") != "1":
        pytest.skip("group site-environment: takes minutes; set HPCLAUNCH_TEST_SITE_ENVIRONMENT=1")
    if not shutil.which("mpicxx"):
        pytest.skip("group site-environment: needs MPI's compiler (mpicxx)")
    if not uv:
        pytest.skip("group site-environment: needs uv (make test installs it)")
    found = subprocess.run([uv, "python", "find", "--no-python-downloads", PYTHON], capture_output=True, text=True)
    if found.returncode:
        pytest.skip(f"group site-environment: Python {PYTHON} is not installed")
    shutil.rmtree(KEPT, ignore_errors=True)
    KEPT.parent.mkdir(exist_ok=True)
    into = [uv, "--no-config", "pip", "install", "--quiet", "--python", str(KEPT / "bin" / "python")]
    steps = [
        [uv, "--no-config", "venv", "--quiet", "--python", found.stdout.strip(), str(KEPT)],
        [*into, TENSORFLOW, "cmake<4", "setuptools<69", "wheel"],
        [*into, "--no-build-isolation", "horovod==0.28.1"],
    ]
    for step in steps:
        done = subprocess.run(step, env={**os.environ, **HOROVOD}, capture_output=True, text=True, cwd=KEPT.parent)
        assert done.returncode == 0, done.stdout + done.stderr
    (KEPT / "complete").touch()
    return KEPT


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("job", ["cifar", "mnist"] if LONG else ["cifar"])
def test_a_job_trains_on_two_ranks_of_an_older_environment(venv: Path, tmp_path: Path, job: str) -> None:
    site = tmp_path / "site_configs" / "older.yaml"
    site.parent.mkdir()
    site.write_text(SITE.format(venv=venv), encoding="utf-8")
    settings = ["--set", "epochs=1", "--set", "synthetic_samples=512", "--set", "batch_size_per_rank=64"]
    command = [sys.executable, "-m", "hpclaunch", "submit", job, "--site", "older", "--tasks-per-node", "2"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HPCLAUNCH_")}
    own = {**environment, **AS_ROOT, "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-m", "hpclaunch", "trust"], cwd=tmp_path, env=own, check=True)
    done = subprocess.run(
        [*command, *settings, "--synthetic", "--wait"],
        cwd=tmp_path,
        env=own,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    run = Path(done.stdout.strip())
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    start, end = events[0], events[-1]
    assert (start["event"], end["event"]) == ("start", "end")
    assert start["versions"]["tensorflow"].startswith("2.12.")
    assert start["world_size"] == 2
    assert (run / "checkpoints").is_dir()
