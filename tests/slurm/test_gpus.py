"""On the real cluster: each rank of PyTorch's DDP takes a GPU of its own by LOCAL_RANK, or does not start.

The nodes' GPUs are Slurm's alone (files of Gres). A stand-in of torch.cuda counts what the variables leave of them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.frameworks.environments import torch_environment
from tests.slurm.desk import Desk, until
from tests.slurm.users import as_root
from tests.tiers import LONG

pytestmark = pytest.mark.timeout(1200)
DDP = """
import json
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def visible():
    return os.environ.get("CUDA_VISIBLE_DEVICES", "0,1,2,3").split(",")


def set_device(index):
    if index >= len(visible()):
        raise RuntimeError("CUDA error: invalid device ordinal")
    torch.cuda.own = int(visible()[index])


torch.cuda.set_device = set_device
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))

dist.init_process_group("gloo", init_method="env://")
model = DistributedDataParallel(torch.nn.Linear(4, 1))
model(torch.randn(8, 4)).square().mean().backward()
names = ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "HPCLAUNCH_LOCAL_RANK")
told = {"node": os.uname().nodename, "gpu": torch.cuda.own, **{name: os.environ.get(name) for name in names}}
with open(os.path.join(os.environ["HPCLAUNCH_RUN_DIR"], "gpu-" + os.environ["RANK"]), "w") as file:
    json.dump(told, file)
dist.barrier()
del model
dist.destroy_process_group()
"""
HVD = """
import json
import os

import horovod.tensorflow as hvd

hvd.init()
gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1,2,3").split(",")
told = {"node": os.uname().nodename, "gpu": int(gpus[hvd.local_rank()]), "LOCAL_RANK": os.environ["LOCAL_RANK"]}
with open(os.path.join(os.environ["HPCLAUNCH_RUN_DIR"], "gpu-" + os.environ["RANK"]), "w") as file:
    json.dump(told, file)
hvd.allgather_object(0)
"""
EIGHT = ("--nodes", "2", "--tasks-per-node", "4", "--gpus-per-node", "4", "--cpus-per-task", "1", "--walltime", "20m")


@pytest.fixture
def binding(desk: Desk) -> Desk:
    """A site as Frontier and Daint are: srun repeats --gpus-per-task, and so would show each task one GPU."""
    desk.site("binding", gpus={"directive": "gpus-per-node", "srun": "gpus-per-task"})
    return desk


def told(run_dir: Path) -> list[dict[str, str]]:
    files = sorted(run_dir.glob("gpu-*"), key=lambda file: int(file.name.removeprefix("gpu-")))
    return [json.loads(file.read_text()) for file in files]


@pytest.mark.parametrize("launcher", ("srun", "torchrun", "mpirun") if LONG else ("srun",))
@pytest.mark.parametrize("view", ["all", "one"])
def test_every_rank_of_ddp_takes_a_gpu_of_its_own(binding: Desk, launcher: str, view: str) -> None:
    with as_root():
        venv = torch_environment()
    (binding.folder / "ddp.py").write_text(DDP)
    typed = ("--launcher", launcher, "--venv", str(venv), "--gpu-view", view)
    run = binding.submit("./ddp.py", "--site", "binding", *EIGHT, *typed)
    binding.wait(run, seconds=600)
    assert binding.ended(run) == "COMPLETED 0:0", run.log()
    ranks = told(run.path)
    assert sorted({one["node"] for one in ranks}) == [ranks[0]["node"], ranks[4]["node"]]
    assert [one["gpu"] for one in ranks] == [n % 4 for n in range(8)]
    if view == "all":
        assert [one["LOCAL_RANK"] for one in ranks] == [str(n % 4) for n in range(8)]
        return
    assert [(one["LOCAL_RANK"], one["LOCAL_WORLD_SIZE"]) for one in ranks] == [("0", "1")] * 8
    assert [one["HPCLAUNCH_LOCAL_RANK"] for one in ranks] == [str(n % 4) for n in range(8)]


@pytest.mark.parametrize(
    "gpus", [{"directive": "gpus-per-task"}, {"directive": "gpus-per-node", "srun": "gpus-per-task"}], ids=str
)
def test_two_jobs_of_a_node_see_no_gpu_of_each_other(desk: Desk, gpus: dict[str, str]) -> None:
    # No cgroup closes device files here, so that only the variables hide the GPUs of other jobs.
    desk.site("shared", gpus=gpus)
    script = """#!/bin/bash
        echo "${CUDA_VISIBLE_DEVICES-all} $LOCAL_RANK" > "$HPCLAUNCH_RUN_DIR/gpu-$RANK"
        until [ -e go ]; do sleep 0.2; done
    """
    (desk.folder / "go").unlink(missing_ok=True)
    (desk.folder / "see.sh").write_text(script)
    (desk.folder / "see.sh").chmod(0o755)
    half = ("--nodes", "1", "--tasks-per-node", "2", "--gpus-per-node", "2", "--cpus-per-task", "1")
    place = ("--gpu-view", "all", "--walltime", "5m", "--sbatch", "--nodelist=node3")
    runs = [desk.submit("./see.sh", "--site", "shared", *half, *place) for _ in range(2)]
    for run in runs:
        until(lambda run=run: len(list(run.path.glob("gpu-*"))) == 2, f"the ranks of {run.path}")  # type: ignore[misc]
    (desk.folder / "go").touch()
    desk.wait(*runs)
    seen = [(run.path / f"gpu-{rank}").read_text().split() for run in runs for rank in (0, 1)]
    assert [rank for _, rank in seen] == ["0", "1", "0", "1"]
    assert [gpus for gpus, _ in seen] in (["0,1", "0,1", "2,3", "2,3"], ["2,3", "2,3", "0,1", "0,1"])


@pytest.mark.long_tier
def test_a_rank_of_horovod_takes_the_gpu_of_its_local_rank(binding: Desk) -> None:
    (binding.folder / "hvd.py").write_text(HVD)
    run = binding.submit("./hvd.py", "--site", "binding", *EIGHT, "--launcher", "mpirun", "--python", "current")
    binding.wait(run, seconds=600)
    assert binding.ended(run) == "COMPLETED 0:0", run.log()
    assert [(one["gpu"], one["LOCAL_RANK"]) for one in told(run.path)] == [(n % 4, str(n % 4)) for n in range(8)]


def test_ranks_that_would_not_find_their_gpu_do_not_start_and_one_sentence_says_why(desk: Desk) -> None:
    # As a site's own wrapper does, which hpclaunch cannot read: each rank sees the GPU of its number alone.
    bind = 'eval "export CUDA_VISIBLE""_DEVICES=$SLURM_LOCALID"'
    desk.site("wrapped", node_types__gpu__rank_setup=[bind])
    (desk.folder / "never.sh").write_text("#!/bin/bash\ntouch $HPCLAUNCH_RUN_DIR/started-$RANK\nsleep 5\n")
    one_node = ("--nodes", "1", "--tasks-per-node", "4", "--gpus-per-node", "4", "--cpus-per-task", "1")
    run = desk.submit("./never.sh", "--site", "wrapped", *one_node, "--walltime", "5m")
    desk.wait(run, seconds=300)
    assert desk.ended(run) == "FAILED 78:0", run.log()
    said = [line for line in run.log().splitlines() if "was not started" in line]
    assert len(said) == 1, run.log()
    assert "sees only 1 (CUDA_VISIBLE_DEVICES=" in said[0]
    assert sorted(path.name for path in run.path.glob("started-*")) in ([], ["started-0"])
