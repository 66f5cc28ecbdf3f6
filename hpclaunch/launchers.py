"""From a layout to the argv of the program that starts the ranks: a table of small pure functions, and no decision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from hpclaunch.core.records import record
from hpclaunch.core.spec import Layout

LauncherName = Literal["direct", "srun", "mpirun", "horovodrun", "ibrun", "torchrun"]


@record
class Launch:
    """What a launcher needs to know. ``exported`` names variables that mpirun must carry; empty text omits an option.

    ``gpus_by`` (``gpus-per-node`` or ``gpus-per-task``): srun asks for the GPUs once more. ``tcp``: MPI keeps to TCP.
    ``exit_wait`` is how long (seconds) the other tasks may go on after one has ended; ``hosts_file`` names the hosts
    where no scheduler does.
    """

    layout: Layout
    exported: tuple[str, ...] = ()
    mpi: str = ""
    cpu_bind: str = ""
    gpu_bind: str = ""
    gpus_by: str = ""
    extra: tuple[str, ...] = ()
    tcp: bool = False
    exit_wait: int = 60
    hosts_file: str = ""


def direct(launch: Launch) -> tuple[str, ...]:
    """One rank on this machine: no launcher at all."""
    return ()


def srun(launch: Launch) -> tuple[str, ...]:
    """Slurm's own. ``--cpus-per-task`` is always written: from Slurm 22.05 srun ignores sbatch's (srun manual)."""
    layout = launch.layout
    return _srun(launch, layout.tasks_per_node, layout.cpus_per_task, launch.cpu_bind, launch.gpu_bind)


def torchrun(launch: Launch) -> tuple[str, ...]:
    """One torchrun on every node, started by srun; each starts the node's ranks (PyTorch's torchrun page).

    The script exports the rendezvous (PET_RDZV_*), because only the job knows its first host. ``--no-python``: the
    rank's command says itself which program it is.
    """
    layout = launch.layout
    step = _srun(launch, 1, layout.tasks_per_node * layout.cpus_per_task, "none", "none" if launch.gpu_bind else "")
    ranks = [f"--nnodes={layout.nodes}", f"--nproc-per-node={layout.tasks_per_node}", "--rdzv-backend=c10d"]
    return (*step, "torchrun", *ranks, "--no-python")


def _srun(launch: Launch, tasks: int, cpus: int, cpu_bind: str, gpu_bind: str) -> tuple[str, ...]:
    """Return srun for so many tasks on every node, each with so many CPUs."""
    layout = launch.layout
    gpus = {"gpus-per-node": layout.gpus_per_node, "gpus-per-task": layout.gpus_per_node // tasks}
    options = [
        f"--nodes={layout.nodes}",
        f"--ntasks={layout.nodes * tasks}",
        f"--ntasks-per-node={tasks}",
        f"--cpus-per-task={cpus}",
    ]
    if launch.gpus_by and layout.gpus_per_node:
        options.append(f"--{launch.gpus_by}={gpus[launch.gpus_by]}")
    if cpu_bind:
        options.append(f"--cpu-bind={cpu_bind}")
    if gpu_bind and layout.gpus_per_node:
        options.append(f"--gpu-bind={gpu_bind}")
    if launch.mpi:
        options.append(f"--mpi={launch.mpi}")
    return ("srun", *options, "--kill-on-bad-exit=1", f"--wait={launch.exit_wait}", *launch.extra)


def mpirun(launch: Launch) -> tuple[str, ...]:
    """Open MPI, with the flags that Horovod documents (mpi.rst).

    ``--bind-to none``: since Open MPI 3 a rank is otherwise pinned to one core. With ``tcp`` NCCL carries the
    tensors and MPI only the control messages (``pml ob1``, no openib).
    """
    layout = launch.layout
    options = ["-np", str(layout.world_size), "--map-by", f"ppr:{layout.tasks_per_node}:node", "--bind-to", "none"]
    if launch.tcp:
        options += ["-mca", "pml", "ob1", "-mca", "btl", "^openib"]
    if launch.hosts_file:
        options += ["--hostfile", launch.hosts_file]
    for name in launch.exported:
        options += ["-x", name]
    return ("mpirun", *options, *launch.extra)


def horovodrun(launch: Launch) -> tuple[str, ...]:
    """Horovod's own, with its Gloo controller: needs no MPI, and ssh to every node but the first."""
    layout = launch.layout
    here = ["-H", f"localhost:{layout.tasks_per_node}"]
    hosts = ["--hostfile", launch.hosts_file] if launch.hosts_file else here
    return ("horovodrun", "--gloo", "-np", str(layout.world_size), *hosts, *launch.extra)


def ibrun(launch: Launch) -> tuple[str, ...]:
    """TACC's: it takes nodes and tasks from the directives, and the network's settings from the system."""
    return ("ibrun", *launch.extra)


LAUNCHERS: dict[str, Callable[[Launch], tuple[str, ...]]] = {
    "direct": direct,
    "srun": srun,
    "mpirun": mpirun,
    "horovodrun": horovodrun,
    "ibrun": ibrun,
    "torchrun": torchrun,
}

_RANK_VARIABLES = {
    "srun": ("SLURM_PROCID",),
    "mpirun": ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"),
    "horovodrun": ("HOROVOD_RANK",),
    # TACC's takes the MPI library that is loaded: Intel's and MPICH, MVAPICH, Open MPI.
    "ibrun": ("PMI_RANK", "MV2_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"),
    "torchrun": ("RANK",),
}


def rank_number(launcher: str) -> str:
    """Return bash's expression for a rank's number, from what its launcher tells it; empty there, empty here.

    Under torchrun SLURM_PROCID is a node's number: so each launcher's own variables, and no others.
    """
    text = ""
    for name in reversed(_RANK_VARIABLES.get(launcher, ())):
        text = f"${{{name}:-{text}}}" if text else f"${{{name}-}}"
    return text


VALUES = {"-np": 1, "--map-by": 1, "--bind-to": 1, "-mca": 2, "--hostfile": 1, "-H": 1, "-x": 1}
"""How many words belong to an option that these launchers write without ``=``."""
