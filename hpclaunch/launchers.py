"""The facts about each launcher, one row each, with a pure function from a layout to its argv; it decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from hpclaunch.core.errors import Fault, NotFound, did_you_mean
from hpclaunch.core.records import record
from hpclaunch.core.spec import HOROVOD, JAX, MPI, PYTORCH, TENSORFLOW

if TYPE_CHECKING:
    from hpclaunch.core.spec import Layout


@record
class Launch:
    """The input of a launcher's command line; empty text omits an option.

    ``exported``: names of variables that mpirun passes to all nodes. ``gpus_by``: the option with which srun requests
    the GPUs again (``gpus-per-node``, ``gpus-per-task`` or ``gres``). ``tcp``: MPI communicates over TCP only.
    ``exit_wait``: how long (seconds) the other tasks may continue after one has ended. ``hosts_file``: the list of
    hosts, if the launcher needs one. ``address_suffix``: what a host's name has behind it where it is the address of
    the fast network. ``started_by``: the launcher that starts this one on every node. ``inside``: the words that enter
    the ranks' container, if it starts there. ``further``: the same for the further node types of a heterogeneous job.
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
    address_suffix: str = ""
    started_by: str = ""
    inside: tuple[str, ...] = ()
    further: tuple[Launch, ...] = ()


def direct(launch: Launch) -> tuple[str, ...]:
    """Return nothing: the script itself starts the only rank, on this machine."""
    return ()


def srun(launch: Launch) -> tuple[str, ...]:
    """Return the command of Slurm's launcher; the components of a heterogeneous job form one step, joined by colons.

    ``--cpus-per-task`` is always written: since Slurm 22.05 srun ignores that of sbatch (srun manual).
    """
    all_options = [_options_of_srun(one) for one in (launch, *launch.further)]
    if not launch.further:
        return ("srun", *all_options[0])
    words = ["srun"]
    for number, options in enumerate(all_options):
        words += [*([":"] if number else []), f"--het-group={number}", *options]
    return tuple(words)


def _options_of_srun(launch: Launch) -> tuple[str, ...]:
    return _srun(launch, launch.layout.tasks_per_node, launch.layout.cpus_per_task)[1:]


TORCHRUN = "torchrun"
"""The launcher of PyTorch, which most of its programs are started with."""


def torchrun(launch: Launch) -> tuple[str, ...]:
    """Return one torchrun per node, started by srun or local, which starts the ranks of its node (its own page).

    The script exports the address of the rendezvous (PET_RDZV_*), because only the job knows its first host.
    ``--no_python``: the rank's command contains its own program. Its options have
    underscores, which PyTorch 1 needs and 2 accepts.
    """
    layout = launch.layout
    if launch.started_by == "local":
        step = local(replace(launch, layout=replace(layout, tasks_per_node=1)))
    else:
        unbound = replace(launch, cpu_bind="none", gpu_bind="none" if launch.gpu_bind else "")
        step = _srun(unbound, 1, layout.tasks_per_node * layout.cpus_per_task)
    ranks = [f"--nnodes={layout.nodes}", f"--nproc_per_node={layout.tasks_per_node}", "--rdzv_backend=c10d"]
    shell = _told_its_address(launch.address_suffix) if launch.address_suffix and layout.nodes > 1 else ()
    return (*step, *shell, *launch.inside, "torchrun", *ranks, "--no_python")


def _told_its_address(suffix: str) -> tuple[str, ...]:
    """Return the shell that tells each node's torchrun its address, and whether it is the one where all meet.

    torchrun compares the host of the rendezvous with the host's own name, which is another name than that of the fast
    network, and names its own host to the ranks (PyTorch 2). JSC's torchrun_jsc changes both in PyTorch's code.
    """
    address = f'export PET_LOCAL_ADDR="${{PET_LOCAL_ADDR:-${{SLURMD_NODENAME}}{suffix}}}"'
    is_host = 'export PET_RDZV_CONF="is_host=$((SLURM_NODEID == 0))${PET_RDZV_CONF:+,$PET_RDZV_CONF}"'
    return ("bash", "-c", f'{address}; {is_host}; exec "$@"', "bash")


