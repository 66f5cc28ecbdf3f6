"""The limits of a partition or a QOS, as a site file writes them; a limit that it leaves out is not known."""

from dataclasses import field, replace
from typing import Annotated, Literal

from hpclaunch.config.fileformat import AtLeast, Line, Memory, NotNegative, PositiveInt, Walltime
from hpclaunch.config.wording import shown
from hpclaunch.core.records import record

WHOLE_NODES = {"yes": "whole nodes only", "no": "nodes may be shared"}
"""The words for whether jobs share nodes."""

Count = Annotated[int, AtLeast(0)]
"""How many of something are allowed; 0: none of it."""


Liftable = Literal["min_nodes", "max_nodes", "max_walltime"]
"""A limit of a partition that a QOS can lift."""


@record
class Bin:
    """Jobs of up to ``max_nodes`` nodes may run for ``max_walltime`` seconds."""

    max_nodes: PositiveInt = field(metadata=shown(noun="node"))
    max_walltime: Walltime = field(metadata=shown("{}"))


@record
class Override:
    """What differs for one node type: limits, and the ``sbatch`` options that are added."""

    max_nodes: PositiveInt | None = field(default=None, metadata=shown("at most {}", noun="node"))
    max_walltime: Walltime | None = field(default=None, metadata=shown("at most {}"))
    sbatch: tuple[Line, ...] = field(default=(), metadata=shown("with {}"))


@record
class Preemption:
    """How the jobs of a partition or QOS are preempted; in seconds.

    ``safe``: no job is preempted earlier after its start. ``grace``: the time from the signal to the end.
    """

    safe: Walltime | None = field(default=None, metadata=shown("never preempted in the first {}"))
    grace: Walltime | None = field(default=None, metadata=shown("a preempted job has {} to save"))

    def __post_init__(self) -> None:
        if self.safe is None and self.grace is None:
            raise ValueError("give 'safe', 'grace' or both; if neither is known, leave 'preemption' out")


