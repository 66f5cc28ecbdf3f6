"""At every production site, under each launcher, set_device(LOCAL_RANK) of PyTorch takes a GPU of the rank's own.

The command of each rank is run as it stands in the script, with what Slurm, its sites' bindings and the launchers give
a task, on a tree like that of a node. The program's torch is a stand-in that sees what a real one would see.
"""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hpclaunch.config.catalog import SITE
from hpclaunch.config.fileformat import Environment
from hpclaunch.config.job import script_job
from hpclaunch.config.site import Container, Site
from hpclaunch.core.errors import Refused
from hpclaunch.core.runtime_rows import RUNTIMES
from hpclaunch.core.spec import JobSpec
from hpclaunch.launchers import LAUNCHERS
from hpclaunch.render import render
from tests.builders import BUNDLED, ROOTS, a_context, a_job, bundled_site, planned, source_library

SITES = [bundled_site(found.name) for found in BUNDLED.names(SITE)]
PRODUCTION = [site.name for site in SITES if site.status == "production" and site.scheduler == "slurm"]
WAYS = ("srun", "torchrun", "mpirun", "ibrun")
NEAREST = {
    "delta": (3, 2, 1, 0),  # NCSA's table of GPUs and cores
    "frontier": (4, 5, 2, 3, 6, 7, 0, 1),  # OLCF's table of GPUs and L3 regions
    "perlmutter": (3, 2, 1, 0),  # NERSC's tutorials
}
"""The GPU beside the cores of local rank 0, 1, 2 …, at sites where it is another than that of its number."""

