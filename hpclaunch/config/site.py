"""What a site file may say about a cluster, and loading one; it never looks at the cluster itself.

What a file leaves out is not known, and is neither assumed nor checked. Bandwidths are GB/s in one direction.
"""

import re
from dataclasses import field, replace
from typing import Annotated, Any, Literal

from hpclaunch.config.catalog import SITE, Catalog
from hpclaunch.config.fileformat import (
    INTERNAL,
    AtLeast,
    AtMost,
    Before,
    Environment,
    LauncherName,
    Line,
    Memory,
    NotNegative,
    PositiveInt,
    Scalar,
    ScalarLine,
    SchedulerName,
    VariableName,
    Walltime,
    read,
)
from hpclaunch.core.records import record

TaskDirective = Literal["ntasks", "ntasks-per-node", "cpus-per-task"]
Runtime = Literal["shifter", "podman-hpc", "apptainer", "singularity", "pyxis"]


def _pattern(value: Any) -> Any:
    """Refuse what is not a regular expression when the file is read, not when a host name is looked at."""
    try:
        re.compile(str(value))
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    return value


@record
class Detect:
    """How a login node of the site is known: every key that is given must hold; ``hostname`` must match all of it."""

    environment: dict[VariableName, Scalar] = field(default_factory=dict)
    cluster_name: str | None = None
    hostname: Annotated[str, Before(_pattern)] | None = None


@record
class Source:
    """A document or file that values were read from; ``read`` is its own date, or ``undated``."""

    ref: str
    read: str


@record
class GpuLinks:
    """How the GPUs of a node are joined. ``slowest_pair`` where pairs differ; ``gpu`` is all links of one GPU."""

    type: str
    pair_gbytes_per_s: NotNegative | None = None
    slowest_pair_gbytes_per_s: NotNegative | None = None
    gpu_gbytes_per_s: NotNegative | None = None


@record
class Nics:
    """The network cards of a node."""

    model: str
    count: PositiveInt | None = None
    gbytes_per_s_each: NotNegative | None = None


@record
class WholeNode:
    """What holds only with all GPUs of the node and its default tasks: an order of GPUs, a map or mask of CPUs.

    Every rank sets the ``variables`` itself; ``cpu_bind`` also needs a node that no other job shares.
    """

    variables: dict[VariableName, ScalarLine] = field(default_factory=dict)
    cpu_bind: Line | None = None


@record
class Charging:
    """What a run costs: ``unit`` for every hour of what is counted, times ``rate`` and the charge factors.

    Whole nodes count as all that is in them. Without ``rate`` it is not known, unless the unit is the hour itself.
    """

    unit: str
    counts: Literal["node", "gpu", "core"]
    rate: NotNegative | None = None
    note: str = ""


@record
class NodeType:
    """One kind of node. Memory in GB (as the site writes it); ``default_tasks_per_node`` else GPUs, else 1.

    ``usable_cores``: without those that the site keeps for itself. ``cpus_per_core``: what Slurm counts as CPUs, where
    that is not every hardware thread. ``whole_nodes``: jobs never share one. ``request_memory`` (MB) is asked for with
    a whole node, and in proportion with some of its GPUs. ``gpu_type`` stands in ``--gres=gpu:TYPE:N``. ``rank_setup``:
    lines that every rank runs first under srun. ``environment`` and ``charging`` take the place of the site's.
    ``stand_in_gpus``: the scheduler hands GPUs out, but nothing can compute on them (a test cluster).
    """

    title: str
    nodes: PositiveInt | None = None
    sockets: PositiveInt | None = None
    cpu: str | None = None
    cores_per_node: PositiveInt | None = None
    usable_cores: PositiveInt | None = None
    threads_per_core: PositiveInt = 1
    cpus_per_core: PositiveInt | None = None
    numa_domains: PositiveInt | None = None
    memory_gb: PositiveInt | None = None
    request_memory: Memory | None = None
    local_storage: str | None = None
    gpus_per_node: Annotated[int, AtLeast(0), AtMost(1024)] = 0
    gpu_model: str | None = None
    gpu_memory_gb: PositiveInt | None = None
    gpu_type: Line | None = None
    gpu_links: GpuLinks | None = None
    stand_in_gpus: bool = False
    nics: Nics | None = None
    whole_nodes: bool = False
    constraint: Line | None = None
    partition: Line | None = None
    qos: Line | None = None
    default_tasks_per_node: PositiveInt | None = None
    default_cpus_per_task: PositiveInt | None = None
    whole_node: WholeNode = field(default_factory=WholeNode)
    rank_setup: tuple[Line, ...] = ()
    environment: Environment | None = None
    charging: Charging | None = None

    @property
    def slurm_cpus_per_core(self) -> int:
        """What Slurm counts as CPUs of one core."""
        return self.cpus_per_core or self.threads_per_core

    @property
    def cores(self) -> int | None:
        """Cores that jobs get."""
        return self.usable_cores or self.cores_per_node

    @property
    def slurm_cpus(self) -> int | None:
        """What Slurm counts as the CPUs of a node that jobs get."""
        return self.cores * self.slurm_cpus_per_core if self.cores else None

    @property
    def tasks(self) -> int:
        """The usual number of tasks on a node."""
        return self.default_tasks_per_node or self.gpus_per_node or 1


