"""What a site file may say about a cluster, and loading one; it never looks at the cluster itself.

What a file leaves out is not known, and is neither assumed nor checked. Bandwidths are GB/s in one direction.
"""

from dataclasses import field, replace
from typing import Annotated, Literal

from hpclaunch.config.catalog import SITE, Catalog
from hpclaunch.config.detection import Detect
from hpclaunch.config.fileformat import (
    INTERNAL,
    AtLeast,
    AtMost,
    Environment,
    LauncherName,
    Line,
    Memory,
    NotNegative,
    PositiveInt,
    ScalarLine,
    SchedulerName,
    VariableName,
    Walltime,
    read,
)
from hpclaunch.config.wording import shown
from hpclaunch.core.records import record
from hpclaunch.core.scheduler_rows import SchedulerRow, scheduler_row

TaskDirective = Literal["ntasks", "ntasks-per-node", "cpus-per-task"]
HEAD = "head"
"""The section at the top of a site's card."""
ALWAYS_USED = {"always_used": True}
"""Marks a field whose value every script of the site uses."""
BOOK = {"book": True}
"""Marks a field that says where the values of others are from."""
_ASKING, _EVERY_SCRIPT = "How resources are asked for", "In every script"
_WHOLE_NODES = {"yes": "whole nodes only", "no": "nodes may be shared"}
_SSH = "nodes of a job {} be entered with ssh"

Runtime = Literal["shifter", "podman-hpc", "apptainer", "singularity", "pyxis"]


@record
class Source:
    """A document or file that values were read from; ``read`` is its own date, or ``undated``."""

    ref: str
    read: str


@record
class GpuLinks:
    """How the GPUs of a node are joined. ``slowest_pair`` where pairs differ; ``gpu`` is all links of one GPU."""

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
    """What holds only with all GPUs of the node and its default tasks: an order of GPUs, a map or mask of CPUs.

    Every rank sets the ``variables`` itself; ``cpu_bind`` also needs a node that no other job shares.
    """

    variables: dict[VariableName, ScalarLine] = field(default_factory=dict)
    cpu_bind: Line | None = field(default=None, metadata=shown("--cpu-bind={}", none="--cpu-bind=none"))


@record
class Charging:
    """What a run costs: ``unit`` for every hour of what is counted, times ``rate`` and the charge factors.

    Whole nodes count as all that is in them. Without ``rate`` it is not known, unless the unit is the hour itself.
    """

    unit: str = field(metadata=shown("{}", row="unit"))
    counts: Literal["node", "gpu", "core"] = field(metadata=shown("for every {} and hour", row="unit"))
    rate: NotNegative | None = field(default=None, metadata=shown("x {}", row="unit"))
    note: str = field(default="", metadata=shown("{}"))


@record
class NodeType:
    """One kind of node. Memory in GB (as the site writes it); ``default_tasks_per_node`` else GPUs, else 1.

    ``usable_cores``: without those that the site keeps for itself. ``cpus_per_core``: what Slurm counts as CPUs, where
    that is not every hardware thread. ``whole_nodes``: jobs never share one. ``request_memory`` (MB) is asked for with
    a whole node, and in proportion with some of its GPUs. ``gpu_type`` stands in ``--gres=gpu:TYPE:N``. ``rank_setup``:
    lines that every rank runs first under srun. ``environment`` and ``charging`` take the place of the site's.
    ``stand_in_gpus``: the scheduler hands GPUs out, but nothing can compute on them (a test cluster).
    """

    title: str = field(metadata=shown("{}"))
    nodes: PositiveInt | None = field(default=None, metadata=shown(noun="node", row="nodes"))
    constraint: Line | None = field(default=None, metadata=shown(row="nodes"))
    partition: Line | None = field(default=None, metadata=shown(row="nodes"))
    qos: Line | None = field(default=None, metadata=shown("QOS {}", row="nodes"))
    cpu: str | None = field(default=None, metadata=shown("{}", row="CPUs"))
    sockets: PositiveInt | None = field(default=None, metadata=shown(noun="socket", row="CPUs"))
    cores_per_node: PositiveInt | None = field(default=None, metadata=shown(noun="core", row="CPUs"))
    usable_cores: PositiveInt | None = field(default=None, metadata=shown("{} for jobs", noun="core", row="CPUs"))
    threads_per_core: PositiveInt = field(default=1, metadata=shown("{} a core", noun="thread", row="CPUs"))
    cpus_per_core: PositiveInt | None = field(
        default=None, metadata=shown("{} a core in Slurm", noun="CPU", row="CPUs")
    )
    numa_domains: PositiveInt | None = field(default=None, metadata=shown(noun="NUMA domain", row="CPUs"))
    memory_gb: PositiveInt | None = field(default=None, metadata=shown("{} GB", row="memory"))
    request_memory: Memory | None = field(
        default=None, metadata=shown("{} is asked for with a whole node", row="memory")
    )
    local_storage: str | None = field(default=None, metadata=shown("{}", row="memory"))
    gpus_per_node: Annotated[int, AtLeast(0), AtMost(1024)] = field(default=0, metadata=shown(noun="GPU", row="GPUs"))
    gpu_model: str | None = field(default=None, metadata=shown("{}", row="GPUs"))
    gpu_memory_gb: PositiveInt | None = field(default=None, metadata=shown("{} GB each", row="GPUs"))
    gpu_type: Line | None = field(default=None, metadata=shown("type {} in --gres", row="GPUs"))
    stand_in_gpus: bool = field(
        default=False, metadata=shown(yes="stand-ins that compute nothing", no="real ones", row="GPUs")
    )
    gpu_links: GpuLinks | None = field(default=None, metadata=shown(row="GPU links"))
    nics: Nics | None = field(default=None, metadata=shown(row="network"))
    whole_nodes: bool = field(default=False, metadata=shown(**_WHOLE_NODES, row="jobs"))
    default_tasks_per_node: PositiveInt | None = field(
        default=None, metadata=shown("usually {} a node", noun="task", row="jobs")
    )
    default_cpus_per_task: PositiveInt | None = field(
        default=None, metadata=shown("usually {} a task", noun="CPU", row="jobs")
    )
    whole_node: WholeNode = field(default_factory=WholeNode, metadata=shown(row="all GPUs used"))
    rank_setup: tuple[Line, ...] = field(default=(), metadata=shown("{}", joiner="; ", row="every rank"))
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

    max_nodes: PositiveInt = field(metadata=shown(noun="node"))
    max_walltime: Walltime = field(metadata=shown("{}"))


