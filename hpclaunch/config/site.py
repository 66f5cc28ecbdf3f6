"""The keys of a site file, and how one is loaded; this module never queries the cluster itself.

A value that a file leaves out is not known: nothing is assumed or checked in its place. Bandwidths are GB/s in one
direction. Memory counts in powers of two: a GPU "of 40 GB" has 40 x 2^30 bytes.
"""

import re
from dataclasses import field
from typing import Annotated, Literal

from hpclaunch.config.catalog import SITE, Catalog
from hpclaunch.config.detection import Detect
from hpclaunch.config.fileformat import (
    INTERNAL,
    AtLeast,
    AtMost,
    Environment,
    FrameworkName,
    LauncherName,
    Line,
    Matching,
    Memory,
    NotNegative,
    PositiveInt,
    RuntimeName,
    ScalarLine,
    SchedulerName,
    TypeName,
    VariableName,
    Walltime,
    read,
)
from hpclaunch.config.limits import WHOLE_NODES, Limits
from hpclaunch.config.wording import shown
from hpclaunch.core.records import record
from hpclaunch.core.scheduler_rows import SchedulerRow, scheduler_row

TaskDirective = Literal["ntasks", "ntasks-per-node", "cpus-per-task"]
HEAD = "head"
"""The section at the top of a site's card."""
ALWAYS_USED = {"always_used": True}
"""Marks a field whose value is used in every script of the site."""
BOOK = {"book": True}
"""Marks a field that gives the sources of other fields' values."""
_REQUESTS, _EVERY_SCRIPT = "Resource requests", "In every script"
_SSH = "nodes of a job {} be entered with ssh"


@record
class Source:
    """A document or file that values come from; ``read`` is its own date, or ``undated``."""

    ref: str
    read: str


@record
class GpuLinks:
    """The links between the GPUs of a node. ``slowest_pair`` if pairs differ; ``gpu`` is all links of one GPU."""

    type: str = field(metadata=shown("{}"))
    pair_gbytes_per_s: NotNegative | None = field(default=None, metadata=shown("{} GB/s between a pair"))
    slowest_pair_gbytes_per_s: NotNegative | None = field(
        default=None, metadata=shown("{} GB/s between the slowest pair")
    )
    gpu_gbytes_per_s: NotNegative | None = field(default=None, metadata=shown("{} GB/s out of a GPU"))


@record
class Nics:
    """The network cards of a node."""

    model: str = field(metadata=shown("{}"))
    count: PositiveInt | None = field(default=None, metadata=shown(noun="card"))
    gbytes_per_s_each: NotNegative | None = field(default=None, metadata=shown("{} GB/s each"))


@record
class WholeNode:
    """Settings for layouts with all GPUs of a node and its default tasks: an order of GPUs, a map or mask of CPUs.

    Every rank sets the ``variables`` itself; ``cpu_bind`` also needs a node that no other job shares.
    """

    variables: dict[VariableName, ScalarLine] = field(default_factory=dict)
    cpu_bind: Line | None = field(default=None, metadata=shown("--cpu-bind={}", none="--cpu-bind=none"))


@record
class Charging:
    """The cost of a run: ``rate`` in ``unit`` per hour of every counted node, GPU or core, times the charge factors.

    A whole node counts with all its GPUs or cores. Without ``rate`` the cost is not known, unless the unit is the
    counted hour itself (such as the GPU-hour). The least that is charged: ``shortest`` seconds, or ``least`` units.
    """

    unit: str = field(metadata=shown("{}", row="unit"))
    counts: Literal["node", "gpu", "core"] = field(metadata=shown("for every {} and hour", row="unit"))
    rate: NotNegative | None = field(default=None, metadata=shown("x {}", row="unit"))
    shortest: Walltime | None = field(default=None, metadata=shown("every job counts for {} at least", row="unit"))
    least: NotNegative | None = field(default=None, metadata=shown("a job costs {} at least", row="unit"))
    note: str = field(default="", metadata=shown("{}"))


