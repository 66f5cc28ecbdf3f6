"""The jobs where a site has another TensorFlow than this checkout: the oldest and the newest that are tried."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.site_environment.environments import CASES, made
from tests.tiers import LONG

AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # as containers run their tests
SITE = """\
title: this machine with another environment
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


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("job", ["cifar", "mnist"] if LONG else ["cifar"])
@pytest.mark.parametrize("which", CASES)
def test_a_job_trains_on_two_ranks_of_another_environment(tmp_path: Path, which: str, job: str) -> None:
    stack = CASES[which]
    site = tmp_path / "site_configs" / f"{which}.yaml"
    site.parent.mkdir()
    site.write_text(SITE.format(venv=made(stack)), encoding="utf-8")
    settings = ["--set", "epochs=1", "--set", "synthetic_samples=512", "--set", "batch_size_per_rank=64"]
    command = [sys.executable, "-m", "hpclaunch", "submit", job, "--site", which, "--tasks-per-node", "2"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HPCLAUNCH_")}
    # Where a test cluster runs beside it, this machine is a head node: whoever means it says so.
    own = {**environment, **AS_ROOT, "HOME": str(tmp_path), "HPCLAUNCH_SITE": which}
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
    assert start["versions"]["tensorflow"] == stack.tensorflow
    assert start["world_size"] == 2
    assert (run / "checkpoints").is_dir()