def _srun(launch: Launch, tasks: int, cpus: int) -> tuple[str, ...]:
    """Return srun with ``tasks`` tasks per node and ``cpus`` CPUs per task."""
    layout = launch.layout
    gpus = {
        "gpus-per-node": layout.gpus_per_node,
        "gpus-per-task": layout.gpus_per_node // tasks,
        "gres": f"gpu:{layout.gpus_per_node}",
    }
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
    """Return the command of Open MPI, with the flags that Horovod documents (mpi.rst).

    ``--bind-to none``: since Open MPI 3 a rank is otherwise bound to one core. With ``tcp`` NCCL transfers the
    tensors, and MPI only the control messages (``pml ob1``, no openib).
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


def local(launch: Launch) -> tuple[str, ...]:
    """Return the call of the script's own library, which starts the ranks itself: here, or over ssh on listed hosts."""
    nodes, tasks = str(launch.layout.nodes), str(launch.layout.tasks_per_node)
    call = ("spawn_over_ssh", nodes, tasks, launch.hosts_file) if launch.hosts_file else ("spawn_ranks", tasks)
    return (*call, *launch.extra)


def horovodrun(launch: Launch) -> tuple[str, ...]:
    """Return the command of Horovod with its Gloo controller: it needs no MPI, but ssh to all nodes but the first."""
    layout = launch.layout
    here = ["-H", f"localhost:{layout.tasks_per_node}"]
    hosts = ["--hostfile", launch.hosts_file] if launch.hosts_file else here
    return ("horovodrun", "--gloo", "-np", str(layout.world_size), *hosts, *launch.extra)


def ibrun(launch: Launch) -> tuple[str, ...]:
    """Return the command of TACC's launcher, which reads nodes and tasks from the directives."""
    return ("ibrun", *launch.extra)


@record
class MpiOption:
    """A launcher's option for the type of MPI through which the ranks find each other."""

    option: str
    listing: str
    """The command that lists the types."""
    advice: str
    """The type to try first."""
    key: str
    """The key of the site file that sets the type."""
    variable: str
    """The variable of a rank with the type."""
    refusal: str
    """A regular expression for the log line with which the launcher refuses a type."""


_MPI_OF_SRUN = MpiOption(
    option="--mpi=",
    listing="srun --mpi=list",
    advice="Open MPI uses pmix",
    key="mpi under launchers.options.srun",
    variable="SLURM_MPI_TYPE",
    refusal=r"error: .*(mpi/\w|MPI (plugin|type))",
)

_NO_PLACE_FOR_JAX = "jax.distributed.initialize() learns its place only from Slurm's srun and Open MPI's mpirun"
_EXPLICIT_PLACE_FOR_JAX = (
    "jax.distributed.initialize() needs num_processes=int(os.environ['WORLD_SIZE']) and "
    "process_id=int(os.environ['RANK']); without these start it by --launcher mpirun"
)
_NO_PLACE_FOR_TENSORFLOW = "neither Horovod nor a strategy of TensorFlow learns its place from it"
_NO_PLACE_FOR_HOROVOD = "Horovod learns its place only from horovodrun, and from MPI"
_NO_MPI = "it starts them without MPI, so that each would run as a separate job of one rank"

_READ_BY_SRUN = {
    "SLURM_ACCTG_FREQ": "--acctg-freq",
    "SLURM_BCAST": "--bcast",
    "SLURM_CLUSTER_CONSTRAINT": "--cluster-constraint",
    "SLURM_COMPRESS": "--compress",
    "SLURM_CPU_BIND": "--cpu-bind",
    "SLURM_CPU_FREQ_REQ": "--cpu-freq",
    "SLURM_DEBUG": "--verbose",
    "SLURM_DISTRIBUTION": "--distribution",
    "SLURM_EPILOG": "--epilog",
    "SLURM_EXACT": "--exact",
    "SLURM_GPU_BIND": "--gpu-bind",
    "SLURM_GPU_FREQ": "--gpu-freq",
    "SLURM_HINT": "--hint",
    "SLURM_KILL_BAD_EXIT": "--kill-on-bad-exit",
    "SLURM_LABELIO": "--label",
    "SLURM_MEM_BIND": "--mem-bind",
    "SLURM_MPI_TYPE": "--mpi",
    "SLURM_NETWORK": "--network",
    "SLURM_OVERLAP": "--overlap",
    "SLURM_PROFILE": "--profile",
    "SLURM_PROLOG": "--prolog",
    "SLURM_TASK_EPILOG": "--task-epilog",
    "SLURM_TASK_PROLOG": "--task-prolog",
    "SLURM_UNBUFFEREDIO": "--unbuffered",
    "SLURM_WAIT": "--wait",
    "SRUN_CPUS_PER_TASK": "--cpus-per-task",
}
"""srun(1) of Slurm 22.05 to 25.05, "INPUT ENVIRONMENT VARIABLES", without those that Slurm sets in a job."""
_READ_BY_MPIRUN = {
    "OMPI_MCA_hwloc_base_binding_policy": "--bind-to",
    "OMPI_MCA_orte_default_hostfile": "--hostfile",
    "OMPI_MCA_rmaps_base_mapping_policy": "--map-by",
    "PRTE_MCA_hwloc_default_binding_policy": "--bind-to",
    "PRTE_MCA_prte_default_hostfile": "--hostfile",
    "PRTE_MCA_rmaps_default_mapping_policy": "--map-by",
}
"""mpirun(1) of Open MPI 4.1 and prte(1) of PRRTE 3: an option of the command line counts more than an MCA variable."""
_READ_BY_TORCHRUN = {
    "PET_NNODES": "--nnodes",
    "PET_NO_PYTHON": "--no_python",
    "PET_NPROC_PER_NODE": "--nproc_per_node",
    "PET_RDZV_BACKEND": "--rdzv_backend",
}
"""torch/distributed/run.py: each option has a variable PET_NAME as its default."""

