"""From a layout to the argv of the program that starts the ranks: a table of small pure functions, and no decision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hpclaunch.spec import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What a launcher needs to know. ``exported`` names variables that mpirun must carry; empty text omits an option.

    ``exit_wait`` is how long (seconds) the other tasks may go on after one has ended; ``hosts_file`` names the hosts
    where no scheduler does.
    """

    layout: Layout
    exported: tuple[str, ...] = ()
    mpi: str = ""
    cpu_bind: str = ""
    gpu_bind: str = ""
    extra: tuple[str, ...] = ()
    exit_wait: int = 60
    hosts_file: str = ""


def direct(launch: Launch) -> tuple[str, ...]:
    """One rank on this machine: no launcher at all."""
    return ()


def srun(launch: Launch) -> tuple[str, ...]:
    """Slurm's own. ``--cpus-per-task`` is always written: from Slurm 22.05 srun ignores sbatch's (srun manual)."""
    layout = launch.layout
    options = [
        f"--nodes={layout.nodes}",
        f"--ntasks={layout.world_size}",
        f"--ntasks-per-node={layout.tasks_per_node}",
        f"--cpus-per-task={layout.cpus_per_task}",
    ]
    if launch.cpu_bind:
        options.append(f"--cpu-bind={launch.cpu_bind}")
    if launch.gpu_bind and layout.gpus_per_node:
        options.append(f"--gpu-bind={launch.gpu_bind}")
    if launch.mpi:
        options.append(f"--mpi={launch.mpi}")
    return ("srun", *options, "--kill-on-bad-exit=1", f"--wait={launch.exit_wait}", *launch.extra)


def mpirun(launch: Launch) -> tuple[str, ...]:
    """Open MPI. ``--bind-to none``: since Open MPI 3 a rank is otherwise pinned to one core (Horovod docs, mpi.rst)."""
    layout = launch.layout
    options = ["-np", str(layout.world_size), "--map-by", f"ppr:{layout.tasks_per_node}:node", "--bind-to", "none"]
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


LAUNCHERS: dict[str, Callable[[Launch], tuple[str, ...]]] = {
    "direct": direct,
    "srun": srun,
    "mpirun": mpirun,
    "horovodrun": horovodrun,
}
