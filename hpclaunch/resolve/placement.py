"""Account, partition, QOS and walltime: who chose them, and whether the site's limits admit them.

Where nobody names a partition or a QOS, the cheapest that takes the request is chosen; of equally cheap ones the site's
default, then the first in the site file. Why each other one was not is kept.
"""

from __future__ import annotations

import itertools
import re

from hpclaunch.config.settings import Settings, sbatch_variables
from hpclaunch.config.site import Limits, NodeType, Site
from hpclaunch.core.errors import did_you_mean
from hpclaunch.core.records import record
from hpclaunch.core.spec import Declined, Request, Surroundings
from hpclaunch.resolve.decisions import Ledger
from hpclaunch.resolve.limits import Ask, breaches, closest, nearest

SETTINGS_HINT = "~/.config/hpclaunch/settings.yaml"
_NAME = re.compile(r"[A-Za-z0-9_.,:@+=&|*()\[\]-]+")
_FAMILIES = ("partition", "qos")


@record
class Placement:
    """Where the run goes; empty text and a walltime of 0 mean "not said, so the scheduler's own default".

    ``limits`` are those of the partition and the QOS, as far as the site file knows them.
    """

    account: str = ""
    partition: str = ""
    qos: str = ""
    walltime: int = 0
    limits: tuple[Limits, ...] = ()

    def whole_nodes(self, node: NodeType) -> bool:
        """Whether no other job will run on these nodes."""
        said = [limits.whole_nodes for limits in self.limits if limits.whole_nodes is not None]
        return said[-1] if said else node.whole_nodes


def asked_names(
    site: Site, request: Request, settings: Settings, around: Surroundings, ledger: Ledger
) -> dict[str, str]:
    """Return account, partition and QOS as far as a person named them."""
    if site.scheduler != "slurm":
        _refuse_slurm_words(site, request, ledger)
        return {}
    found = {}
    for key in ("account", *_FAMILIES):
        variable, from_shell = sbatch_variables(around.environment).get(key, ("", None))
        value = ledger.pick(
            key, (f"--{key}", getattr(request, key)), (variable, from_shell), settings.offer(key, site.name)
        )
        if value is None:
            continue
        found[key] = value
        if not _NAME.fullmatch(value):
            ledger.fault(f"{key} {value!r} holds a character that no Slurm {key} has", where=f"--{key}")
    return found


def placement_of(
    site: Site, ask: Ask, asked: dict[str, str], memory: int | None, accepted: bool, ledger: Ledger
) -> Placement:
    """Return the placement; every limit that the request breaks is a fault.

    ``memory`` (MB) as typed or in the job. ``accepted``: names that the site file does not know are taken as they are.
    """
    if site.scheduler != "slurm":
        _check_available(site, ask, asked, ledger)
        return Placement(walltime=ask.walltime)
    account = asked.get("account") or site.defaults.account or ""
    if account and "account" not in asked:
        ledger.pick("account", (f"site {site.name}", account))
    names = {"account": account}
    limits: list[Limits] = []
    for family, known in (("partition", site.partitions), ("qos", site.qos)):
        name = asked.get(family)
        if name is None:
            name = _chosen(family, known, site, ask, asked, ledger)
        elif known:
            _check_named(family, name, known, site, ask, asked, accepted, ledger)
        names[family] = "" if name in known and known[name].implicit and family not in asked else name
        limits += _first_fitting(name, known, ask)
    _check_available(site, ask, asked, ledger)
    _check_required(site, names, ask, memory, ledger)
    return Placement(**names, walltime=ask.walltime, limits=tuple(limits))


def _check_available(site: Site, ask: Ask, asked: dict[str, str], ledger: Ledger) -> None:
    most = site.node_types[ask.kind].nodes
    if most is not None and ask.nodes > most:
        ledger.fault(
            f"{ask.nodes} nodes asked for",
            where=f"{site.name} {ask.kind}",
            allowed=f"at most {most} nodes",
            next=alternative(site, ask, asked),
        )


def _first_fitting(name: str, known: dict[str, Limits], ask: Ask) -> list[Limits]:
    """Return the limits of the first of several partitions (``a,b``) that takes the request, else of the first."""
    named = [known[one] for one in name.split(",") if one in known]
    return [one for one in named if not breaches(one, ask)][:1] or named[:1]


