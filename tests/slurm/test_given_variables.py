"""What a person gives reaches every rank on the real cluster, as the rank itself prints it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frameworks.environments import torch_environment
from tests.slurm.desk import Desk, Submitted
from tests.slurm.users import as_root

pytestmark = pytest.mark.timeout(600)
LAUNCHERS = ("srun", "mpirun", "torchrun")
TYPED = {
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29871",
    "NCCL_SOCKET_IFNAME": "ib0,eth0",
    "GLOO_SOCKET_IFNAME": "lo",
    "OMP_NUM_THREADS": "3",
    "HOROVOD_FUSION_THRESHOLD": "7",
    "XLA_FLAGS": "--xla_gpu_x=1 --y",
}
SET_UP = {"NCCL_DEBUG": "INFO", "UCX_TLS": "tcp,self", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
NAMES = (*TYPED, *SET_UP)
SHOW = '#!/bin/bash\nfor name in {}; do echo "$name=${{!name-}}"; done > "$HPCLAUNCH_RUN_DIR/given-$RANK"\n'
MEET = """
import os
import sys
import torch.distributed as dist

dist.init_process_group("gloo", init_method="env://")
sys.stdout.write(f"rank {dist.get_rank()} of {dist.get_world_size()} at port {os.environ['MASTER_PORT']}\\n")
sys.stdout.flush()
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def torch_venv() -> Path:
    with as_root():  # whose checkout this is
        return torch_environment()


def write(desk: Desk, name: str, text: str) -> str:
    (desk.folder / name).write_text(text)
    (desk.folder / name).chmod(0o755)
    return f"./{name}"


def given(run: Submitted) -> list[dict[str, str]]:
    """What each rank has printed of the variables, in the order of ranks."""
    files = sorted(run.path.glob("given-*"))
    return [dict(line.split("=", 1) for line in file.read_text().splitlines()) for file in files]


def test_every_launcher_brings_what_was_given_to_every_rank(desk: Desk, torch_venv: Path) -> None:
    program = write(desk, "show.sh", SHOW.format(" ".join(NAMES)))
    desk.settings(environment={"setup": [f"export {name}='{text}'" for name, text in SET_UP.items()]})
    typed = [word for name, text in TYPED.items() for word in ("--env", f"{name}={text}")]
    small = ("--nodes", "2", "--tasks-per-node", "2", "--gpus-per-node", "0", "--venv", str(torch_venv))
    runs = [desk.submit(program, *small, "--launcher", name, *typed, "--framework", "none") for name in LAUNCHERS[:2]]
    runs.append(desk.submit(program, *small, "--launcher", "torchrun", *typed))
    (desk.folder / "hpclaunch.yaml").unlink()
    desk.wait(*runs)
    for run in runs:
        assert given(run) == [TYPED | SET_UP] * 4, run.log()


def test_ranks_of_pytorch_meet_at_an_address_that_was_given(desk: Desk, torch_venv: Path) -> None:
    program = write(desk, "meet.py", MEET)
    one = ("--nodes", "1", "--tasks-per-node", "2", "--gpus-per-node", "0", "--venv", str(torch_venv))
    typed = ("--env", "MASTER_ADDR=localhost", "--framework", "pytorch")
    ports = {name: f"2987{place}" for place, name in enumerate(LAUNCHERS)}
    runs = {
        name: desk.submit(program, *one, *typed, "--env", f"MASTER_PORT={port}", "--launcher", name)
        for name, port in ports.items()
    }
    desk.wait(*runs.values())
    for name, run in runs.items():
        met = [line for line in run.log().splitlines() if line.startswith("rank ")]
        assert sorted(met) == [f"rank {rank} of 2 at port {ports[name]}" for rank in (0, 1)], run.log()


def test_the_gpus_that_were_given_are_those_of_every_rank(desk: Desk) -> None:
    program = write(desk, "gpus.sh", SHOW.format("CUDA_VISIBLE_DEVICES"))
    typed = ("--env", "CUDA_VISIBLE_DEVICES=1,0", "--gpus-per-node", "2", "--tasks-per-node", "2", "--nodes", "2")
    runs = [desk.submit(program, *typed, "--launcher", name, "--framework", "none") for name in LAUNCHERS[:2]]
    desk.wait(*runs)
    assert [given(run) for run in runs] == [[{"CUDA_VISIBLE_DEVICES": "1,0"}] * 4] * 2


def test_what_no_run_can_keep_is_refused_before_anything_is_queued(desk: Desk) -> None:
    for name in ("RANK", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE"):
        launcher = "mpirun" if name.startswith("OMPI") else "srun"
        done = desk.run("submit", "--env", f"{name}=1", "--launcher", launcher, "--nodes", "2", "--", "hostname")
        assert (done.returncode, f"--env {name}: " in done.stderr) == (1, True), done.stderr
