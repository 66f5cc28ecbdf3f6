"""Real ranks of PyTorch and JAX on this machine, started by the script itself and by torchrun, find each other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import this_checkout
from tests.frameworks.environments import jax_environment, torch_environment

pytestmark = pytest.mark.timeout(900)
WITH_TORCH = """\
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo", init_method="env://")
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
assert int(os.environ["LOCAL_RANK"]) == dist.get_rank()
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {total.item()}\\n", end="")
"""
WITH_JAX = """\
import os
import jax
import numpy as np
from jax.experimental.multihost_utils import process_allgather

jax.distributed.initialize(num_processes=int(os.environ["WORLD_SIZE"]), process_id=int(os.environ["RANK"]))
total = process_allgather(np.array([jax.process_index() + 1.0])).sum()
print(f"rank {jax.process_index()} of {jax.process_count()}: {total}\\n", end="")
"""


def log_of(folder: Path, environment: Path, program: str, *typed: str) -> list[str]:
    """The lines that two ranks of a program print, in order."""
    (folder / "program.py").write_text(program)
    path = f"{environment}/bin:{os.environ['PATH']}"
    known = {"HOME": str(folder), "PATH": path, "LANG": "C.UTF-8", **this_checkout()}
    command = [sys.executable, "-m", "hpclaunch", "submit", "./program.py", "--site", "local", "--wait"]
    command += ["--python", f"{environment}/bin/python", "--tasks-per-node", "2", *typed]
    done = subprocess.run(command, cwd=folder, env=known, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return sorted(line for line in done.stderr.splitlines() if line.startswith("rank "))


@pytest.mark.parametrize("typed", [(), ("--launcher", "torchrun")], ids=["default", "torchrun"])
def test_ranks_of_pytorch_sum_over_all(tmp_path: Path, typed: tuple[str, ...]) -> None:
    told = log_of(tmp_path, torch_environment(), WITH_TORCH, *typed)
    assert told == ["rank 0 of 2: 3.0", "rank 1 of 2: 3.0"]


def test_ranks_of_jax_sum_over_all(tmp_path: Path) -> None:
    told = log_of(tmp_path, jax_environment(), WITH_JAX)
    assert told == ["rank 0 of 2: 3.0", "rank 1 of 2: 3.0"]


def test_doctor_probes_jax(tmp_path: Path) -> None:
    environment = jax_environment()
    path = f"{environment}/bin:{os.environ['PATH']}"
    known = {"HOME": str(tmp_path), "PATH": path, "LANG": "C.UTF-8", "VIRTUAL_ENV": str(environment), **this_checkout()}
    command = [sys.executable, "-m", "hpclaunch", "doctor", "--local", "--framework", "jax", "--tasks-per-node", "2"]
    done = subprocess.run(
        [*command, "--json"], cwd=tmp_path, env=known, capture_output=True, text=True, timeout=600, check=False
    )
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert (checks["JAX"]["verdict"], checks["MPI"]["verdict"]) == ("PASS", "PASS"), done.stdout + done.stderr
    assert "2 ranks in one job" in checks["MPI"]["what"]
    assert not {"TensorFlow", "Horovod", "PyTorch"} & {*checks}
