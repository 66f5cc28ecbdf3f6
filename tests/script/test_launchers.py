"""What the rows of launchers write into a script, as bash reads it."""

from __future__ import annotations

import subprocess

import pytest

from hpclaunch.launchers import launcher_row


@pytest.mark.parametrize(
    ("launcher", "told", "number"),
    [
        ("srun", {"SLURM_PROCID": "3"}, "3"),
        ("mpirun", {"OMPI_COMM_WORLD_RANK": "3", "SLURM_PROCID": "0"}, "3"),
        ("mpirun", {"PMI_RANK": "5"}, "5"),
        ("mpirun", {"SLURM_PROCID": "0"}, ""),  # of the node's daemon, not of the rank
        ("local", {"RANK": "6", "SLURM_PROCID": "1"}, "6"),
        ("torchrun", {"RANK": "6", "SLURM_PROCID": "1"}, "6"),
        ("torchrun", {"SLURM_PROCID": "1"}, ""),
        ("horovodrun", {"HOROVOD_RANK": "2"}, "2"),
        ("ibrun", {"MV2_COMM_WORLD_RANK": "4"}, "4"),
        ("ibrun", {"OMPI_COMM_WORLD_RANK": "4"}, "4"),
        ("direct", {"SLURM_PROCID": "0"}, ""),
    ],
)
def test_a_ranks_number_is_what_its_own_launcher_tells_it(launcher: str, told: dict[str, str], number: str) -> None:
    command = ["/bin/bash", "-uc", f"printf %s {launcher_row(launcher).rank_number}"]
    done = subprocess.run(command, env=told, capture_output=True, text=True, check=True)
    assert done.stdout == number