@record
class NodeType:
    """One node type. Memory is in GB as the site writes it; ``default_tasks_per_node`` is else the GPUs, else 1.

    ``usable_cores``: the cores without those that the site reserves. ``cpus_per_core``: Slurm's CPUs per core, if it
    does not count every hardware thread. ``whole_nodes``: jobs never share a node. ``request_memory`` (MB) is requested
    with a whole node, and a proportional part of it with some of its GPUs. ``gpu_type`` is TYPE in
    ``--gres=gpu:TYPE:N``. ``gpu_shards``: the parts into which Slurm divides a GPU; a job gets one, with
    ``--gres=shard:1``, and so one rank on a node. ``rank_setup``: lines that every rank runs first under srun.
    ``environment``, ``frameworks``, ``needed_modules`` and ``charging`` replace those of the site. ``stand_in_gpus``:
    the scheduler assigns GPUs that cannot compute (a test cluster); ``stand_in_gpu_memory`` and
    ``stand_in_node_memory`` (MB): the memory that the planner takes them and their nodes to have, so that plans of
    large models can be tested with small ones. ``mtbf_days``: mean time between two failures of one node, in days.
    ``this_machine``: the node is the machine
    on which hpclaunch runs; its processor, memory and GPUs are looked at, and values of the file come first.
    """

    title: str = field(metadata=shown("{}"))
    this_machine: bool = field(
        default=False, metadata=shown(yes="this machine, which is looked at", no="as the file says", row="found")
    )
    nodes: PositiveInt | None = field(default=None, metadata=shown(noun="node", row="nodes"))
    constraint: Line | None = field(default=None, metadata=shown(row="nodes"))
    partition: Line | None = field(default=None, metadata=shown(row="nodes"))
    qos: Line | None = field(default=None, metadata=shown("QOS {}", row="nodes"))
    cpu: str | None = field(default=None, metadata=shown("{}", row="CPUs"))
    sockets: PositiveInt | None = field(default=None, metadata=shown(noun="socket", row="CPUs"))
    cores_per_node: PositiveInt | None = field(default=None, metadata=shown(noun="core", row="CPUs"))
    usable_cores: PositiveInt | None = field(default=None, metadata=shown("{} for jobs", noun="core", row="CPUs"))
    threads_per_core: PositiveInt = field(default=1, metadata=shown("{} per core", noun="thread", row="CPUs"))
    cpus_per_core: PositiveInt | None = field(
        default=None, metadata=shown("{} per core in Slurm", noun="CPU", row="CPUs")
    )
    numa_domains: PositiveInt | None = field(default=None, metadata=shown(noun="NUMA domain", row="CPUs"))
    memory_gb: PositiveInt | None = field(default=None, metadata=shown("{} GB", row="memory"))
    request_memory: Memory | None = field(
        default=None, metadata=shown("{} is requested with a whole node", row="memory")
    )
    local_storage: str | None = field(default=None, metadata=shown("{}", row="memory"))
    gpus_per_node: Annotated[int, AtLeast(0), AtMost(1024)] = field(default=0, metadata=shown(noun="GPU", row="GPUs"))
    gpu_model: str | None = field(default=None, metadata=shown("{}", row="GPUs"))
    gpu_memory_gb: PositiveInt | None = field(default=None, metadata=shown("{} GB each", row="GPUs"))
    gpu_type: Line | None = field(default=None, metadata=shown("type {} in --gres", row="GPUs"))
    gpu_shards: PositiveInt | None = field(default=None, metadata=shown("{} parts, a job gets one", row="GPUs"))
    stand_in_gpus: bool = field(
        default=False, metadata=shown(yes="stand-ins that cannot compute", no="real ones", row="GPUs")
    )
    stand_in_gpu_memory: Memory | None = field(default=None, metadata=shown("{} each for plans", row="GPUs"))
    stand_in_node_memory: Memory | None = field(default=None, metadata=shown("{} for plans", row="memory"))
    gpu_links: GpuLinks | None = field(default=None, metadata=shown(row="GPU links"))
    nics: Nics | None = field(default=None, metadata=shown(row="network"))
    mtbf_days: Annotated[float, AtLeast(0.01)] | None = field(
        default=None, metadata=shown("{} days between failures of a node", row="failures")
    )
    whole_nodes: bool = field(default=False, metadata=shown(**WHOLE_NODES, row="jobs"))
    default_tasks_per_node: PositiveInt | None = field(
        default=None, metadata=shown("{} per node by default", noun="task", row="jobs")
    )
    default_cpus_per_task: PositiveInt | None = field(
        default=None, metadata=shown("{} per task by default", noun="CPU", row="jobs")
    )
    whole_node: WholeNode = field(default_factory=WholeNode, metadata=shown(row="all GPUs used"))
    rank_setup: tuple[Line, ...] = field(default=(), metadata=shown("{}", joiner="; ", row="every rank"))
    environment: Environment | None = None
    frameworks: dict[FrameworkName, Environment] = field(default_factory=dict)
    needed_modules: tuple[Line, ...] = field(default=(), metadata=shown("{}", row="every environment"))
    account_ending: Line | None = field(default=None, metadata=shown("end in {}", row="accounts"))
    charging: Charging | None = None

    @property
    def slurm_cpus_per_core(self) -> int:
        """Slurm's CPUs per core."""
        return self.cpus_per_core or self.threads_per_core

    @property
    def cores(self) -> int | None:
        """The cores of a node that jobs can use."""
        return self.usable_cores or self.cores_per_node

    @property
    def slurm_cpus(self) -> int | None:
        """Slurm's CPUs of a node that jobs can use."""
        return self.cores * self.slurm_cpus_per_core if self.cores else None

    @property
    def tasks(self) -> int:
        """The default number of tasks per node."""
        return self.default_tasks_per_node or self.gpus_per_node or 1


