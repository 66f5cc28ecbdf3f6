"""Ranks that know nothing of hpclaunch find each other on the real cluster, under every launcher that can start them.

``make test`` has one case of each framework, ``make long`` all of them.
"""

from __future__ import annotations

import itertools
import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.frameworks.environments import jax_environment, need_mpi4py, torch_environment
from tests.slurm.boxes import APPTAINER
from tests.slurm.desk import Desk, Submitted
from tests.slurm.users import as_root
from tests.tiers import LONG

pytestmark = pytest.mark.timeout(1200)
LAUNCHERS = ("srun", "mpirun", "horovodrun", "torchrun")
# horovodrun needs ssh between nodes, which the test cluster does not have.
EIGHT = {name: ("--nodes", "1" if name == "horovodrun" else "2") for name in LAUNCHERS}
EIGHT_ON = {name: (*nodes, "--tasks-per-node", "8" if nodes[1] == "1" else "4") for name, nodes in EIGHT.items()}
SMALL = ("--gpus-per-node", "0", "--cpus-per-task", "1", "--walltime", "20m")
PLACE = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "HERE")

WHO = """#!/bin/bash
HERE=$(uname -n) # bash inherits HOSTNAME from the script
echo {values} > "$HPCLAUNCH_RUN_DIR/place-$RANK"
""".format(values=" ".join(f'"${{{name}}}"' for name in PLACE))
ENDS = """#!/bin/bash
# Rank 1 ends as it is told; rank 0 when it has: without cgroups nobody ends a program that outlives torchrun.
case $RANK-$1 in
  *-0) exit 0 ;;
  1-SEGV) kill -s SEGV $$ ;;
  1-*) exit "$1" ;;
  *) until [ -s "$HPCLAUNCH_EXIT_FILE" ]; do sleep 0.2; done ;;
esac
"""
CODES = {"0": "0", "7": "7", "137": "137", "SEGV": "139"}
DDP = """
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", init_method="env://")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
weights = [torch.zeros(1, 4) for _ in range(dist.get_world_size())]
dist.all_gather(weights, model.module.weight.data)
assert all(torch.equal(one, weights[0]) for one in weights)
# One write each, as the ranks of torchrun share a pipe.
sys.stdout.write(f"ddp rank {dist.get_rank()} of {dist.get_world_size()} local {os.environ['LOCAL_RANK']}\\n")
sys.stdout.flush()
dist.barrier()
# A model that still holds the group would keep Gloo's threads, which may abort the process when Python ends.
del model
dist.destroy_process_group()
"""
JAX = """
import jax
import numpy as np
from jax.experimental.multihost_utils import process_allgather

jax.distributed.initialize()
ranks = process_allgather(np.array([jax.process_index()]))
print(f"jax process {jax.process_index()} of {jax.process_count()} sum {int(ranks.sum())}\\n", end="", flush=True)
"""
MPI = """
from mpi4py import MPI

world = MPI.COMM_WORLD
total = world.allreduce(world.Get_rank())
print(f"mpi rank {world.Get_rank()} of {world.Get_size()} sum {total}\\n", end="", flush=True)
"""


@pytest.fixture(scope="session")
def torch_venv() -> Path:
    with as_root():  # whose checkout this is
        return torch_environment()


@pytest.fixture(scope="session")
def jax_venv() -> Path:
    with as_root():
        return jax_environment()


def write(desk: Desk, name: str, text: str) -> str:
    (desk.folder / name).write_text(text)
    return f"./{name}"


@pytest.fixture(autouse=True)
def no_settings(desk: Desk) -> Iterator[None]:
    yield
    (desk.folder / "hpclaunch.yaml").unlink(missing_ok=True)


def use(desk: Desk, torch_venv: Path) -> None:
    """Let all jobs run in PyTorch's environment, which has torchrun; horovodrun is beside the Python of the tests."""
    more = f'export PATH="$PATH":{shlex.quote(str(Path(sys.executable).parent))}'
    desk.settings(environment={"venv": str(torch_venv), "setup": [more]})


def started(desk: Desk, launcher: str, *arguments: str, after: tuple[str, ...] = ()) -> Submitted:
    return desk.submit(*arguments, *SMALL, "--launcher", launcher, *(("--", *after) if after else ()))


