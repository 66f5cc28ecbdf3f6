"""Which partitions and QOS a person may choose at a site, and what to type instead of a request that none takes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from hpclaunch.config.site import Limits, NodeType, Site
from hpclaunch.core.records import record
from hpclaunch.resolve.limits import Ask, nearest_allowed, suggestion


@record
class Family:
    """The partitions of a site, or its QOS, with their limits.

    ``preferred``: what the node type or the site prefers, else what is in force there by itself. ``required``: whether
    the site takes no job without one.
    """

    name: str
    limits: Mapping[str, Limits]
    preferred: str | None
    required: bool


@record
class Wanted:
    """What is asked for at a site; ``named``: account, partition and QOS as far as a person named them."""

    site: Site
    ask: Ask
    named: Mapping[str, str]

    @property
    def node(self) -> NodeType:
        """The node type that is asked for."""
        return self.site.node_types[self.ask.node_type]

    @property
    def families(self) -> tuple[Family, Family]:
        """The partitions and the QOS of the site, in this order."""
        site, node = self.site, self.node
        return (
            _family("partition", site.partitions, node.partition or site.defaults.partition, site),
            _family("qos", site.qos, node.qos or site.defaults.qos, site),
        )


def _family(name: str, limits: Mapping[str, Limits], preferred: str | None, site: Site) -> Family:
    by_itself = next((key for key, one in limits.items() if one.implicit), None)
    return Family(name=name, limits=limits, preferred=preferred or by_itself, required=name in site.required)


def alternative(wanted: Wanted) -> str:
    """Return what to type instead: the nearest request that some partition and QOS of the site take together."""
    flags = _nearest_flags(wanted)
    if flags is not None:
        return f"{flags} would be taken"
    for family in ("partition", "qos"):  # what was named may be of no use for these nodes, and not needed either
        if family not in wanted.named:
            continue
        rest = {key: name for key, name in wanted.named.items() if key != family}
        flags = _nearest_flags(Wanted(site=wanted.site, ask=wanted.ask, named=rest))
        if flags is not None:
            return f"{flags or 'the same'} without {family} {wanted.named[family]!r} would be taken"
    return "ask for less"


def longest_piece(wanted: Wanted) -> int:
    """Return the longest walltime (seconds) up to the asked one that a place takes for the same nodes; 0: none does.

    Where a person named a partition or a QOS, no other is looked at.
    """
    ask, available = wanted.ask, Limits(max_nodes=wanted.node.nodes)
    choices = []
    for family in wanted.families:
        name = wanted.named.get(family.name, "")
        named = [family.limits[name]] if name in family.limits else []
        choices.append(named or [limits for _, limits in _open_places(family, wanted)])
    near = [nearest_allowed([available, *limits], ask) for limits in itertools.product(*choices)]
    return max((one.walltime for one in near if one and (one.nodes, one.gpus) == (ask.nodes, ask.gpus)), default=0)


def implied_node_type(site: Site, partition: str) -> str | None:
    """Return the node type of a partition that was named, where the site's default one is not in it."""
    found = list(site.partitions[partition].node_types) if partition in site.partitions else []
    found += [name for name, node in site.node_types.items() if partition and node.partition == partition]
    return None if not found or site.defaults.node_type in found else found[0]


def _nearest_flags(wanted: Wanted) -> str | None:
    """Return the flags to type, or None; there are none to type where leaving a name out is enough."""
    available = Limits(max_nodes=wanted.node.nodes)
    pairs = itertools.product(*(_open_places(family, wanted) for family in wanted.families))
    places = [
        (" ".join(flag for flag, _ in pair if flag), [available, *(limits for _, limits in pair)]) for pair in pairs
    ]
    return suggestion(places, wanted.ask)


def _open_places(family: Family, wanted: Wanted) -> list[tuple[str, Limits]]:
    """Return (flag, limits) of what a person may choose, what was named first."""
    named = wanted.named.get(family.name, "")
    if not family.limits or (not named and not family.preferred and not family.required):
        return [("", Limits())]
    members = [name for name, limits in family.limits.items() if name == named or not limits.only_if_asked]
    members.sort(key=lambda name: (name != named, name != family.preferred))
    return [(_flag(family, name, wanted), family.limits[name]) for name in members]


def _flag(family: Family, name: str, wanted: Wanted) -> str:
    """Return what to type for it: nothing where it holds by itself, and the node type where another would follow."""
    if family.limits[name].implicit and not wanted.named.get(family.name):
        return ""
    site, node_type = wanted.site, wanted.ask.node_type
    follows = node_type
    if family.name == "partition":
        follows = implied_node_type(site, name) or site.defaults.node_type
    return f"--{family.name} {name}" + (f" --node-type {node_type}" if follows != node_type else "")