_CYCLIC = r"(--distribution[= ]|-m ?)(cyclic|plane|arbitrary)\S*"
"""srun distributes the tasks of a job in blocks, unless this says otherwise (srun manual, --distribution)."""

SIGNALS = ("TERM", "USR1", "USR2")
"""The signals that a script passes on to its ranks."""


@record
class LauncherRow:
    """One launcher: its command line, and everything else that differs between launchers."""

    argv: Callable[[Launch], tuple[str, ...]]
    programs: tuple[str, ...]
    """The programs that must be on PATH where the script runs."""
    rank_variables: tuple[str, ...] = ()
    """The variables that may contain a rank's number; the first that is set does. No other variable is used: under
    torchrun, for example, SLURM_PROCID is the number of a node."""
    local_rank_variables: tuple[str, ...] = ()
    """The same for its number among the ranks of its node. Where none is set, it follows from the rank's number."""
    node_variables: tuple[str, ...] = ()
    """The same for the number of its node."""
    sets: tuple[str, ...] = ()
    """The further variables that it sets for every rank, as patterns: what the script exports under these is lost."""
    reads: Mapping[str, str] = field(default_factory=dict)
    """Variable from which it reads an option -> the option, which counts more where it is on the command line."""
    reads_next: str = ""
    """What to type for such an option."""
    signals: tuple[str, ...] = SIGNALS
    """The signals that it passes on to the ranks; others end it."""
    signal_to: str = ""
    """The receiver of the script's signals if all ranks are on one node, as the library spells it: ``group`` (the
    process group of the launch), ``ranks`` (each rank), or empty (the launcher)."""
    starts_one_rank: bool = False
    """It can start only one rank."""
    everywhere: bool = False
    """It works at every site, even if the site file does not list it."""
    cyclic: str = ""
    """A regular expression for the option with which it numbers ranks from node to node; else it numbers them node by
    node."""
    scheduler: str = ""
    """The scheduler that it needs (empty: none)."""
    started_by: Mapping[str, str] = field(default_factory=dict)
    """Scheduler -> the launcher that starts it on every node, whose options in the site file apply; empty if it starts
    by itself."""
    is_step: bool = False
    """It starts a Slurm step, which gets Slurm's signals."""
    mpi_option: MpiOption | None = None
    """Its option for the type of MPI, if it has one."""
    ranks_are_tasks: bool = False
    """Each rank is a task of a Slurm step: Slurm gives it number, CPUs and GPUs, and may start it in a container."""
    is_in_image: bool = False
    """It belongs to the ranks' framework: with a container each node starts that of the image, and the ranks inside."""
    without_mpi: str = ""
    """The type of MPI with which it starts tasks that do not communicate."""
    independent: tuple[str, ...] = ()
    """The options with which the end of one task leaves the others alone."""
    places_ranks: bool = False
    """It places ranks itself, and has no option for their number of CPUs."""
    over_ssh: bool = False
    """It does not ask the scheduler for nodes: it needs a file with their names, and ssh to all except the first."""
    command_is_text: bool = False
    """It passes the ranks' command to a shell as text, so the script writes the command to a file with a plain path."""
    names_variables: bool = False
    """It passes variables to other nodes by name (-x), and warns of one that is not set."""
    has_rendezvous: bool = False
    """Its nodes meet at an address that the script exports (PET_RDZV_*)."""
    usual_framework: str = ""
    """The framework of a program of which nothing says it; empty: the launcher tells nothing about that."""
    refuses: Mapping[str, str] = field(default_factory=dict)
    """Framework, or HOROVOD for programs of any framework that communicate through it -> why their ranks cannot find
    each other under this launcher."""
    asks: Mapping[str, str] = field(default_factory=dict)
    """Framework -> what a program must do under this launcher for its ranks to find each other."""
    one_node_type: str = ""
    """Why it cannot start ranks on nodes of several types, the components of a heterogeneous job; empty: it can."""
    needs_mpi: bool = False
    """Under it, the ranks of Horovod find each other through MPI."""
    library_part: str = ""
    """The file of the script's library with functions that only it needs, without its ending; empty: none."""
    install_hint: str = "install it"
    """What to do if its program is missing on this machine."""
    binding_hint: str = "check the launcher's options in the site file"
    """What to do if it binds ranks to the wrong CPUs."""
    numa_binding: str = ""
    """What to do for CPUs near the GPUs, with ``{nodes}`` for the NUMA nodes of a node's ranks, in order (empty: the
    same)."""

    @property
    def identity_variables(self) -> tuple[str, ...]:
        """The variables with which it tells a rank its place."""
        return (*self.rank_variables, *self.local_rank_variables, *self.node_variables)

    @property
    def rank_number(self) -> str:
        """The bash expression for a rank's number, from ``rank_variables``; empty if there are none."""
        return _first_of(self.rank_variables)

    def programs_at(self, scheduler: str, contained: bool = False) -> tuple[str, ...]:
        """Return the programs that must be on PATH where the script runs: its own, and those of what starts it.

        ``contained``: the ranks are in a container, which may have the launcher, too.
        """
        starter = self.started_by.get(scheduler)
        own = () if contained and self.is_in_image else self.programs
        return (*(LAUNCHERS[starter].programs if starter else ()), *own)

    def library_parts_at(self, scheduler: str) -> tuple[str, ...]:
        """Return the parts of the script's library that only it needs, and those of what starts it."""
        starter = self.started_by.get(scheduler)
        named = [self.library_part]
        if starter:
            named.append(LAUNCHERS[starter].library_part)
        return tuple(filter(None, named))

    @property
    def place_of_rank(self) -> tuple[str, str]:
        """The bash expressions for a rank's number on its node, and for the node's; empty if nothing tells them."""
        return _first_of(self.local_rank_variables), _first_of(self.node_variables)

    def pass_on(self, signal: str) -> str:
        """Return the signal to send to the launcher: ``signal`` if it passes that on, else TERM, which all pass on."""
        return signal if signal in self.signals else "TERM"