@record
class Defaults:
    """The site's defaults, used where neither flags, job nor settings name a value."""

    node_type: str = field(metadata=shown("node type {}"))
    partition: Line | None = field(default=None, metadata=shown("partition {}"))
    qos: Line | None = field(default=None, metadata=shown("QOS {}"))
    account: Line | None = field(default=None, metadata=shown("account {}"))
    walltime: Walltime | None = field(default=None, metadata=shown("walltime {}"))


@record
class GpuRequest:
    """How GPUs are requested: the directive (``none``: they come with the nodes), and the option that srun repeats.

    ``one_per_task``: Slurm shows every task one GPU of its own, unless a variable of the rank names more.
    """

    directive: Literal["gpus-per-node", "gpus-per-task", "gpus", "gres", "none"] = field(
        metadata=shown("--{}", none="no directive: they come with the nodes")
    )
    srun: Literal["gpus-per-node", "gpus-per-task", "gres"] | None = field(
        default=None, metadata=shown("srun repeats --{}")
    )
    one_per_task: bool = field(default=False, metadata=shown(yes="one is shown to each task", no="all are shown"))


@record
class LauncherOptions:
    """The site's options of a launcher; missing ones are not written. ``ssh``: whether ssh to a job's nodes is allowed.

    ``warn`` is a warning for everybody who chooses the launcher. ``missing_in``: frameworks whose software here does
    not bring the launcher's program.
    """

    mpi: Line | None = field(default=None, metadata=shown("--mpi={}"))
    cpu_bind: Line | None = field(default=None, metadata=shown("--cpu-bind={}", none="--cpu-bind=none"))
    gpu_bind: Line | None = field(default=None, metadata=shown("--gpu-bind={}", none="--gpu-bind=none"))
    extra: tuple[Line, ...] = field(default=(), metadata=shown("{}", joiner=" "))
    ssh: bool = field(default=False, metadata=shown(yes=_SSH.format("may"), no=_SSH.format("may not")))
    warn: Line | None = field(default=None, metadata=shown("{}"))
    missing_in: tuple[FrameworkName, ...] = field(default=(), metadata=shown("not in the site's {}"))


@record
class Launchers:
    """The launchers that work at the site, and the default one."""

    default: LauncherName = field(metadata=shown("{}", row="usual"))
    options: dict[LauncherName, LauncherOptions]

    def __post_init__(self) -> None:
        if self.default not in self.options:
            raise ValueError(f"default {self.default!r} is not among options: {', '.join(self.options)}")


