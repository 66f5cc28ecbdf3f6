"""Sixteen processes resume one run at once where flock fails: one job is queued.

``HPCLAUNCH_ROUNDS=100 pytest tests/processes/actions/test_resumed_at_once.py`` plays as many rounds as the page on
reliability reports.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes.actions import resume_rounds

ROUNDS = int(os.environ.get("HPCLAUNCH_ROUNDS", "4"))
PROCESSES = 16
SBATCH = """#!/bin/sh
for script; do :; done
while IFS= read -r line; do
  case $line in '#SBATCH --chdir='*) folder=${{line#*=}} ;; esac
done < "$script"
sleep 0.1
echo "$$|$folder" >> {folder}/queued
echo "Submitted batch job $$"
"""


@pytest.mark.timeout(3600)
def test_one_of_sixteen_processes_queues_the_run_where_flock_fails(tmp_path: Path) -> None:
    texts = {"sbatch": SBATCH.format(folder=tmp_path), **dict.fromkeys(("squeue", "sacct", "scontrol", "srun"), ":\n")}
    for name, text in texts.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}")
        program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}/bin:/usr/bin:/bin",
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "SLURM_CONF": str(tmp_path / "slurm.conf"),  # not this machine's own cluster, to which the run does not belong
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    command = [sys.executable, resume_rounds.__file__, str(tmp_path), str(ROUNDS), str(PROCESSES)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rounds = [line.split() for line in done.stdout.splitlines()]
    other = sum(jobs != "1" for jobs, *_ in rounds)
    print(f"{len(rounds)} rounds of {PROCESSES} processes; rounds with other than one job: {other}")
    assert rounds == [["1", "1", str(PROCESSES - 1)]] * ROUNDS