def _first_of(names: Sequence[str]) -> str:
    """Return the bash expression for the first of these variables that is set; empty without names."""
    text = ""
    for name in reversed(names):
        text = f"${{{name}:-{text}}}" if text else f"${{{name}-}}"
    return text


NO_LAUNCHER = "direct"
"""The row for a single rank that the script itself starts."""

LAUNCHERS: Mapping[str, LauncherRow] = {
    NO_LAUNCHER: LauncherRow(argv=direct, programs=(), signal_to="group", starts_one_rank=True, everywhere=True),
    "srun": LauncherRow(
        argv=srun,
        programs=("srun",),
        cyclic=_CYCLIC,
        rank_variables=("SLURM_PROCID",),
        local_rank_variables=("SLURM_LOCALID",),
        node_variables=("SLURM_NODEID",),
        reads=_READ_BY_SRUN,
        reads_next="the site file sets such options under launchers.options.srun",
        scheduler="slurm",
        is_step=True,
        mpi_option=_MPI_OF_SRUN,
        ranks_are_tasks=True,
        without_mpi="none",
        independent=("--kill-on-bad-exit=0",),
        needs_mpi=True,
        binding_hint="set cpu_bind: cores under launchers.options.srun in the site file",
        numa_binding="set cpu_bind: map_ldom:{nodes} under launchers.options.srun in the site file",
    ),
    "mpirun": LauncherRow(
        argv=mpirun,
        programs=("mpirun",),
        cyclic=r"--(rank|map)-by node\b",
        rank_variables=("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"),
        local_rank_variables=("OMPI_COMM_WORLD_LOCAL_RANK",),
        sets=("OMPI_COMM_WORLD_*",),
        reads=_READ_BY_MPIRUN,
        reads_next="the site file adds options under launchers.options.mpirun",
        # Seen with 4.1.4; it also starts its daemons without --het-group (orte/mca/plm/slurm/plm_slurm_module.c).
        one_node_type="it finds the nodes of the first type alone",
        names_variables=True,
        needs_mpi=True,
    ),
    "horovodrun": LauncherRow(
        argv=horovodrun,
        programs=("horovodrun",),
        rank_variables=("HOROVOD_RANK",),
        local_rank_variables=("HOROVOD_LOCAL_RANK",),
        node_variables=("HOROVOD_CROSS_RANK",),
        # horovod/runner/gloo_run.py (create_slot_env_vars, create_run_env_vars)
        sets=(
            *("HOROVOD_SIZE", "HOROVOD_LOCAL_SIZE", "HOROVOD_CROSS_SIZE", "HOROVOD_HOSTNAME", "HOROVOD_GLOO_IFACE"),
            *("HOROVOD_GLOO_RENDEZVOUS_*", "HOROVOD_CONTROLLER", "HOROVOD_CPU_OPERATIONS"),
        ),
        signals=("TERM",),
        # It sends SIGTERM to the ranks' shells alone, not to the programs in them, and kills both 5 s later
        # (horovod/runner/common/util/safe_shell_exec.py).
        signal_to="ranks",
        over_ssh=True,
        one_node_type="its list of hosts gives each host the same number of ranks",
        refuses={JAX: _NO_PLACE_FOR_JAX, MPI: _NO_MPI},
        install_hint="install Horovod: hpclaunch docs installing",
    ),
    "ibrun": LauncherRow(
        argv=ibrun,
        programs=("ibrun",),
        cyclic=_CYCLIC,
        # It uses the loaded MPI library: Intel MPI or MPICH, MVAPICH, Open MPI.
        rank_variables=("PMI_RANK", "MV2_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"),
        scheduler="slurm",
        places_ranks=True,
        one_node_type="it reads the nodes from Slurm's variables, which name those of the first type alone",
        command_is_text=True,
        refuses={JAX: _NO_PLACE_FOR_JAX},
        needs_mpi=True,
    ),
    "torchrun": LauncherRow(
        argv=torchrun,
        programs=("torchrun",),
        cyclic=_CYCLIC,
        rank_variables=("RANK",),
        local_rank_variables=("LOCAL_RANK",),
        node_variables=("GROUP_RANK",),
        sets=("TORCHELASTIC_*", "ROLE_*", "GROUP_WORLD_SIZE"),
        reads=_READ_BY_TORCHRUN,
        reads_next="--nodes and --tasks-per-node",
        signals=("TERM",),
        started_by={"slurm": "srun", "local": "local"},
        is_step=True,
        mpi_option=_MPI_OF_SRUN,
        has_rendezvous=True,
        is_in_image=True,
        one_node_type="it numbers ranks by the order in which nodes arrive, and starts as many on each",
        usual_framework=PYTORCH,
        install_hint="install PyTorch: it includes torchrun",
        refuses={TENSORFLOW: _NO_PLACE_FOR_TENSORFLOW, JAX: _NO_PLACE_FOR_JAX, MPI: _NO_MPI},
    ),
    "local": LauncherRow(
        argv=local,
        programs=(),
        rank_variables=("RANK",),
        local_rank_variables=("LOCAL_RANK",),
        node_variables=("NODE_RANK",),
        over_ssh=True,
        library_part="spawn",
        one_node_type="it starts the same number of ranks on each host",
        refuses={HOROVOD: _NO_PLACE_FOR_HOROVOD, MPI: _NO_MPI},
        asks={JAX: _EXPLICIT_PLACE_FOR_JAX},
    ),
}


def launcher_row(name: str) -> LauncherRow:
    """Return the row of a launcher. Raises NotFound."""
    if name not in LAUNCHERS:
        what = f"no launcher is called {name!r}{did_you_mean(name, LAUNCHERS)}"
        raise NotFound(Fault(what=what, allowed=", ".join(LAUNCHERS)))
    return LAUNCHERS[name]


VALUES = {"-np": 1, "--map-by": 1, "--bind-to": 1, "-mca": 2, "--hostfile": 1, "-H": 1, "-x": 1}
"""Option -> the number of its values, for options that these launchers write without ``=``."""