def places(run: Submitted) -> list[dict[str, str]]:
    """What the ranks were told, by rank."""
    files = sorted(run.path.glob("place-*"), key=lambda file: int(file.name.removeprefix("place-")))
    return [dict(zip(PLACE, file.read_text().split(), strict=True)) for file in files]


def test_a_bash_script_learns_its_place_under_every_launcher(desk: Desk, torch_venv: Path) -> None:
    use(desk, torch_venv)
    script = write(desk, "who.sh", WHO)
    runs = {name: started(desk, name, script, *EIGHT_ON[name]) for name in LAUNCHERS}
    desk.wait(*runs.values(), seconds=600)
    for launcher, run in runs.items():
        assert desk.ended(run) == "COMPLETED 0:0", (launcher, run.log())
        told = places(run)
        assert [one["RANK"] for one in told] == [str(rank) for rank in range(8)], (launcher, run.log())
        each = 8 if launcher == "horovodrun" else 4
        for rank, one in enumerate(told):
            own = (one["LOCAL_RANK"], one["NODE_RANK"], one["LOCAL_WORLD_SIZE"], one["WORLD_SIZE"])
            assert own == (str(rank % each), str(rank // each), str(each), "8"), launcher
        assert len({(one["MASTER_ADDR"], one["MASTER_PORT"]) for one in told}) == 1
        assert told[0]["MASTER_ADDR"] == told[0]["HERE"], launcher
        for _, ranks in itertools.groupby(told, key=lambda one: one["NODE_RANK"]):
            assert len({one["HERE"] for one in ranks}) == 1, launcher


def test_the_scripts_exit_code_is_the_ranks_under_every_launcher(desk: Desk, torch_venv: Path) -> None:
    use(desk, torch_venv)
    script = write(desk, "ends.sh", ENDS)
    two = ("--nodes", "1", "--tasks-per-node", "2")
    runs = {(name, typed): started(desk, name, script, *two, after=(typed,)) for name in LAUNCHERS for typed in CODES}
    desk.wait(*runs.values(), seconds=900)
    codes = {
        key: [path.read_text().strip() for path in run.path.glob("attempts/*/exit-code")] for key, run in runs.items()
    }
    assert codes == {(name, typed): [CODES[typed]] for name in LAUNCHERS for typed in CODES}


@pytest.mark.parametrize("launcher", LAUNCHERS if LONG else LAUNCHERS[:1])
def test_an_unedited_example_of_ddp_runs_on_eight_ranks(desk: Desk, torch_venv: Path, launcher: str) -> None:
    use(desk, torch_venv)
    run = started(desk, launcher, write(desk, "example.py", DDP), *EIGHT_ON[launcher])
    desk.wait(run, seconds=600)
    assert desk.ended(run) == "COMPLETED 0:0", run.log()
    for rank in range(8):
        assert f"ddp rank {rank} of 8 local {rank % (8 if launcher == 'horovodrun' else 4)}" in run.log()


def test_doctor_checks_pytorch_and_measures_its_all_reduces(desk: Desk, torch_venv: Path) -> None:
    use(desk, torch_venv)
    asked = ("--nodes", "2", "--tasks-per-node", "1", "--gpus-per-node", "0")
    report = json.loads(desk.run("doctor", "--framework", "pytorch", "--json", *asked, seconds=600).stdout)
    checks = {check["name"]: check["verdict"] for check in report["checks"]}
    assert (checks["PyTorch"], checks["MPI"], checks["all-reduce"]) == ("PASS", "PASS", "PASS"), report
    assert not {"TensorFlow", "Horovod"} & set(checks)
    times = report["all_reduce"]
    assert (times["library"], times["through"], times["nodes"]) == ("torch.distributed", "Gloo", 2)
    assert times["library"] in Path(report["kept"][0]).read_text()


@pytest.mark.parametrize("launcher", ("srun", "mpirun") if LONG else ("mpirun",))
def test_jax_finds_its_processes_by_itself(desk: Desk, jax_venv: Path, launcher: str) -> None:
    desk.settings(environment={"venv": str(jax_venv)})
    run = started(desk, launcher, write(desk, "example.py", JAX), "--nodes", "2", "--tasks-per-node", "2")
    desk.wait(run, seconds=600)
    assert desk.ended(run) == "COMPLETED 0:0", run.log()
    for rank in range(4):
        assert f"jax process {rank} of 4 sum 6" in run.log()


@pytest.mark.parametrize("launcher", ("srun", "mpirun") if LONG else ("srun",))
def test_mpi4py_finds_its_ranks(desk: Desk, launcher: str) -> None:
    desk.settings(environment={"python": need_mpi4py()})
    run = started(desk, launcher, write(desk, "example.py", MPI), "--nodes", "2", "--tasks-per-node", "2")
    desk.wait(run, seconds=600)
    assert desk.ended(run) == "COMPLETED 0:0", run.log()
    for rank in range(4):
        assert f"mpi rank {rank} of 4 sum 6" in run.log()


@pytest.mark.parametrize(("text", "framework"), [(JAX, "jax"), (MPI, "mpi")])
@pytest.mark.parametrize("launcher", ["horovodrun", "torchrun"])
def test_elsewhere_they_are_refused_in_one_sentence(desk: Desk, text: str, framework: str, launcher: str) -> None:
    script, queued = write(desk, "example.py", text), desk.slurm("squeue", "--noheader")
    done = desk.run("submit", script, "--nodes", "1", "--tasks-per-node", "2", *SMALL, "--launcher", launcher)
    assert done.returncode == 1
    # That this Python lacks jax or mpi4py is a reason of its own.
    (line,) = [line for line in done.stderr.splitlines() if launcher in line and line.startswith("error")]
    assert f"{launcher} cannot start ranks of {framework}: " in line
    assert desk.slurm("squeue", "--noheader") == queued


BOXED = """
import os
import sys

sys.stdout.write(f"walls {os.path.exists(sys.argv[1])} {os.environ['PET_RDZV_ENDPOINT']} {os.uname().nodename}\\n")
sys.stdout.flush()
"""
TRAP = """#!/bin/bash
echo 'the torchrun of the host was started' >&2
exit 99
"""


def test_torchrun_of_the_image_starts_inside_on_every_node_and_all_meet(desk: Desk, torch_venv: Path) -> None:
    """The box stands for apptainer, with real walls; torchrun and the ranks are PyTorch's own."""
    image = desk.folder / "torch.image"
    image.write_text(f"{torch_venv}\n")
    setup = [desk.program("apptainer", APPTAINER), desk.program("torchrun", TRAP)]
    desk.site("boxes", container={"runtime": "apptainer"}, environment__setup=setup)
    desk.settings(environment={"container": str(image)})
    script = write(desk, "boxed.py", BOXED + DDP)
    checkout = Path(__file__).resolve().parents[2] / "pyproject.toml"
    place = ("--site", "boxes", "--nodes", "2", "--tasks-per-node", "2")
    run = started(desk, "torchrun", script, *place, "--framework", "pytorch", after=(str(checkout),))
    desk.wait(run, seconds=600)
    assert desk.ended(run) == "COMPLETED 0:0", run.log()
    log = run.log()
    assert [log.count(f"ddp rank {rank} of 4 local {rank % 2}\n") for rank in range(4)] == [1] * 4
    said = [line.split() for line in log.splitlines() if line.startswith("walls ")]
    assert [words[1] for words in said] == ["False"] * 4
    (meeting,) = {words[2] for words in said}
    assert meeting.partition(":")[0] == desk.field(run, "BatchHost")
    assert sorted(words[3] for words in said) == [name for name in ("node1", "node2") for _ in range(2)]


@pytest.mark.parametrize("job", ("ddp", "jax") if LONG else ("ddp",))
def test_a_bundled_job_trains_on_four_hosts(desk: Desk, request: pytest.FixtureRequest, job: str) -> None:
    venv = request.getfixturevalue("torch_venv" if job == "ddp" else "jax_venv")
    desk.settings(environment={"venv": str(venv)})
    few = ("--set", "epochs=2", "--set", "batch_size_per_rank=64", "--set", "synthetic_samples=1280")
    run = started(desk, "srun", job, "--nodes", "4", "--tasks-per-node", "1", "--synthetic", "--recipe", "job", *few)
    desk.wait(run, seconds=600)
    assert desk.ended(run) == "COMPLETED 0:0", run.log()
    (start,) = run.metrics("start")
    assert (start["job"], start["world_size"], start["hosts"]) == (job, 4, ["node1", "node2", "node3", "node4"])
    losses = [line["loss"] for line in run.metrics("epoch")]
    assert losses[-1] < losses[0]
    assert run.metrics("end")[0]["test_samples"] == 320