@record
class Override:
    """A limit that differs for one node type."""

    max_nodes: PositiveInt | None = field(default=None, metadata=shown("at most {}", noun="node"))
    max_walltime: Walltime | None = field(default=None, metadata=shown("at most {}"))


@record
class Limits:
    """Limits of a partition or a QOS; walltime in seconds.

    ``only_if_asked``: never chosen for a person (interactive, preemptible, restricted). ``implicit``: in force without
    a directive. ``whole_nodes`` where it differs from the node type's. ``charge_factor`` multiplies the cost.
    ``sbatch`` options come with it. ``max_jobs`` and ``max_running`` are per user.
    """

    min_nodes: PositiveInt | None = field(default=None, metadata=shown("at least {}", noun="node"))
    max_nodes: PositiveInt | None = field(default=None, metadata=shown("at most {}", noun="node"))
    max_walltime: Walltime | None = field(default=None, metadata=shown("at most {}"))
    bins: tuple[Bin, ...] = field(default=(), metadata=shown(each="{max_walltime} with up to {max_nodes}", joiner="; "))
    by_node_type: dict[str, Override] = field(default_factory=dict, metadata=shown(member="{}: {}"))
    max_gpus_per_node: PositiveInt | None = field(default=None, metadata=shown("at most {} a node", noun="GPU"))
    max_jobs: PositiveInt | None = field(default=None, metadata=shown("{} a user", noun="job"))
    max_running: PositiveInt | None = field(default=None, metadata=shown("{} a user", noun="running job"))
    node_types: tuple[str, ...] = field(default=(), metadata=shown("for {}"))
    whole_nodes: bool | None = field(default=None, metadata=shown(**_WHOLE_NODES))
    only_if_asked: bool = field(default=False, metadata=shown(yes="only if asked for", no="may be chosen for you"))
    implicit: bool = field(default=False, metadata=shown(yes="in force without a directive", no="needs its directive"))
    charge_factor: NotNegative | None = field(default=None, metadata=shown("costs x {}"))
    sbatch: tuple[Line, ...] = field(default=(), metadata=shown("with {}"))
    note: str = field(default="", metadata=shown("{}"))

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

    node_type: str = field(metadata=shown("node type {}"))
    partition: Line | None = field(default=None, metadata=shown("partition {}"))
    qos: Line | None = field(default=None, metadata=shown("QOS {}"))
    account: Line | None = field(default=None, metadata=shown("account {}"))
    walltime: Walltime | None = field(default=None, metadata=shown("walltime {}"))


@record
class GpuRequest:
    """How GPUs are asked for: by which directive (``none``: they come with the nodes), and what srun says again."""

    directive: Literal["gpus-per-node", "gpus-per-task", "gpus", "gres", "none"] = field(
        metadata=shown("--{}", none="no directive: they come with the nodes")
    )
    srun: Literal["gpus-per-node", "gpus-per-task"] | None = field(default=None, metadata=shown("srun says --{} again"))


@record
class LauncherOptions:
    """How the site wants a launcher called; what is not there is not written. ``ssh``: nodes of a job may be entered.

    ``warn`` is told to whoever chooses it.
    """

    mpi: Line | None = field(default=None, metadata=shown("--mpi={}"))
    cpu_bind: Line | None = field(default=None, metadata=shown("--cpu-bind={}", none="--cpu-bind=none"))
    gpu_bind: Line | None = field(default=None, metadata=shown("--gpu-bind={}", none="--gpu-bind=none"))
    extra: tuple[Line, ...] = field(default=(), metadata=shown("{}", joiner=" "))
    ssh: bool = field(default=False, metadata=shown(yes=_SSH.format("may"), no=_SSH.format("may not")))
    warn: Line | None = field(default=None, metadata=shown("{}"))