@record
class Container:
    """How the site runs containers; in a container, ``mpi`` replaces srun's --mpi.

    ``modules``, which some runtimes have: what the site adds to the container (GPU libraries, its MPI). ``load``: the
    environment modules that bring the runtime's program. ``image_folder``: the only folder from which the site runs
    images, and ``register`` the command that copies one into it. ``annotations``, which CSCS's Container Engine has:
    what its hooks add to the container.
    """

    runtime: RuntimeName = field(metadata=shown("{}"))
    modules: tuple[Line, ...] = field(default=(), metadata=shown("{}"))
    options: tuple[Line, ...] = field(default=(), metadata=shown("{}", joiner=" "))
    mpi: Line | None = field(default=None, metadata=shown("--mpi={}"))
    load: tuple[Line, ...] = field(default=(), metadata=shown("module load {}", joiner=" "))
    image_folder: Line | None = field(default=None, metadata=shown("only images in {}", row="images"))
    register: Line | None = field(default=None, metadata=shown("{} IMAGE copies one there", row="images"))
    annotations: dict[Line, ScalarLine] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.image_folder is None) != (self.register is None):
            raise ValueError("'image_folder' and 'register' belong together; give both or none")


@record
class EnvironmentRecipe:
    """How the centre shows to make an environment with a framework that it does not provide itself.

    A run in that environment loads the ``modules`` and runs the lines of ``setup``, too. ``image`` is that of a
    container. ``python`` is the version. ``packages`` are pip's requirements, in their order; ``wheels`` is the name of
    PyTorch's builds to take (``cu126``, ``rocm7.1``), which have a package index of their own. ``own_wheels``: the
    centre keeps wheels, and pip asks no index. ``variables`` belong to Horovod's build; the shell replaces ``$NAME`` in
    them. ``in_job``: the centre wants packages to be installed on compute nodes. ``kind: none``: it allows no
    environment, for the reason in ``note``.
    """

    kind: Literal["venv", "virtualenv", "conda", "container", "none"] = field(metadata=shown("{}"))
    image: Line | None = field(default=None, metadata=shown("{}"))
    modules: tuple[Line, ...] = field(default=(), metadata=shown("with the modules {}"))
    setup: tuple[Line, ...] = field(default=(), metadata=shown("{}", joiner="; "))
    python: Line | None = field(default=None, metadata=shown("Python {}"))
    packages: tuple[Line, ...] = field(default=(), metadata=shown("pip install {}", joiner=" "))
    wheels: Line | None = field(default=None, metadata=shown("wheels for {}"))
    own_wheels: bool = field(default=False, metadata=shown(yes="the centre's own wheels", no="wheels of an index"))
    variables: dict[VariableName, ScalarLine] = field(default_factory=dict)
    in_job: bool = field(default=False, metadata=shown(yes="made in a job", no="made on a login node"))
    note: str = field(default="", metadata=shown("{}"))


@record
class Folders:
    """Paths, with ``$NAME`` from the submitting environment. ``node_private`` folders are local to each node.

    ``purge_days``: the site deletes files of ``runs`` and ``data`` that were not used for so many days.
    """

    runs: Line | None = field(default=None, metadata=shown("{}"))
    data: Line | None = field(default=None, metadata=shown("{}"))
    environments: Line | None = field(default=None, metadata=shown("{}"))
    node_private: tuple[Line, ...] = field(default=(), metadata=shown("{}"))
    purge_days: PositiveInt | None = field(
        default=None, metadata=shown("files that were not used for {} are deleted", noun="day", row="purge")
    )


@record
class Hosts:
    """The machines of a site that a person uses: where one logs in, and which ones move data."""

    login: tuple[Line, ...] = field(default=(), metadata=shown("{}"))
    transfer: tuple[Line, ...] = field(default=(), metadata=shown("{}"))


@record
class NodeCopies:
    """The folder in each node's memory, or on its disk, for copies of a run's environment, image and code.

    Jobs of ``from_nodes`` nodes or more make them without being asked.
    """

    to: Line = field(metadata=shown("to {}"))
    from_nodes: PositiveInt = field(default=64, metadata=shown("from {}", noun="node"))