@record
class Limits:
    """Limits of a partition or a QOS; walltime in seconds.

    ``only_if_asked``: used only if a person names it (interactive, preemptible, restricted). ``interactive``: for
    interactive work, so ``hpclaunch shell`` prefers it. ``implicit``: it applies without a directive. ``whole_nodes``:
    if it differs from that of the node type. ``charge_factor`` multiplies the cost. ``sbatch`` options are added with
    it. ``max_jobs`` and ``max_running`` are per user. CPUs (as the scheduler counts them), memory (MB) and GPUs
    are those of one job, or of it on one node; ``…_of_type``: of the GPUs that it asks for by their type.
    A job of more GPUs than ``max_gpus_per_user`` is warned about: it does not start, unless the site's staff raise the
    limit.
    ``permission``: what a project or a job needs to use it. ``preemption``: its jobs may be stopped for others.
    ``lifts``: the limits of the other kind that do not hold beside this one: of a QOS, those of the partition, which
    it overrides (Slurm's flags PartitionTimeLimit, PartitionMinNodes, PartitionMaxNodes); of a partition, those of the
    QOS (Slurm counts what the partition's own QOS says instead).
    """

    min_nodes: PositiveInt | None = field(default=None, metadata=shown("at least {}", noun="node"))
    max_nodes: Count | None = field(default=None, metadata=shown("at most {}", noun="node"))
    max_walltime: Walltime | None = field(default=None, metadata=shown("at most {}"))
    bins: tuple[Bin, ...] = field(default=(), metadata=shown(each="{max_walltime} with up to {max_nodes}", joiner="; "))
    by_node_type: dict[str, Override] = field(default_factory=dict, metadata=shown(member="{}: {}"))
    max_gpus_per_node: Count | None = field(default=None, metadata=shown("at most {} per node", noun="GPU"))
    max_gpus: Count | None = field(default=None, metadata=shown("at most {} per job", noun="GPU"))
    min_gpus: PositiveInt | None = field(default=None, metadata=shown("at least {} per job", noun="GPU"))
    max_gpus_per_user: PositiveInt | None = field(
        default=None, metadata=shown("at most {} of a user at a time", noun="GPU")
    )
    max_gpus_of_type: dict[Line, Count] = field(
        default_factory=dict, metadata=shown(member="at most {1} {0} GPUs per job")
    )
    min_gpus_of_type: dict[Line, Count] = field(
        default_factory=dict, metadata=shown(member="at least {1} {0} GPUs per job")
    )
    max_gpus_of_type_per_node: dict[Line, Count] = field(
        default_factory=dict, metadata=shown(member="at most {1} {0} GPUs per node")
    )
    max_cpus: Count | None = field(default=None, metadata=shown("at most {} per job", noun="CPU"))
    min_cpus: Count | None = field(default=None, metadata=shown("at least {} per job", noun="CPU"))
    max_cpus_per_node: Count | None = field(default=None, metadata=shown("at most {} per node", noun="CPU"))
    max_memory: Memory | None = field(default=None, metadata=shown("at most {} of memory per job"))
    min_memory: Memory | None = field(default=None, metadata=shown("at least {} of memory per job"))
    max_memory_per_node: Memory | None = field(default=None, metadata=shown("at most {} of memory per node"))
    max_jobs: Count | None = field(default=None, metadata=shown("{} per user", noun="job"))
    max_running: Count | None = field(default=None, metadata=shown("{} per user", noun="running job"))
    node_types: tuple[str, ...] = field(default=(), metadata=shown("for {}"))
    whole_nodes: bool | None = field(default=None, metadata=shown(**WHOLE_NODES))
    only_if_asked: bool = field(default=False, metadata=shown(yes="only if named", no="may be chosen for you"))
    interactive: bool = field(default=False, metadata=shown(yes="for hpclaunch shell", no="not for interactive work"))
    implicit: bool = field(default=False, metadata=shown(yes="applies without a directive", no="needs its directive"))
    permission: Line | None = field(default=None, metadata=shown("{}"))
    preemption: Preemption | None = field(default=None)
    charge_factor: NotNegative | None = field(default=None, metadata=shown("costs x {}"))
    lifts: tuple[Liftable, ...] = field(default=(), metadata=shown("lifts {}"))
    sbatch: tuple[Line, ...] = field(default=(), metadata=shown("with {}"))
    note: str = field(default="", metadata=shown("{}"))

    def has_nodes_of(self, node_type: str) -> bool:
        """Whether it has nodes of this type; without a list of node types it has nodes of every type."""
        return not self.node_types or node_type in self.node_types

    def of(self, node_type: str) -> "Limits":
        """Return the limits for a node type."""
        override = self.by_node_type.get(node_type)
        if override is None:
            return self
        return replace(
            self,
            max_nodes=override.max_nodes or self.max_nodes,
            max_walltime=override.max_walltime or self.max_walltime,
            sbatch=override.sbatch or self.sbatch,
        )

    def without(self, lifted: tuple[Liftable, ...]) -> "Limits":
        """Return the limits without these, for every node type."""
        if not lifted:
            return self
        nodes, time = "max_nodes" not in lifted, "max_walltime" not in lifted
        by_node_type = {
            name: replace(
                one, max_nodes=one.max_nodes if nodes else None, max_walltime=one.max_walltime if time else None
            )
            for name, one in self.by_node_type.items()
        }
        return replace(
            self,
            min_nodes=self.min_nodes if "min_nodes" not in lifted else None,
            max_nodes=self.max_nodes if nodes else None,
            max_walltime=self.max_walltime if time else None,
            bins=self.bins if time else (),
            by_node_type=by_node_type,
        )


def together(partition: Limits, qos: Limits) -> tuple[Limits, Limits]:
    """Return the limits of a partition and a QOS that hold when a job has both. What the QOS lifts comes first."""
    lifted_of_qos = tuple(limit for limit in partition.lifts if limit not in qos.lifts)
    return partition.without(qos.lifts), qos.without(lifted_of_qos)
