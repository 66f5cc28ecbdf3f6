"""What differs between launchers: one row each, with a small pure function from a layout to its argv; no decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hpclaunch.core.errors import Fault, NotFound, did_you_mean
from hpclaunch.core.records import record

if TYPE_CHECKING:
    from hpclaunch.core.spec import Layout


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
    return _srun(launch, layout.tasks_per_node, layout.cpus_per_task)


def torchrun(launch: Launch) -> tuple[str, ...]:
    """One torchrun on every node, started by srun; each starts the node's ranks (PyTorch's torchrun page).

    The script exports the rendezvous (PET_RDZV_*), because only the job knows its first host. ``--no-python``: the
    rank's command says itself which program it is.
    """
    layout = launch.layout
    unbound = replace(launch, cpu_bind="none", gpu_bind="none" if launch.gpu_bind else "")
    step = _srun(unbound, 1, layout.tasks_per_node * layout.cpus_per_task)
    ranks = [f"--nnodes={layout.nodes}", f"--nproc-per-node={layout.tasks_per_node}", "--rdzv-backend=c10d"]
    return (*step, "torchrun", *ranks, "--no-python")


def _srun(launch: Launch, tasks: int, cpus: int) -> tuple[str, ...]:
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
    if launch.cpu_bind:
        options.append(f"--cpu-bind={launch.cpu_bind}")
    if launch.gpu_bind and layout.gpus_per_node:
        options.append(f"--gpu-bind={launch.gpu_bind}")
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


SIGNALS = ("TERM", "USR1", "USR2")
"""What a script passes on to its ranks."""


@record
class LauncherRow:
    """One launcher: what starts the ranks, and what else differs from launcher to launcher."""

    argv: Callable[[Launch], tuple[str, ...]]
    programs: tuple[str, ...]
    """What must be on PATH where the script runs."""
    rank_variables: tuple[str, ...] = ()
    """What tells a rank its number: the first of these that is set, and no other. Under torchrun, say, SLURM_PROCID is
    the number of a node."""
    signals: tuple[str, ...] = SIGNALS
    """The signals that it passes on to the ranks; others end it."""
    signalled: str = ""
    """Who gets a signal of the script's where all ranks are on its node, in the words of the library: ``group``
    (the processes that it started) or ``ranks`` (each of them); empty: the launcher."""
    starts_one_rank: bool = False
    """It starts one rank, and no more."""
    everywhere: bool = False
    """It works at every site, whether or not the site's file has it."""
    scheduler: str = ""
    """The scheduler without which it cannot start anything."""
    started_by: str = ""
    """The launcher that starts it on every node, whose options in the site file count."""
    is_step: bool = False
    """What it starts is a step of Slurm's: it gets Slurm's signals, and is told the type of MPI (``--mpi``)."""
    ranks_are_tasks: bool = False
    """Each rank is a task of a step: Slurm itself gives it number, CPUs and GPU, and containers by options."""
    places_ranks: bool = False
    """It places ranks by itself: nobody can tell it how many CPUs each has."""
    over_ssh: bool = False
    """It knows nothing of a scheduler's nodes: it needs their names in a file, and ssh to each but the first."""
    command_is_text: bool = False
    """It puts the ranks' command together as text for a shell: the command stands in a file with a plain path."""
    names_variables: bool = False
    """It carries variables to other nodes by name (-x), and complains of one that is not set."""
    has_rendezvous: bool = False
    """Its nodes meet at an address that the script tells them (PET_RDZV_*)."""
    trains_tensorflow: bool = True
    """Its ranks can be Horovod's or those of a strategy of TensorFlow."""
    needs_mpi: bool = False
    """Horovod's ranks find each other by MPI under it."""
    install_hint: str = "install it"
    """What to do where its program is missing on this machine."""

    @property
    def rank_number(self) -> str:
        """Bash's expression for a rank's number, from what its launcher tells it; empty there, empty here."""
        text = ""
        for name in reversed(self.rank_variables):
            text = f"${{{name}:-{text}}}" if text else f"${{{name}-}}"
        return text

    def passed(self, signal: str) -> str:
        """Return what the launcher gets in a signal's place, so that the ranks hear of it: TERM always reaches them."""
        return signal if signal in self.signals else "TERM"


NO_LAUNCHER = "direct"
"""The row for one rank that the script starts by itself."""

LAUNCHERS: Mapping[str, LauncherRow] = {
    NO_LAUNCHER: LauncherRow(argv=direct, programs=(), signalled="group", starts_one_rank=True, everywhere=True),
    "srun": LauncherRow(
        argv=srun,
        programs=("srun",),
        rank_variables=("SLURM_PROCID",),
        scheduler="slurm",
        is_step=True,
        ranks_are_tasks=True,
        needs_mpi=True,
    ),
    "mpirun": LauncherRow(
        argv=mpirun,
        programs=("mpirun",),
        rank_variables=("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"),
        names_variables=True,
        needs_mpi=True,
    ),
    "horovodrun": LauncherRow(
        argv=horovodrun,
        programs=("horovodrun",),
        rank_variables=("HOROVOD_RANK",),
        signals=("TERM",),
        # It sends SIGTERM to the ranks' shells alone, not to the programs in them, and kills both 5 s later
        # (horovod/runner/common/util/safe_shell_exec.py).
        signalled="ranks",
        over_ssh=True,
        install_hint="make setup in a checkout builds Horovod (README)",
    ),
    "ibrun": LauncherRow(
        argv=ibrun,
        programs=("ibrun",),
        # TACC's takes the MPI library that is loaded: Intel's and MPICH, MVAPICH, Open MPI.
        rank_variables=("PMI_RANK", "MV2_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"),
        scheduler="slurm",
        places_ranks=True,
        command_is_text=True,
        needs_mpi=True,
    ),
    "torchrun": LauncherRow(
        argv=torchrun,
        programs=("srun", "torchrun"),
        rank_variables=("RANK",),
        signals=("TERM",),
        scheduler="slurm",
        started_by="srun",
        is_step=True,
        has_rendezvous=True,
        trains_tensorflow=False,
    ),
}


def launcher_row(name: str) -> LauncherRow:
    """Return the launcher of that name. Raises NotFound."""
    if name not in LAUNCHERS:
        what = f"no launcher is called {name!r}{did_you_mean(name, LAUNCHERS)}"
        raise NotFound(Fault(what=what, allowed=", ".join(LAUNCHERS)))
    return LAUNCHERS[name]


VALUES = {"-np": 1, "--map-by": 1, "--bind-to": 1, "-mca": 2, "--hostfile": 1, "-H": 1, "-x": 1}
"""How many words belong to an option that these launchers write without ``=``."""
