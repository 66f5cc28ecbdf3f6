"""What a site file may say about a cluster, and loading one; it never looks at the cluster itself."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from hpclaunch.catalog import SITE, Catalog
from hpclaunch.errors import InvalidFile
from hpclaunch.fileformat import INTERNAL, AtLeast, Environment, Line, PositiveInt, Scalar, VariableName, Walltime, read

SchedulerName = Literal["slurm", "local"]
LauncherName = Literal["direct", "srun", "mpirun", "horovodrun"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Detect:
    """How a login node of the site is known: every key that is given must hold."""

    environment: dict[VariableName, Scalar] = field(default_factory=dict)
    cluster_name: str | None = None

    def holds(self, environment: Mapping[str, str], cluster: str) -> bool:
        """Whether this machine is one of the site's; saying nothing is never true."""
        named = self.cluster_name in (None, cluster) and bool(self.environment or self.cluster_name)
        return named and all(environment.get(name) == value for name, value in self.environment.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where values come from; ``read`` is the date of the source as it was read."""

    id: str
    ref: str
    read: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    """One kind of node. Memory in GB (as the site writes it), ``default_tasks_per_node`` else GPUs, else 1.

    ``stand_in_gpus``: the scheduler hands GPUs out, but nothing can compute on them (a test cluster).
    """

    title: str
    nodes: PositiveInt | None = None
    cores_per_node: PositiveInt
    threads_per_core: PositiveInt = 1
    memory_gb: PositiveInt | None = None
    gpus_per_node: Annotated[int, AtLeast(0)] = 0
    gpu_model: str | None = None
    gpu_memory_gb: PositiveInt | None = None
    stand_in_gpus: bool = False
    constraint: Line | None = None
    partition: Line | None = None
    default_tasks_per_node: PositiveInt | None = None

    @property
    def logical_cpus(self) -> int:
        """What Slurm counts as CPUs: hardware threads."""
        return self.cores_per_node * self.threads_per_core


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a partition or a QOS; walltime in seconds. What is not there is not known, and not checked."""

    max_walltime: Walltime | None = None
    max_nodes: PositiveInt | None = None
    node_types: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What the site chooses where nobody else does."""

    node_type: str
    partition: Line | None = None
    qos: Line | None = None
    account: Line | None = None
    walltime: Walltime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherOptions:
    """How the site wants a launcher called; what is not there is not written."""

    mpi: Line | None = None
    cpu_bind: Line | None = None
    gpu_bind: Line | None = None
    extra: tuple[Line, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launchers:
    """The launchers that work at the site, and the one to use."""

    default: LauncherName
    options: dict[LauncherName, LauncherOptions]

    def __post_init__(self) -> None:
        if self.default not in self.options:
            raise ValueError(f"default {self.default!r} is not among options: {', '.join(self.options)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Paths in which ``$NAME`` is taken from the submitting environment. ``node_private`` ones are not shared."""

    runs: Line | None = None
    data: Line | None = None
    node_private: tuple[Line, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A cluster as one YAML describes it."""

    name: str = field(metadata=INTERNAL)
    title: str
    status: Literal["production", "retired", "test"] = "production"
    scheduler: SchedulerName
    login_shell: bool = False
    detect: Detect | None = None
    defaults: Defaults
    required: tuple[Literal["account", "partition", "qos", "walltime"], ...] = ()
    node_types: Annotated[dict[str, NodeType], AtLeast(1)]
    partitions: dict[str, Limits] = field(default_factory=dict)
    qos: dict[str, Limits] = field(default_factory=dict)
    launchers: Launchers
    environment: Environment = field(default_factory=Environment)
    folders: Folders = field(default_factory=Folders)
    sbatch: tuple[Line, ...] = ()
    omit: tuple[Line, ...] = ()
    notes: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    third_party: tuple[str, ...] = ()
    derived: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        wrong = [
            f"{place} names {name!r}, which is not among {', '.join(known)}"
            for place, name, known in self._references()
            if name not in known
        ]
        if wrong:
            raise ValueError("; ".join(wrong))

    def _references(self) -> list[tuple[str, str, list[str]]]:
        kinds, partitions, qos = list(self.node_types), list(self.partitions), list(self.qos)
        found = [("defaults.node_type", self.defaults.node_type, kinds)]
        if self.defaults.partition and partitions:
            found.append(("defaults.partition", self.defaults.partition, partitions))
        if self.defaults.qos and qos:
            found.append(("defaults.qos", self.defaults.qos, qos))
        for family, members in (("partitions", self.partitions), ("qos", self.qos)):
            for name, limits in members.items():
                found += [(f"{family}.{name}.node_types", kind, kinds) for kind in limits.node_types]
        return found


def load_site(catalog: Catalog, name: str) -> Site:
    """Return the site of that name. Raises NotFound, or InvalidFile with every fault."""
    found = catalog.find(SITE, name)
    return read(found.path, Site, name=name)


def detect_site(environment: Mapping[str, str], cluster_name: str) -> str | None:
    """Return the bundled site that this machine belongs to, or None.

    Only the sites in this table are looked at, so that no site file but the one that is meant is ever read.
    """
    for name, variables, cluster in DETECTED:
        if all(environment.get(key) == value for key, value in variables) and cluster in ("", cluster_name):
            return name
    return None


def detect_own_site(catalog: Catalog, environment: Mapping[str, str], cluster: str) -> str | None:
    """Return the project's or the user's own site whose ``detect`` holds here; a faulty file is passed over."""
    for found in catalog.names(SITE):
        if found.origin == "bundled":
            continue
        try:
            detect = load_site(catalog, found.name).detect
        except InvalidFile:
            continue
        if detect is not None and detect.holds(environment, cluster):
            return found.name
    return None


DETECTED: tuple[tuple[str, tuple[tuple[str, str], ...], str], ...] = (
    ("perlmutter", (("NERSC_HOST", "perlmutter"),), ""),
    ("testcluster", (), "hpctest"),
)
"""Site, environment variables and Slurm cluster name; a test holds it equal to ``detect`` in the site files."""


def cluster_name(environment: Mapping[str, str]) -> str:
    """Return ClusterName from slurm.conf, or nothing: a plain file read, no program is asked."""
    path = Path(environment.get("SLURM_CONF") or "/etc/slurm/slurm.conf")
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    match = re.search(r"^\s*ClusterName\s*=\s*(\S+)", text, re.MULTILINE | re.IGNORECASE)
    return match.group(1) if match else ""