def _check_required(site: Site, names: dict[str, str], ask: Ask, memory: int | None, ledger: Ledger) -> None:
    said = {**names, "walltime": ask.walltime, "memory": memory or site.node_types[ask.kind].request_memory}
    refused = {fault.where for fault in ledger.faults}
    for key in site.required:
        if not said[key] and f"{site.name} {key}" not in refused:
            in_settings = f", or '{key}: …' in the settings file ({SETTINGS_HINT})" if key != "memory" else ""
            ledger.fault(f"{site.name} needs {key} to be said", next=f"--{key}{in_settings}")


def _preferred(family: str, site: Site, kind: str) -> str | None:
    """Return what the node type or the site prefers, else what is in force there by itself."""
    own: str | None = getattr(site.node_types[kind], family)
    default: str | None = getattr(site.defaults, family)
    known: dict[str, Limits] = site.partitions if family == "partition" else site.qos
    return own or default or next((name for name, limits in known.items() if limits.implicit), None)


def _chosen(family: str, known: dict[str, Limits], site: Site, ask: Ask, asked: dict[str, str], ledger: Ledger) -> str:
    """Return the best fitting partition or QOS; nothing where the site neither prefers nor requires any."""
    preferred = _preferred(family, site, ask.kind)
    node = site.node_types[ask.kind]
    if not known or (preferred is None and family not in site.required):
        return ledger.pick(family, (_chooser(family, preferred or "", site, node), preferred)) or ""
    refusals = {name: breaches(limits, ask) for name, limits in known.items()}
    fitting = [name for name in known if not refusals[name] and not known[name].only_if_asked]
    if not fitting:
        _nothing_fits(family, known, site, ask, asked, ledger)
        return ""
    order = list(known)
    best = min(fitting, key=lambda name: (_price(known[name], node, ask), name != preferred, order.index(name)))
    others = [name for name in known if name != best]
    for name in others:
        reason = "; ".join(map(str, refusals[name])) or _passed_over(known[name], known[best], best, node, ask)
        ledger.declined.append(Declined(key=family, value=name, reason=reason))
    ledger.pick(family, (_chooser(family, best, site, node), best))
    return best


def _chooser(family: str, name: str, site: Site, node: NodeType) -> str:
    if name == getattr(node, family):
        return f"node type of {site.name}"
    return f"site {site.name}" if name == getattr(site.defaults, family) else "best fit"


def _price(limits: Limits, node: NodeType, ask: Ask) -> float:
    """Return what an hour costs in proportion to a whole node at factor 1."""
    whole = node.whole_nodes if limits.whole_nodes is None else limits.whole_nodes
    part = 1.0 if whole or not node.gpus_per_node else ask.gpus / node.gpus_per_node
    return part * (1.0 if limits.charge_factor is None else limits.charge_factor)


def _passed_over(limits: Limits, best: Limits, name: str, node: NodeType, ask: Ask) -> str:
    if limits.only_if_asked:
        return "only if asked for" + (f" ({limits.note})" if limits.note else "")
    dearer = _price(limits, node, ask) > _price(best, node, ask)
    return f"costs more than {name}" if dearer else f"would do; {name} comes first"


def _nothing_fits(
    family: str, known: dict[str, Limits], site: Site, ask: Ask, asked: dict[str, str], ledger: Ledger
) -> None:
    refused = [
        f"{name} ({'; '.join(map(str, found)) if (found := breaches(limits, ask)) else 'only if asked for'})"
        for name, limits in known.items()
        if not limits.node_types or ask.kind in limits.node_types
    ]
    ledger.fault(
        f"no {family} takes {ask}" + (f": {', '.join(refused)}" if refused else ""),
        where=f"{site.name} {family}",
        next=alternative(site, ask, asked),
    )


def _check_named(
    family: str,
    name: str,
    known: dict[str, Limits],
    site: Site,
    ask: Ask,
    asked: dict[str, str],
    accepted: bool,
    ledger: Ledger,
) -> None:
    names = name.split(",") if family == "partition" else [name]  # Slurm starts a job in the first that is free
    unknown = [one for one in names if one not in known]
    if unknown and accepted:
        ledger.warnings.append(f"{family} {', '.join(unknown)} is not in the site file: its limits are not checked")
        return
    for one in unknown:
        from difflib import get_close_matches  # costs 5 ms, and only an error needs it

        like = get_close_matches(one, known, n=1) or [one]
        ledger.fault(
            f"{site.name} has no {family} {one!r}{did_you_mean(one, known)}",
            where=f"{site.name} {family}",
            allowed=", ".join(known),
            next=f"{alternative(site, ask, {**asked, family: like[0]})}; --accept-unverified takes {one!r} as it is",
        )
    refusals = [breaches(known[one], ask) for one in names if one in known]
    for breach in refusals[0] if refusals and not unknown and all(refusals) else ():
        ledger.fault(
            breach.what,
            where=f"{site.name} {family} {name}",
            allowed=breach.allowed,
            next=alternative(site, ask, asked),
        )


