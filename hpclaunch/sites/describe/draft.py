"""What is known of a cluster and of this machine, and the site file while it is built from that; it decides nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hpclaunch.core.records import record
from hpclaunch.sites.describe.node_types import NodeGroup
from hpclaunch.sites.describe.platforms import Shared
from hpclaunch.sites.slurm_text import Fields

SLURM = "slurm"
"""The scheduler of the sites that are described here; also the name of the source of its values."""
HERE = "here"
"""The name of the source of values that this machine shows."""
PLATFORM = "platform"
"""The name of the source of values that all clusters of a cloud's tool share."""


@record
class Answers:
    """The output of Slurm's programs; empty where a program is missing, fails or prints nothing.

    ``unanswered``: field -> why its program did not answer.
    """

    config: str = ""
    partitions: str = ""
    nodes: str = ""
    sinfo: str = ""
    qos: str = ""
    associations: str = ""
    mpi: str = ""
    gres_conf: str = ""
    unanswered: Mapping[str, str] = field(default_factory=dict)


@record
class Here:
    """What is known of this machine. ``today`` as YYYY-MM-DD.

    ``known_cluster``: the ClusterName that detection reads here. ``python``: the interpreter that runs hpclaunch, if it
    has TensorFlow and a Horovod that MPI can start; else ``python_lacks`` may say what it has not. ``runtimes``: the
    container runtimes; ``launchers``: the MPI launchers on PATH. ``module_setup``: the variable that shows that the
    shell has environment modules. ``platform_folders``: the folders of this machine that tell a cloud's tool;
    ``platforms``: what the clusters of each tool share.
    """

    user: str
    groups: frozenset[str] = frozenset()
    is_root: bool = False
    hostname: str = ""
    known_cluster: str = ""
    python: str = ""
    python_lacks: str = ""
    runtimes: tuple[str, ...] = ()
    launchers: tuple[str, ...] = ()
    module_setup: str = ""
    platform_folders: frozenset[str] = frozenset()
    platforms: tuple[Shared, ...] = ()
    today: str = "undated"


@record
class Cluster:
    """What Slurm's answers say of the cluster.

    ``config``: that of Slurm. ``partitions``: their fields by name. ``homes``: the usual partition of each node type,
    empty text where no partition has such nodes. ``gres_conf``: the text of this file.
    """

    name: str
    config: Fields
    partitions: Mapping[str, Fields]
    groups: Sequence[NodeGroup]
    homes: Mapping[str, str]
    gres_conf: str

    @property
    def has_gpus(self) -> bool:
        """Whether some node has GPUs."""
        return any(group.gpu[1] for group in self.groups)

    def home_fields(self, group: NodeGroup) -> Fields:
        """Return the fields of a node type's usual partition; none where there is no such partition."""
        return self.partitions.get(self.homes[group.name], {})


@record
class Gap:
    """A key that a person must fill in, why hpclaunch cannot know it, and an example of its value."""

    key: str
    why: str
    example: str = ""


@record
class Described:
    """A site file: its values by key, in the file's order, and its gaps. ``name``: a name for the file."""

    name: str
    values: dict[str, Any]
    gaps: tuple[Gap, ...] = ()


@dataclass(slots=True)
class Draft:
    """The site file while it is built: its values, the origin of each, and the gaps."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, list[str]] = field(default_factory=dict)
    derived: dict[str, str] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)

    def add(self, key: str, value: Any, source: str, derived: str = "") -> None:
        """Set a value with its origin, and how it was ``derived``."""
        self.values[key] = value
        self.origins[key] = [source]
        if derived:
            self.derived[key] = derived

    def add_gap(self, key: str, why: str, example: str = "") -> None:
        """Note a key that a person must fill in."""
        self.gaps.append(Gap(key=key, why=why, example=example))