@record
class Bin:
    """Up to ``max_nodes`` nodes may run for ``max_walltime`` seconds."""

    max_nodes: PositiveInt
    max_walltime: Walltime


@record
class Override:
    """A limit that differs for one node type."""

    max_nodes: PositiveInt | None = None
    max_walltime: Walltime | None = None


@record
class Limits:
    """Limits of a partition or a QOS; walltime in seconds.

    ``only_if_asked``: never chosen for a person (interactive, preemptible, restricted). ``implicit``: in force without
    a directive. ``whole_nodes`` where it differs from the node type's. ``charge_factor`` multiplies the cost.
    ``sbatch`` options come with it. ``max_jobs`` and ``max_running`` are per user.
    """

    min_nodes: PositiveInt | None = None
    max_nodes: PositiveInt | None = None
    max_walltime: Walltime | None = None
    bins: tuple[Bin, ...] = ()
    by_node_type: dict[str, Override] = field(default_factory=dict)
    max_gpus_per_node: PositiveInt | None = None
    max_jobs: PositiveInt | None = None
    max_running: PositiveInt | None = None
    node_types: tuple[str, ...] = ()
    whole_nodes: bool | None = None
    only_if_asked: bool = False
    implicit: bool = False
    charge_factor: NotNegative | None = None
    sbatch: tuple[Line, ...] = ()
    note: str = ""

    def of(self, kind: str) -> "Limits":
        """Return the limits as they hold for a node type."""
        override = self.by_node_type.get(kind)
        if override is None:
            return self
        return replace(
            self,
            max_nodes=override.max_nodes or self.max_nodes,
            max_walltime=override.max_walltime or self.max_walltime,
        )


@record
class Defaults:
    """What the site chooses where nobody else does."""

    node_type: str
    partition: Line | None = None
    qos: Line | None = None
    account: Line | None = None
    walltime: Walltime | None = None


@record
class GpuRequest:
    """How GPUs are asked for: by which directive (``none``: they come with the nodes), and what srun says again."""

    directive: Literal["gpus-per-node", "gpus-per-task", "gpus", "gres", "none"]
    srun: Literal["gpus-per-node", "gpus-per-task"] | None = None


@record
class LauncherOptions:
    """How the site wants a launcher called; what is not there is not written. ``ssh``: nodes of a job may be entered.

    ``warn`` is told to whoever chooses it.
    """

    mpi: Line | None = None
    cpu_bind: Line | None = None
    gpu_bind: Line | None = None
    extra: tuple[Line, ...] = ()
    ssh: bool = False
    warn: Line | None = None


@record
class Launchers:
    """The launchers that work at the site, and the one to use."""

    default: LauncherName
    options: dict[LauncherName, LauncherOptions]

    def __post_init__(self) -> None:
        if self.default not in self.options:
            raise ValueError(f"default {self.default!r} is not among options: {', '.join(self.options)}")


@record
class Container:
    """How the site runs containers; ``mpi`` takes the place of srun's --mpi there.

    ``modules`` are those of shifter and podman-hpc: what the site puts into the container (GPU libraries, its MPI).
    """

    runtime: Runtime
    modules: tuple[Line, ...] = ()
    options: tuple[Line, ...] = ()
    mpi: Line | None = None


