"""What a partition or a QOS refuses, and the nearest request that it would accept; used for Slurm's live limits too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hpclaunch.config.limits import Limits
from hpclaunch.core.errors import Subject
from hpclaunch.core.records import record
from hpclaunch.core.units import count, format_memory, format_walltime


@record
class Ask:
    """What limits apply to in a request: nodes of a type, GPUs per node, and walltime in seconds (0: not given).

    ``gpu_type``: the type by which GPUs are asked for (empty: by number alone). ``tasks``, ``cpus`` and ``memory`` (MB)
    are those of a node (0: not known). ``of_several_types``: the nodes are a component of a heterogeneous job.
    ``held_cpus``, ``held_gpus`` and ``held_memory`` (MB): what the job gets of each node although it asks for less,
    as no other job may use its nodes (0: as it asks). Upper limits count these, lower ones what is asked for.
    """

    node_type: str
    nodes: int
    gpus: int
    walltime: int
    gpu_type: str = ""
    tasks: int = 0
    cpus: int = 0
    memory: int = 0
    of_several_types: bool = False
    held_cpus: int = 0
    held_gpus: int = 0
    held_memory: int = 0

    def __str__(self) -> str:
        time = f" for {format_walltime(self.walltime)}" if self.walltime else ""
        return f"{count(self.nodes, f'{self.node_type} node')}{time}"


@record
class Violation:
    """One limit that a request violates: what was requested, and what is allowed."""

    what: str
    allowed: str
    subject: Subject = ""

    def __str__(self) -> str:
        return f"{self.what}; allowed: {self.allowed}"


def violations(limits: Limits, ask: Ask) -> list[Violation]:
    """Return every limit that the request violates."""
    limits = limits.of(ask.node_type)
    found = []
    if not limits.has_nodes_of(ask.node_type):
        found.append(Violation(what=f"node type {ask.node_type} requested", allowed=", ".join(limits.node_types)))
    most = most_nodes(limits)
    if most is not None and ask.nodes > most:
        found.append(Violation(what=_nodes(ask), allowed=f"at most {count(most, 'node')}"))
    if limits.min_nodes is not None and ask.nodes < limits.min_nodes:
        found.append(Violation(what=_nodes(ask), allowed=f"at least {count(limits.min_nodes, 'node')}"))
    found += _amount_violations(limits, ask)
    longest, why = longest_walltime(limits, ask.nodes)
    if longest is not None and ask.walltime > longest:
        what = f"walltime {format_walltime(ask.walltime)} requested"
        found.append(Violation(what=what, allowed=f"at most {format_walltime(longest)}{why}"))
    return found


def _amount_violations(limits: Limits, ask: Ask) -> list[Violation]:
    """Return the violated limits of GPUs, CPUs and memory. What is not known of the request violates nothing."""
    kind, nodes = ask.gpu_type, ask.nodes
    gpus, cpus, memory = ask.held_gpus or ask.gpus, ask.held_cpus or ask.cpus, ask.held_memory or ask.memory
    found = [
        *_compare_amount(gpus, "GPU", most=limits.max_gpus_per_node, place=" per node", held=ask.held_gpus),
        *_compare_amount(nodes * gpus, "GPU", most=limits.max_gpus, held=ask.held_gpus),
        *_compare_amount(nodes * ask.gpus, "GPU", least=limits.min_gpus),
    ]
    if kind:
        noun = f"{kind} GPU"
        most, most_here = limits.max_gpus_of_type.get(kind), limits.max_gpus_of_type_per_node.get(kind)
        found += _compare_amount(gpus, noun, most=most_here, place=" per node", held=ask.held_gpus)
        found += _compare_amount(nodes * gpus, noun, most=most, held=ask.held_gpus)
    for name, least in limits.min_gpus_of_type.items():
        found += _compare_amount(nodes * ask.gpus if name == kind else 0, f"{name} GPU", least=least)
    if cpus:
        found += _compare_amount(cpus, "CPU", most=limits.max_cpus_per_node, place=" per node", held=ask.held_cpus)
        found += _compare_amount(nodes * cpus, "CPU", most=limits.max_cpus, held=ask.held_cpus)
    if ask.cpus:
        found += _compare_amount(nodes * ask.cpus, "CPU", least=limits.min_cpus)
    if memory:
        here, place = limits.max_memory_per_node, " of memory"
        found += _compare_amount(memory, "", most=here, place=f"{place} per node", held=ask.held_memory)
        found += _compare_amount(nodes * memory, "", most=limits.max_memory, place=place, held=ask.held_memory)
    if ask.memory:
        found += _compare_amount(nodes * ask.memory, "", least=limits.min_memory, place=" of memory")
    return found


def _compare_amount(
    asked: int, noun: str, most: int | None = None, least: int | None = None, place: str = "", held: int = 0
) -> list[Violation]:
    """Return what is more than ``most`` or less than ``least``, in ``noun`` (empty: memory in MB).

    ``held`` (not 0): it is what the job gets with whole nodes.
    """

    def words(number: int) -> str:
        return (count(number, noun) if noun else format_memory(number)) + place

    subject: Subject = "GPUs" if noun.endswith("GPU") else ""
    found = []
    if most is not None and asked > most:
        what = f"{words(asked)} requested{' with whole nodes' if held else ''}"
        found.append(Violation(what=what, allowed=f"at most {words(most)}", subject=subject))
    if least is not None and asked < least:
        found.append(Violation(what=f"{words(asked)} requested", allowed=f"at least {words(least)}", subject=subject))
    return found


def _nodes(ask: Ask) -> str:
    return f"{count(ask.nodes, 'node')} requested"


def most_nodes(limits: Limits) -> int | None:
    """Return the most nodes that one job may have, or None.

    The largest bin is a limit only if no walltime is given for larger jobs.
    """
    binned = max((size.max_nodes for size in limits.bins), default=None) if limits.max_walltime is None else None
    return min((most for most in (limits.max_nodes, binned) if most is not None), default=None)


def longest_walltime(limits: Limits, nodes: int) -> tuple[int | None, str]:
    """Return the longest walltime (seconds, or None) for a node count, and a remark where it depends on the count."""
    fitting = [size for size in limits.bins if nodes <= size.max_nodes]
    if not fitting:
        return limits.max_walltime, ""
    smallest = min(fitting, key=lambda size: size.max_nodes)
    return smallest.max_walltime, f" with up to {count(smallest.max_nodes, 'node')}"


def nearest_allowed(all_limits: Sequence[Limits], ask: Ask) -> Ask | None:
    """Return the request nearest to this one that all the limits allow, or None; the node type stays the same."""
    several = [limits.of(ask.node_type) for limits in all_limits]
    kind = ask.gpu_type
    of_job = _known_numbers(number for one in several for number in (one.max_gpus, one.max_gpus_of_type.get(kind)))
    of_node = _known_numbers(
        number for one in several for number in (one.max_gpus_per_node, one.max_gpus_of_type_per_node.get(kind))
    )
    gpus = ask.gpus if ask.held_gpus else min([ask.gpus, *of_node, *of_job])
    if ask.gpus and not gpus:
        return None
    nodes = min([ask.nodes, *_known_numbers(map(most_nodes, several))])
    if nodes < 1:
        return None
    if gpus and of_job:
        nodes = min(nodes, min(of_job) // (ask.held_gpus or gpus))
    cpus = ask.cpus if gpus == ask.gpus or not ask.tasks else ask.cpus // ask.tasks * gpus
    nodes, cpus = _fewer_cpus(
        several, replace(ask, nodes=nodes, cpus=cpus, tasks=gpus if gpus != ask.gpus else ask.tasks)
    )
    if nodes < 1 or (ask.cpus and not cpus):
        return None  # less than a node, or than a CPU for each task
    nodes = max([nodes, *_known_numbers(one.min_nodes for one in several)])
    if gpus:
        least = _known_numbers(number for one in several for number in (one.min_gpus, one.min_gpus_of_type.get(kind)))
        nodes = max([nodes, *(-(-number // gpus) for number in least)])
    if cpus:
        nodes = max([nodes, *(-(-number // cpus) for number in _known_numbers(one.min_cpus for one in several))])
    times = [longest for limits in several if (longest := longest_walltime(limits, nodes)[0])]
    near = replace(ask, nodes=nodes, gpus=gpus, cpus=cpus, walltime=min([ask.walltime, *times]))
    got = ask.held_memory or ask.memory
    if (memory := _fitting_memory(several, nodes, got)) != got:
        near = replace(near, memory=memory, held_memory=0)  # memory that is asked for by itself is held as it is
    return None if any(violations(limits, near) for limits in several) else near


def _known_numbers(values: Iterable[int | None]) -> list[int]:
    return [value for value in values if value is not None]


def _fewer_cpus(several: Sequence[Limits], ask: Ask) -> tuple[int, int]:
    """Return nodes and CPUs of a node that the limits of CPUs allow: fewer nodes first, then fewer CPUs of a task."""
    most = _known_numbers(one.max_cpus for one in several)
    if ask.held_cpus:
        return min([ask.nodes, *(number // ask.held_cpus for number in most)]), ask.cpus
    nodes, cpus = ask.nodes, min([ask.cpus, *_known_numbers(one.max_cpus_per_node for one in several)])
    if cpus and most:
        nodes = max(1, min(nodes, min(most) // cpus))
        cpus = min(cpus, min(most) // nodes)
    return nodes, cpus if cpus == ask.cpus or not ask.tasks else cpus // ask.tasks * ask.tasks


def _fitting_memory(several: Sequence[Limits], nodes: int, memory: int) -> int:
    """Return the memory of a node (MB) nearest to this one that the limits allow; 0: not known."""
    if not memory:
        return 0
    most = [*_known_numbers(one.max_memory_per_node for one in several)]
    most += [number // max(1, nodes) for number in _known_numbers(one.max_memory for one in several)]
    least = [-(-number // max(1, nodes)) for number in _known_numbers(one.min_memory for one in several)]
    return max([min([memory, *most]), *least])


def flags(ask: Ask, near: Ask) -> str:
    """Return the flags that change ``ask`` into ``near``."""
    words = []
    if near.nodes != ask.nodes:
        words.append(f"--node-type {ask.node_type}:{near.nodes},…" if ask.of_several_types else f"--nodes {near.nodes}")
    if near.gpus != ask.gpus:
        words.append(f"--tasks-per-node {near.gpus} --gpus-per-node {near.gpus}")
    tasks = near.tasks if near.gpus == ask.gpus else near.gpus
    if tasks and near.cpus // tasks != ask.cpus // max(1, ask.tasks):
        words.append(f"--cpus-per-task {near.cpus // tasks}")
    if near.memory != ask.memory:
        words.append(f"--memory {format_memory(near.memory)}")
    if near.walltime != ask.walltime:
        words.append(f"--walltime {format_walltime(near.walltime)}")
    return " ".join(words)


def distance(ask: Ask, near: Ask) -> float:
    """Return how far apart two requests are: the product of the factors by which each quantity changes."""
    ratio = 1.0
    pairs = ((ask.nodes, near.nodes), (ask.gpus, near.gpus), (ask.cpus, near.cpus), (ask.memory, near.memory))
    for one, other in (*pairs, (ask.walltime, near.walltime)):
        if one != other:
            ratio *= max(one, other) / max(1, min(one, other))
    return ratio


def suggestion(places: Iterable[tuple[str, Sequence[Limits]]], ask: Ask) -> str | None:
    """Return the flags of the nearest request that one of the places accepts, or None where no place accepts any.

    A place is (the flags that name it, its limits). Of equally near requests the first is returned.
    """
    nearest = [(distance(ask, near), place, near) for place, limits in places if (near := nearest_allowed(limits, ask))]
    if not nearest:
        return None
    _, place, near = min(nearest, key=lambda candidate: candidate[0])
    return f"{flags(ask, near)} {place}".strip()
