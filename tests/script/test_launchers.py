"""What the rows of launchers write into a script, as bash reads it."""

from __future__ import annotations

import subprocess

import pytest

from hpclaunch.core.spec import Layout
from hpclaunch.launchers import Launch, launcher_row, torchrun


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


def test_each_nodes_torchrun_is_told_its_address_and_where_all_meet_where_hosts_have_a_suffix() -> None:
    sizes = {"tasks_per_node": 4, "cpus_per_task": 8, "gpus_per_node": 4}
    layout = Layout(nodes=2, **sizes)
    argv = torchrun(Launch(layout=layout, address_suffix="i"))
    shell = argv[argv.index("bash") : argv.index("torchrun")]
    told = []
    for number, given in ((0, {}), (1, {"PET_RDZV_CONF": "join_timeout=9", "PET_LOCAL_ADDR": "n9"})):
        place = {"SLURM_NODEID": str(number), "SLURMD_NODENAME": f"n{number}", "PATH": "/usr/bin:/bin", **given}
        command = [*shell, "sh", "-c", 'echo "$PET_LOCAL_ADDR $PET_RDZV_CONF"']
        told.append(subprocess.run(command, env=place, capture_output=True, text=True, check=True).stdout)
    assert told == ["n0i is_host=1\n", "n9 is_host=0,join_timeout=9\n"]
    plain = (torchrun(Launch(layout=layout)), torchrun(Launch(layout=Layout(nodes=1, **sizes), address_suffix="i")))
    assert not any("bash" in words for words in plain)