@record
class Launchers:
    """The launchers that work at the site, and the one to use."""

    default: LauncherName = field(metadata=shown("{}", row="usual"))
    options: dict[LauncherName, LauncherOptions]

    def __post_init__(self) -> None:
        if self.default not in self.options:
            raise ValueError(f"default {self.default!r} is not among options: {', '.join(self.options)}")


@record
class Container:
    """How the site runs containers; ``mpi`` takes the place of srun's --mpi there.

    ``modules`` are those of shifter and podman-hpc: what the site puts into the container (GPU libraries, its MPI).
    """

    runtime: Runtime = field(metadata=shown("{}"))
    modules: tuple[Line, ...] = field(default=(), metadata=shown("{}"))
    options: tuple[Line, ...] = field(default=(), metadata=shown("{}", joiner=" "))
    mpi: Line | None = field(default=None, metadata=shown("--mpi={}"))


@record
class Folders:
    """Paths in which ``$NAME`` is taken from the submitting environment. ``node_private`` ones are not shared."""

    runs: Line | None = field(default=None, metadata=shown("{}"))
    data: Line | None = field(default=None, metadata=shown("{}"))
    node_private: tuple[Line, ...] = field(default=(), metadata=shown("{}"))


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
    title: str = field(metadata=shown("{}", section=HEAD, row="what it is"))
    status: Literal["production", "retired", "test"] = field(default="production", metadata=shown("{}", section=HEAD))
    scheduler: SchedulerName = field(metadata=shown("{}", section=HEAD))
    interconnect: str | None = field(default=None, metadata=shown("{}", section=HEAD))
    detect: Detect | None = field(default=None, metadata=shown(section=HEAD, row="detected by"))
    defaults: Defaults = field(metadata=shown(section=HEAD, row="usual choices") | ALWAYS_USED)
    required: tuple[Literal["account", "partition", "qos", "walltime", "memory"], ...] = field(
        default=(), metadata=shown("{}", section=HEAD, row="must be said") | ALWAYS_USED
    )
    login_shell: bool = field(
        default=False,
        metadata=shown(yes="login shell (bash -l)", no="no login shell", section=HEAD, row="script") | ALWAYS_USED,
    )
    export: Literal["none", "all"] = field(
        default="none",
        metadata=shown(
            "no --export=NONE: the submitting environment comes along ({})",
            none="--export=NONE",
            section=HEAD,
            row="script",
        ),
    )
    node_types: Annotated[dict[Line, NodeType], AtLeast(1)] = field(metadata=shown(section="Node types"))
    partitions: dict[Line, Limits] = field(default_factory=dict, metadata=shown(section="Partitions"))
    qos: dict[Line, Limits] = field(default_factory=dict, metadata=shown(section="QOS"))
    charging: Charging | None = field(default=None, metadata=shown(section="Charging") | ALWAYS_USED)
    gpus: GpuRequest | None = field(default=None, metadata=shown(section=_ASKING, row="GPUs") | ALWAYS_USED)
    task_directives: tuple[TaskDirective, ...] = field(
        default=("ntasks-per-node", "cpus-per-task"),
        metadata=shown("{}", none="none: the launcher alone says them", section=_ASKING, row="tasks") | ALWAYS_USED,
    )
    launchers: Launchers | None = field(default=None, metadata=shown(section="Launchers"))
    container: Container | None = field(default=None, metadata=shown(section="Containers"))
    environment: Environment = field(default_factory=Environment, metadata=shown(section="Environment") | ALWAYS_USED)
    provides: tuple[Literal["tensorflow", "horovod"], ...] = field(
        default=(), metadata=shown("{}", section="Environment", row="brings")
    )
    folders: Folders = field(default_factory=Folders, metadata=shown(section="Folders") | ALWAYS_USED)
    sbatch: tuple[Line, ...] = field(default=(), metadata=shown("with {}", section=_EVERY_SCRIPT) | ALWAYS_USED)
    refuses: tuple[Line, ...] = field(default=(), metadata=shown("{}", section=_EVERY_SCRIPT))
    remove: tuple[Line, ...] = field(default=(), metadata=shown("{}", section=_EVERY_SCRIPT))
    restart: Literal["requeue", "resubmit", "none"] = field(
        default="requeue", metadata=shown("{}", section=_EVERY_SCRIPT)
    )
    signal: Line | None = field(default=None, metadata=shown("{}", section=_EVERY_SCRIPT))
    secret_env: tuple[VariableName, ...] = field(default=(), metadata=shown("{}", section=_EVERY_SCRIPT))
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
        """What is known of its scheduler."""
        return scheduler_row(self.scheduler)

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