TORCH = '''
import os


def visible():
    """The devices that a runtime counts: those that can be opened, as its variables leave them."""
    devices = os.environ["STAND_IN_DEVICES"].split()
    is_amd = os.environ["STAND_IN_VENDOR"] == "AMD"
    hip = "HIP_VISIBLE_DEVICES" if "HIP_VISIBLE_DEVICES" in os.environ else "CUDA_VISIBLE_DEVICES"
    for name in ["ROCR_VISIBLE_DEVICES", hip] if is_amd else ["CUDA_VISIBLE_DEVICES"]:
        if name in os.environ:
            kept = []
            for word in os.environ[name].split(","):
                if not word.isdigit() or int(word) >= len(devices):
                    break
                kept.append(devices[int(word)])
            devices = kept
    return devices


class cuda:
    @staticmethod
    def device_count():
        return len(visible())

    @staticmethod
    def set_device(index):
        if index >= len(visible()):
            raise RuntimeError("invalid device ordinal")
        print(os.environ["RANK"], os.environ["NODE_RANK"], os.environ["LOCAL_WORLD_SIZE"], visible()[index])
'''
PROGRAM = 'import os, torch; torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))\n'


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a launcher gives one rank: its variables, and the numbers of the GPUs that a cgroup leaves it."""

    variables: dict[str, str]
    gpus: tuple[int, ...]


def slurm_task(site: Site, spec: JobSpec, task: int, tasks: int, node: int) -> Task:
    """A task of a step, as srun's options and the site's plug-ins make it (srun manual, gres.conf manual)."""
    words = [word for word in spec.launch if word.startswith("--")]
    options = dict(word[2:].partition("=")[::2] for word in words)
    directives = dict(spec.directives)
    known = {"nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "gpus-per-node", "gpus-per-task", "gpu-bind"}
    known |= {"cpu-bind", "mpi", "kill-on-bad-exit", "wait", "hint", "distribution", "network", "container-image"}
    known |= {
        "gres",
        "container-mounts",
        "container-env",
        "container-workdir",
        "nnodes",
        "nproc_per_node",
        "rdzv_backend",
    }
    assert options.keys() | {"no_python"} <= known | {"no_python"}, options
    allocated = tuple(range(spec.layout.gpus_per_node))
    by_task = int(options.get("gpus-per-task", directives.get("gpus-per-task", 0)))
    bind = options.get("gpu-bind", "per_task" if by_task else "")
    if bind == "closest":
        gpus: tuple[int, ...] = (NEAREST.get(site.name, allocated)[task],)
    elif bind == "per_task":
        gpus = allocated[task * by_task : (task + 1) * by_task]
    else:
        assert bind in ("", "none"), bind
        gpus = allocated
    variable = "ROCR_VISIBLE_DEVICES" if is_amd(site, spec) else "CUDA_VISIBLE_DEVICES"
    shown = {} if bind == "none" else {variable: ",".join(str(index) for index in range(len(gpus)))}
    if site.name in ("jupiter", "juwels_booster") and variable not in dict(spec.environment):
        shown = {variable: str(task)}  # psslurm
    place = {"SLURM_PROCID": node * tasks + task, "SLURM_LOCALID": task, "SLURM_NODEID": node}
    return Task(variables={**{name: str(value) for name, value in place.items()}, **shown}, gpus=gpus)


def task_of(site: Site, spec: JobSpec, rank: int) -> Task:
    """What the spec's launcher gives a rank."""
    each = spec.layout.tasks_per_node
    node, local = divmod(rank, each)
    if spec.launcher == "srun":
        return slurm_task(site, spec, local, each, node)
    if spec.launcher == "torchrun":
        step = slurm_task(site, spec, 0, 1, node)
        own = {"RANK": rank, "LOCAL_RANK": local, "GROUP_RANK": node, "LOCAL_WORLD_SIZE": each}
        own["WORLD_SIZE"] = spec.layout.world_size
        return replace(step, variables={**step.variables, **{name: str(value) for name, value in own.items()}})
    # A daemon on every node starts the ranks: on the others than the first it is the only task of a step.
    known = {"mpirun": {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_LOCAL_RANK": local}, "ibrun": {"PMI_RANK": rank}}
    own = {**known[spec.launcher], "SLURM_PROCID": node, "SLURM_LOCALID": 0, "SLURM_NODEID": node}
    variable = "ROCR_VISIBLE_DEVICES" if is_amd(site, spec) else "CUDA_VISIBLE_DEVICES"
    own[variable] = ",".join(map(str, range(spec.layout.gpus_per_node)))
    return Task(
        variables={name: str(value) for name, value in own.items()}, gpus=tuple(range(spec.layout.gpus_per_node))
    )


def is_amd(site: Site, spec: JobSpec) -> bool:
    return "AMD" in (site.node_types[spec.node_type].gpu_model or "")


@functools.cache
def library_functions(rank: str, before: str) -> str:
    """What the script gives the shell of each rank, for its function ``rank``."""
    lines = f"{source_library()}\n{rank}\n{before}\nrank_program"
    return subprocess.run(["bash", "-c", lines], capture_output=True, text=True, check=True).stdout


def node_tree(root: Path, spec: JobSpec, amd: bool, gpus: Sequence[int], memory: Path) -> None:
    """Lay out what a task sees of a node: the drivers' lists of all GPUs, and the device files of its own."""
    for number in range(spec.layout.node_gpus):
        if amd:
            node = root / f"sys/class/kfd/kfd/topology/nodes/{number}"
            node.mkdir(parents=True)
            (node / "properties").write_text(f"simd_count 440\ndrm_render_minor {128 + number}\nunique_id {number}\n")
        else:
            node = root / f"proc/driver/nvidia/gpus/0000:{number + 1:02x}:00.0"
            node.mkdir(parents=True)
            (node / "information").write_text(f"GPU UUID: \t GPU-{number}\nDevice Minor: \t {number}\n")
    for number in gpus:
        device = root / (f"dev/dri/renderD{128 + number}" if amd else f"dev/nvidia{number}")
        device.parent.mkdir(parents=True, exist_ok=True)
        device.touch()
    (root / "dev").mkdir(exist_ok=True)
    memory.mkdir(exist_ok=True)
    (root / "dev/shm").symlink_to(memory)


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What a rank printed: its node, how many ranks it believes to be there, and the number of its device."""

    rank: int
    node: int
    local_size: int
    gpu: int


def run(tmp_path: Path, site: Site, spec: JobSpec) -> list[Taken]:
    """Run every rank of a spec; all are alive until the last has looked at its GPUs, as ranks of one job are."""
    run_dir = Path(spec.run_dir)
    (run_dir / "code").mkdir(parents=True, exist_ok=True)
    (run_dir / "code/torch.py").write_text(TORCH)
    (run_dir / "code/train.py").write_text(PROGRAM)
    (run_dir / "attempts/1.0/ranks").mkdir(parents=True)
    amd, text = is_amd(site, spec), render(spec, ROOTS)
    (rank_function,) = re.findall(r"^rank\(\) \{.*?^\}$", text, re.M | re.S)
    program = library_functions(rank_function, "later= samples=no")
    script = dict(spec.environment) | {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "MASTER_ADDR": "n1",
        "MASTER_PORT": "1",
    }
    script |= {"HPCLAUNCH_RUN_DIR": str(run_dir), "HPCLAUNCH_EXIT_FILE": str(run_dir / "attempts/1.0/first-failure")}
    running = []
    for rank in range(spec.layout.world_size):
        task = task_of(site, spec, rank)
        root = tmp_path / f"rank-{rank}"
        node_tree(root, spec, amd, task.gpus, tmp_path / f"memory-{rank // spec.layout.tasks_per_node}")
        devices = [str(number) for number in task.gpus]
        own = {"STAND_IN_DEVICES": " ".join(devices), "STAND_IN_VENDOR": "AMD" if amd else "NVIDIA"}
        environment = {**script, **task.variables, **own, "HPCLAUNCH_HARDWARE_ROOT": str(root)}
        command = ["bash", "-c", program]
        running.append(
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
    ended = [(process, *process.communicate(timeout=60)) for process in running]
    assert [process.returncode for process, _, _ in ended] == [0] * len(ended), "\n".join(said for _, _, said in ended)
    files = run_dir.glob("logs/rank-*.out")
    printed = [line for _, out, _ in ended for line in out.splitlines()]
    assert printed or list(files)
    fields = [[int(word) for word in line.split()] for line in printed]
    assert not list(tmp_path.glob("memory-*/*")), "marks were left in the memory of a node"
    return [Taken(rank=rank, node=node, local_size=size, gpu=gpu) for rank, node, size, gpu in sorted(fields)]


def ways(site: Site) -> Iterator[tuple[str, int]]:
    offered = site.launchers.options if site.launchers else {}
    for launcher in WAYS:
        row = LAUNCHERS[launcher]
        if launcher in offered or row.started_by.get(site.scheduler) in offered:
            yield from ((launcher, nodes) for nodes in (1, 2))


def spec_of(tmp_path: Path, site: Site, **typed: object) -> JobSpec:
    context = a_context(run_dir=str(tmp_path / "run"), environment={"SCRATCH": "/scratch/ada"})
    site = replace(site, folders=replace(site.folders, node_private=()))  # the runs of this test are in /tmp
    (tmp_path / "bin").mkdir(exist_ok=True)
    job = script_job(_program(tmp_path))
    python = {"python": sys.executable}
    return planned(site, job, context=context, **{"account": "m1", "accept_unverified": True, **python, **typed})


def _program(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(PROGRAM)
    return tmp_path / "train.py"


CASES = [(site, *way) for site in PRODUCTION for way in ways(bundled_site(site))]


def test_every_production_site_is_among_the_cases() -> None:
    assert len(PRODUCTION) >= 23
    assert {site for site, _, _ in CASES} == set(PRODUCTION)
    assert all((site, "torchrun", 2) in CASES for site, launcher, _ in CASES if launcher == "srun")


@pytest.mark.parametrize(("site_name", "launcher", "nodes"), CASES)
def test_every_gpu_is_taken_once_and_by_the_rank_beside_it(
    tmp_path: Path, site_name: str, launcher: str, nodes: int
) -> None:
    site = bundled_site(site_name)
    spec = spec_of(tmp_path, site, nodes=nodes, launcher=launcher, framework="pytorch")
    taken, each = run(tmp_path, site, spec), spec.layout.tasks_per_node
    assert each == spec.layout.gpus_per_node == spec.layout.node_gpus  # as many ranks as the node has GPUs
    nearest = NEAREST.get(site_name, tuple(range(each)))
    expected = [
        Taken(rank=node * each + local, node=node, local_size=each, gpu=nearest[local])
        for node in range(nodes)
        for local in range(each)
    ]
    assert taken == expected


@pytest.mark.parametrize("site_name", [*NEAREST, "lumi", "daint_alps", "jupiter", "juwels_booster", "snellius"])
@pytest.mark.parametrize("launcher", ["srun", "torchrun"])
@pytest.mark.parametrize("framework", ["pytorch", "mpi"])
def test_with_one_gpu_in_view_each_rank_has_its_own_as_number_0(
    tmp_path: Path, site_name: str, launcher: str, framework: str
) -> None:
    if (launcher, framework) == ("torchrun", "mpi"):
        with pytest.raises(Refused, match="torchrun cannot start ranks of mpi"):
            spec_of(tmp_path, bundled_site(site_name), nodes=1, launcher=launcher, framework=framework)
        return
    site = bundled_site(site_name)
    spec = spec_of(tmp_path, site, nodes=1, launcher=launcher, framework=framework, gpu_view="one")
    nearest = NEAREST.get(site_name, tuple(range(spec.layout.gpus_per_node)))
    assert [(one.local_size, one.gpu) for one in run(tmp_path, site, spec)] == [(1, gpu) for gpu in nearest]


@pytest.mark.parametrize(("site_name", "tasks"), [("frontier", 4), ("frontier", 2), ("perlmutter", 2), ("jupiter", 2)])
def test_of_fewer_ranks_than_gpus_each_takes_the_one_beside_its_first_core(
    tmp_path: Path, site_name: str, tasks: int
) -> None:
    site = bundled_site(site_name)
    gpus = site.node_types[site.defaults.node_type].gpus_per_node
    spec = spec_of(tmp_path, site, nodes=1, tasks_per_node=tasks, gpus_per_node=gpus)
    nearest = NEAREST.get(site_name, tuple(range(gpus)))
    assert [one.gpu for one in run(tmp_path, site, spec)] == [nearest[rank * gpus // tasks] for rank in range(tasks)]


@pytest.mark.parametrize("site_name", ["jupiter", "juwels_booster", "lumi", "perlmutter", "snellius"])
def test_in_part_of_a_node_each_rank_has_a_gpu_of_its_own(tmp_path: Path, site_name: str) -> None:
    site = bundled_site(site_name)
    place = {"lumi": {"partition": "small-g"}, "perlmutter": {"qos": "shared"}}.get(site_name, {})
    spec = spec_of(tmp_path, site, nodes=1, tasks_per_node=2, gpus_per_node=2, **place)
    assert [one.gpu for one in run(tmp_path, site, spec)] == [0, 1]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_container_gets_what_tells_a_rank_its_gpus(runtime: str) -> None:
    site = replace(bundled_site("perlmutter"), container=Container(runtime=runtime))
    job = a_job(environment=Environment(container="/images/torch.sif"))
    context = a_context(environment={"SCRATCH": "/scratch/ada"})
    spec = planned(site, job, context=context, account="m1", accept_unverified=True, nodes=1, framework="pytorch")
    assert spec.rank_setup[0] == "export CUDA_VISIBLE_DEVICES=3,2,1,0"
    passed = [word for flag, word in zip(spec.command, spec.command[1:], strict=False) if flag == "--env"]
    if runtime == "podman-hpc":  # which passes no variable by itself
        assert {"LOCAL_*", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"} <= set(passed)
    else:
        assert not any("VISIBLE_DEVICES" in word for word in (*spec.command, *spec.launch))