@record
class Site:
    """A cluster as one YAML file describes it.

    ``export: all``: the site forbids ``--export=NONE``; the script then unsets variables that could mislead the ranks.
    ``restart``: how a job that has saved its state is restarted: it requeues itself (``scontrol requeue``), submits a
    successor, or neither; ``signal`` asks it to save. ``kill_on_invalid_dep``: whether Slurm is asked to cancel a job
    that waits for one that failed. ``secret_env`` names variables whose values only a job sees.
    ``environment`` is that of every run, ``frameworks`` what a program of one framework gets as well. A venv, a conda
    environment or an interpreter of a person's own replaces the modules of both, but for ``needed_modules``, which
    every environment needs (an MPI, a plug-in for the network). ``provides``: the
    software that TensorFlow's has. ``recipes``: how an environment with a framework is made here.
    ``heterogeneous_jobs``: whether the nodes of a job may be of several types (None: Slurm is asked). ``refuses``:
    options (``--mem``) with which the site accepts no job.
    ``address_suffix``: what a host's name has behind it where it is the address of the fast network (``i``: HOSTi).
    ``origins`` gives for dotted keys (and all keys below them) their ``sources``. ``third_party`` values were found
    only in users' files, ``derived`` ones were computed (how), ``unverified`` ones are left out (why).
    """

    name: str = field(metadata=INTERNAL)
    title: str = field(metadata=shown("{}", section=HEAD, row="what it is"))
    status: Literal["production", "retired", "test"] = field(default="production", metadata=shown("{}", section=HEAD))
    scheduler: SchedulerName = field(metadata=shown("{}", section=HEAD))
    interconnect: str | None = field(default=None, metadata=shown("{}", section=HEAD))
    detect: Detect | None = field(default=None, metadata=shown(section=HEAD, row="detected by"))
    defaults: Defaults = field(metadata=shown(section=HEAD, row="defaults") | ALWAYS_USED)
    hosts: Hosts = field(default_factory=Hosts, metadata=shown(section="Hosts"))
    required: tuple[Literal["account", "partition", "qos", "walltime", "memory"], ...] = field(
        default=(), metadata=shown("{}", section=HEAD, row="required") | ALWAYS_USED
    )
    login_shell: bool = field(
        default=False,
        metadata=shown(yes="login shell (bash -l)", no="no login shell", section=HEAD, row="script") | ALWAYS_USED,
    )
    export: Literal["none", "all"] = field(
        default="none",
        metadata=shown(
            "no --export=NONE: jobs inherit the submitting environment ({})",
            none="--export=NONE",
            section=HEAD,
            row="script",
        ),
    )
    node_types: Annotated[dict[TypeName, NodeType], AtLeast(1)] = field(metadata=shown(section="Node types"))
    partitions: dict[Line, Limits] = field(default_factory=dict, metadata=shown(section="Partitions"))
    qos: dict[Line, Limits] = field(default_factory=dict, metadata=shown(section="QOS"))
    complete: tuple[Literal["partition", "qos"], ...] = field(
        default=(), metadata=shown("{}", section=HEAD, row="listed in full")
    )
    charging: Charging | None = field(default=None, metadata=shown(section="Charging") | ALWAYS_USED)
    gpus: GpuRequest | None = field(default=None, metadata=shown(section=_REQUESTS, row="GPUs") | ALWAYS_USED)
    task_directives: tuple[TaskDirective, ...] = field(
        default=("ntasks-per-node", "cpus-per-task"),
        metadata=shown("{}", none="no directives: only the launcher sets them", section=_REQUESTS, row="tasks")
        | ALWAYS_USED,
    )
    heterogeneous_jobs: bool | None = field(
        default=None,
        metadata=shown(yes="several in one job", no="one per job", section=_REQUESTS, row="node types"),
    )
    launchers: Launchers | None = field(default=None, metadata=shown(section="Launchers"))
    container: Container | None = field(default=None, metadata=shown(section="Containers"))
    environment: Environment = field(default_factory=Environment, metadata=shown(section="Environment") | ALWAYS_USED)
    frameworks: dict[FrameworkName, Environment] = field(default_factory=dict, metadata=shown(section="Frameworks"))
    needed_modules: tuple[Line, ...] = field(
        default=(), metadata=shown("{}", section="Environment", row="in every environment")
    )
    recipes: dict[FrameworkName, EnvironmentRecipe] = field(
        default_factory=dict, metadata=shown(section="To make an environment")
    )
    provides: tuple[Literal["tensorflow", "horovod"], ...] = field(
        default=(), metadata=shown("{}", section="Environment", row="provides")
    )
    folders: Folders = field(default_factory=Folders, metadata=shown(section="Folders") | ALWAYS_USED)
    broadcast: NodeCopies | None = field(default=None, metadata=shown(section="Folders", row="copies on nodes"))
    address_suffix: Annotated[str, Matching(re.compile("[A-Za-z0-9.-]+"), "letters, digits and - .")] | None = field(
        default=None, metadata=shown("HOST{}", section=_EVERY_SCRIPT, row="address of rank 0") | ALWAYS_USED
    )
    sbatch: tuple[Line, ...] = field(default=(), metadata=shown("with {}", section=_EVERY_SCRIPT) | ALWAYS_USED)
    refuses: tuple[Line, ...] = field(default=(), metadata=shown("{}", section=_EVERY_SCRIPT))
    remove: tuple[Line, ...] = field(default=(), metadata=shown("{}", section=_EVERY_SCRIPT))
    restart: Literal["requeue", "resubmit", "none"] = field(
        default="requeue", metadata=shown("{}", section=_EVERY_SCRIPT)
    )
    kill_on_invalid_dep: bool = field(
        default=True,
        metadata=shown(
            yes="--kill-on-invalid-dep=yes", no="no --kill-on-invalid-dep", section=_EVERY_SCRIPT, row="after a failure"
        ),
    )
    signal: Line | None = field(default=None, metadata=shown("{}", section=_EVERY_SCRIPT))
    secret_env: tuple[VariableName, ...] = field(default=(), metadata=shown("{}", section=_EVERY_SCRIPT))
    samples: bool | None = field(
        default=None, metadata=shown(yes="every node is measured", no="no node is measured", section=_EVERY_SCRIPT)
    )
    notes: tuple[str, ...] = field(default=(), metadata=shown("{}", section="Notes"))
    sources: dict[str, Source] = field(default_factory=dict, metadata=BOOK)
    origins: dict[str, tuple[str, ...]] = field(default_factory=dict, metadata=BOOK)
    third_party: tuple[str, ...] = field(default=(), metadata=BOOK)
    derived: dict[str, str] = field(default_factory=dict, metadata=BOOK)
    unverified: dict[str, str] = field(default_factory=dict, metadata=BOOK)

    def __post_init__(self) -> None:
        wrong = [
            f"{place} names {name!r}, which is not among {', '.join(known)}"
            for place, name, known in self._references()
            if name not in known
        ]
        if wrong:
            raise ValueError("; ".join(wrong))

    @property
    def scheduler_row(self) -> SchedulerRow:
        """The row of its scheduler."""
        return scheduler_row(self.scheduler)

    @property
    def is_this_machine(self) -> bool:
        """Whether one of its node types is the machine on which hpclaunch runs."""
        return any(node.this_machine for node in self.node_types.values())

    def _references(self) -> list[tuple[str, str, list[str]]]:
        node_types, sources = list(self.node_types), [*self.sources, OURS]
        found = [("defaults.node_type", self.defaults.node_type, node_types)]
        for key, members in (("partition", self.partitions), ("qos", self.qos)):
            named = {f"defaults.{key}": getattr(self.defaults, key)}
            named |= {f"node_types.{name}.{key}": getattr(node, key) for name, node in self.node_types.items()}
            found += [(place, name, list(members)) for place, name in named.items() if name and members]
        for family, limits in (("partitions", self.partitions), ("qos", self.qos)):
            for name, one in limits.items():
                for key, named_types in (("node_types", one.node_types), ("by_node_type", tuple(one.by_node_type))):
                    found += [(f"{family}.{name}.{key}", node_type, node_types) for node_type in named_types]
        found += [(f"origins.{key}", name, sources) for key, names in self.origins.items() for name in names]
        return found


OURS = "hpclaunch"
"""The source of values that are hpclaunch's own choice (a default walltime, a folder's name)."""


def load_site(catalog: Catalog, name: str) -> Site:
    """Return the site of that name. Raises NotFound, or InvalidFile with all faults.

    InvalidFile: also for a file that others can change.
    """
    found = catalog.find(SITE, name)
    catalog.require(found.origin, found.path)
    return read(found.path, Site, catalog.kept, name=name)