@record
class Folders:
    """Paths in which ``$NAME`` is taken from the submitting environment. ``node_private`` ones are not shared."""

    runs: Line | None = None
    data: Line | None = None
    node_private: tuple[Line, ...] = ()


@record
class Site:
    """A cluster as one YAML describes it.

    ``export: all`` where the site forbids ``--export=NONE``: what could mislead the ranks is then unset by the script.
    ``restart``: how a job that has saved its state starts again: by itself (``scontrol requeue``), by a successor that
    it submits, or not at all; ``signal`` asks it to save. ``secret_env`` names variables whose values only a job sees.
    ``provides``: what ``environment`` brings. ``refuses``: options (``--mem``) with which the site accepts no job.
    ``origins`` says for dotted keys (and all below them) which of ``sources`` they are from; ``third_party`` ones were
    seen in users' files only, ``derived`` ones were computed (how), ``unverified`` ones are left out (why).
    """

    name: str = field(metadata=INTERNAL)
    title: str
    status: Literal["production", "retired", "test"] = "production"
    scheduler: SchedulerName
    interconnect: str | None = None
    login_shell: bool = False
    export: Literal["none", "all"] = "none"
    detect: Detect | None = None
    defaults: Defaults
    required: tuple[Literal["account", "partition", "qos", "walltime", "memory"], ...] = ()
    node_types: Annotated[dict[Line, NodeType], AtLeast(1)]
    partitions: dict[Line, Limits] = field(default_factory=dict)
    qos: dict[Line, Limits] = field(default_factory=dict)
    charging: Charging | None = None
    gpus: GpuRequest | None = None
    launchers: Launchers | None = None
    task_directives: tuple[TaskDirective, ...] = ("ntasks-per-node", "cpus-per-task")
    container: Container | None = None
    environment: Environment = field(default_factory=Environment)
    provides: tuple[Literal["tensorflow", "horovod"], ...] = ()
    restart: Literal["requeue", "resubmit", "none"] = "requeue"
    signal: Line | None = None
    secret_env: tuple[VariableName, ...] = ()
    folders: Folders = field(default_factory=Folders)
    sbatch: tuple[Line, ...] = ()
    refuses: tuple[Line, ...] = ()
    remove: tuple[Line, ...] = ()
    notes: tuple[str, ...] = ()
    sources: dict[str, Source] = field(default_factory=dict)
    origins: dict[str, tuple[str, ...]] = field(default_factory=dict)
    third_party: tuple[str, ...] = ()
    derived: dict[str, str] = field(default_factory=dict)
    unverified: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        wrong = [
            f"{place} names {name!r}, which is not among {', '.join(known)}"
            for place, name, known in self._references()
            if name not in known
        ]
        if wrong:
            raise ValueError("; ".join(wrong))

    def _references(self) -> list[tuple[str, str, list[str]]]:
        kinds, sources = list(self.node_types), [*self.sources, OURS]
        found = [("defaults.node_type", self.defaults.node_type, kinds)]
        for key, members in (("partition", self.partitions), ("qos", self.qos)):
            named = {f"defaults.{key}": getattr(self.defaults, key)}
            named |= {f"node_types.{kind}.{key}": getattr(node, key) for kind, node in self.node_types.items()}
            found += [(place, name, list(members)) for place, name in named.items() if name and members]
        for family, limits in (("partitions", self.partitions), ("qos", self.qos)):
            for name, one in limits.items():
                named_kinds = [("node_types", one.node_types), ("by_node_type", tuple(one.by_node_type))]
                found += [(f"{family}.{name}.{key}", kind, kinds) for key, all_ in named_kinds for kind in all_]
        found += [(f"origins.{key}", name, sources) for key, names in self.origins.items() for name in names]
        return found


OURS = "hpclaunch"
"""The source of what is nobody's fact but hpclaunch's own choice (a default walltime, a folder's name)."""


def load_site(catalog: Catalog, name: str) -> Site:
    """Return the site of that name. Raises NotFound, or InvalidFile with every fault."""
    found = catalog.find(SITE, name)
    return read(found.path, Site, name=name)
