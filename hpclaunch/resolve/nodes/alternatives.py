"""Which partitions and QOS a person may choose at a site, and the nearest request that they would accept."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from hpclaunch.config.limits import Liftable, Limits, together
from hpclaunch.config.site import NodeType, Site
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.records import record
from hpclaunch.resolve.nodes.limits import Ask, nearest_allowed, suggestion, violations


@record
class Family:
    """The partitions of a site, or its QOS, with their limits.

    ``preferred``: the one that the node type or the site prefers, else the one that applies without being named.
    ``required``: whether the site refuses a job without one.
    """

    name: str
    limits: Mapping[str, Limits]
    preferred: str | None
    required: bool


@record
class Wanted:
    """A request at a site; ``named``: account, partition and QOS as far as a person named them.

    ``interactive``: it is for a shell, in which a person works. ``lifts``: the limits of partitions that a named QOS
    lifts which the site file does not list.
    """

    site: Site
    ask: Ask
    named: Mapping[str, str]
    interactive: bool = False
    lifts: tuple[Liftable, ...] = ()

    @property
    def node(self) -> NodeType:
        """The requested node type."""
        return self.site.node_types[self.ask.node_type]

    @property
    def families(self) -> tuple[Family, Family]:
        """The partitions and the QOS of the site, in this order."""
        site, node = self.site, self.node
        return (
            _family("partition", site.partitions, node.partition or site.defaults.partition, site),
            _family("qos", site.qos, node.qos or site.defaults.qos, site),
        )

    @property
    def qos(self) -> Limits:
        """The limits of the QOS that the job has whatever its partition is: the named one, else the preferred one."""
        _, family = self.families
        name = self.named.get("qos", family.preferred or "")
        limits = family.limits.get(name, Limits(lifts=self.lifts))
        return limits if "qos" in self.named or not violations(limits, self.ask) else Limits()


def _family(name: str, limits: Mapping[str, Limits], preferred: str | None, site: Site) -> Family:
    implicit = next((key for key, place in limits.items() if place.implicit), None)
    return Family(name=name, limits=limits, preferred=preferred or implicit, required=name in site.required)


def alternative(wanted: Wanted) -> str:
    """Return what to type instead: the nearest request that some partition and QOS of the site accept together."""
    flags = _nearest_flags(wanted)
    accepted = "would be accepted"
    if wanted.ask.of_several_types:  # the other components have limits of their own
        accepted += f" for the {wanted.ask.node_type} nodes"
    if flags is not None:
        return f"{flags} {accepted}"
    for family in ("partition", "qos"):  # a named one may refuse these nodes, and the site may not require one
        if family not in wanted.named:
            continue
        rest = {key: name for key, name in wanted.named.items() if key != family}
        flags = _nearest_flags(Wanted(site=wanted.site, ask=wanted.ask, named=rest))
        if flags is not None:
            return f"{flags or 'the same request'} without {family} {wanted.named[family]!r} {accepted}"
    return "request fewer nodes or less time"


def longest_piece(wanted: Wanted) -> int:
    """Return the longest walltime (seconds), up to the requested one, that the site accepts for the same nodes.

    It is 0 where no partition and QOS accept them. A partition or a QOS that a person named is the only one tried.
    """
    ask, available = wanted.ask, Limits(max_nodes=wanted.node.nodes)
    choices = []
    for family in wanted.families:
        name = wanted.named.get(family.name, "")
        named = [family.limits[name]] if name in family.limits else []
        choices.append(named or [limits for _, limits in _open_places(family, wanted)])
    nearest = [nearest_allowed([available, *together(*pair)], ask) for pair in itertools.product(*choices)]
    same_nodes = [near for near in nearest if near and (near.nodes, near.gpus) == (ask.nodes, ask.gpus)]
    return max((near.walltime for near in same_nodes), default=0)


def implied_node_type(site: Site, partition: str) -> str | None:
    """Return the node type of a named partition if it has no nodes of the site's default type."""
    types = list(site.partitions[partition].node_types) if partition in site.partitions else []
    types += [name for name, node in site.node_types.items() if partition and node.partition == partition]
    return None if not types or site.defaults.node_type in types else types[0]


def _nearest_flags(wanted: Wanted) -> str | None:
    """Return the flags of the nearest request that would be accepted (maybe none, as empty text), or None."""
    available = Limits(max_nodes=wanted.node.nodes)
    pairs = itertools.product(*(_open_places(family, wanted) for family in wanted.families))
    places = [
        (" ".join(flag for flag in (one, other) if flag), [available, *together(partition, qos)])
        for (one, partition), (other, qos) in pairs
    ]
    return suggestion(places, wanted.ask)


def _open_places(family: Family, wanted: Wanted) -> list[tuple[str, Limits]]:
    """Return (flag, limits) of every partition or QOS that a person may choose; a named one comes first.

    A named one is for all components of a heterogeneous job: for one of them, none is suggested.
    """
    named = wanted.named.get(family.name, "")
    if not family.limits or (not named and not family.preferred and not family.required):
        return [("", Limits())]
    if wanted.ask.of_several_types:
        open_ones = [("", limits) for limits in family.limits.values() if not limits.only_if_asked]
        return [(f"--{family.name} {shell_word(named)}", family.limits[named])] if named in family.limits else open_ones
    members = [name for name, limits in family.limits.items() if name == named or not limits.only_if_asked]
    members.sort(key=lambda name: (name != named, name != family.preferred))
    return [(_flag(family, name, wanted), family.limits[name]) for name in members]


def _flag(family: Family, name: str, wanted: Wanted) -> str:
    """Return the flag that names it, with the node type if the flag alone would imply another one.

    It is empty where the partition or QOS applies without being named.
    """
    if family.limits[name].implicit and not wanted.named.get(family.name):
        return ""
    site, node_type = wanted.site, wanted.ask.node_type
    follows = node_type
    if family.name == "partition":
        follows = implied_node_type(site, name) or site.defaults.node_type
    return f"--{family.name} {shell_word(name)}" + (f" --node-type {node_type}" if follows != node_type else "")