def alternative(site: Site, ask: Ask, asked: dict[str, str]) -> str:
    """Return what to type instead: the nearest request that some partition and QOS of the site take together."""
    typed = _nearest(site, ask, asked)
    if typed is not None:
        return f"{typed} would be taken"
    for family in _FAMILIES:  # what was named may be of no use for these nodes, and not needed either
        rest = {key: name for key, name in asked.items() if key != family}
        typed = _nearest(site, ask, rest) if family in asked else None
        if typed is not None:
            return f"{typed or 'the same'} without {family} {asked[family]!r} would be taken"
    return "ask for less"


def longest_piece(site: Site, ask: Ask, asked: dict[str, str]) -> int:
    """Return the longest walltime (seconds) up to the asked one that a place takes for the same nodes; 0: none does.

    Where a person named a partition or a QOS, no other is looked at.
    """
    available = Limits(max_nodes=site.node_types[ask.kind].nodes)
    families = []
    for family, known in (("partition", site.partitions), ("qos", site.qos)):
        named = [known[asked[family]]] if asked.get(family) in known else []
        families.append(named or [limits for _, limits in _open(family, site, ask, asked)])
    near = [nearest([available, *limits], ask) for limits in itertools.product(*families)]
    return max((one.walltime for one in near if one and (one.nodes, one.gpus) == (ask.nodes, ask.gpus)), default=0)


def _nearest(site: Site, ask: Ask, asked: dict[str, str]) -> str | None:
    """Return the flags to type, or None; there are none to type where leaving a name out is enough."""
    available = Limits(max_nodes=site.node_types[ask.kind].nodes)
    pairs = itertools.product(_open("partition", site, ask, asked), _open("qos", site, ask, asked))
    places = [
        (" ".join(flag for flag, _ in pair if flag), [available, *(limits for _, limits in pair)]) for pair in pairs
    ]
    return closest(places, ask)


def _open(family: str, site: Site, ask: Ask, asked: dict[str, str]) -> list[tuple[str, Limits]]:
    """Return (flag, limits) of what a person may choose, what was named first."""
    known: dict[str, Limits] = site.partitions if family == "partition" else site.qos
    named = asked.get(family, "")
    if not known or (not named and not _preferred(family, site, ask.kind) and family not in site.required):
        return [("", Limits())]
    members = [(name, one) for name, one in known.items() if name == named or not one.only_if_asked]
    members.sort(key=lambda one: (one[0] != named, one[0] != _preferred(family, site, ask.kind)))
    return [(_flag(family, name, one, site, ask, named), one) for name, one in members]


def _flag(family: str, name: str, limits: Limits, site: Site, ask: Ask, named: str) -> str:
    """Return what to type for it: nothing where it holds by itself, and the node type where another would follow."""
    if limits.implicit and not named:
        return ""
    follows = implied_kind(site, name) or site.defaults.node_type if family == "partition" else ask.kind
    return f"--{family} {name}" + (f" --node-type {ask.kind}" if follows != ask.kind else "")


def implied_kind(site: Site, partition: str) -> str | None:
    """Return the node type of a partition that was named, where the site's default one is not in it."""
    kinds = list(site.partitions[partition].node_types) if partition in site.partitions else []
    kinds += [kind for kind, node in site.node_types.items() if partition and node.partition == partition]
    usual = not kinds or site.defaults.node_type in kinds
    return None if usual else kinds[0]


def _refuse_slurm_words(site: Site, request: Request, ledger: Ledger) -> None:
    typed = [key for key in ("account", "partition", "qos", "memory") if getattr(request, key)]
    typed += ["sbatch"] if request.sbatch else []
    for key in typed:
        ledger.fault(
            f"--{key} means nothing at {site.name}, which has no scheduler",
            next=f"leave --{key} out, or name a Slurm site (hpclaunch sites list)",
        )
