"""Account, partition, QOS and walltime: who chose them, and whether the site's limits admit them.

If no partition or QOS is named, the cheapest that accepts the request is chosen. Among equally cheap ones the site's
default comes first, then the order of the site file. Every other one is declined with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

from hpclaunch.config.limits import Liftable, Limits, together
from hpclaunch.config.settings import shell_choices
from hpclaunch.config.site import NodeType
from hpclaunch.core.errors import Subject, did_you_mean
from hpclaunch.core.records import record
from hpclaunch.core.spec import WITH_QUEUE, Declined, LiveNames, Request
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.nodes.alternatives import Family, Wanted, alternative
from hpclaunch.resolve.nodes.limits import Ask, violations

SETTINGS_HINT = "~/.config/hpclaunch/settings.yaml"
_LIFTABLE: tuple[Liftable, ...] = ("max_walltime", "min_nodes", "max_nodes")
_NAME = r"[A-Za-z0-9_.,:@+=&|*()\[\]-]+"
_PARTITION = r"[A-Za-z0-9_.,:@+=&|*()\[\] -]*[^ ]"
"""Slurm's partitions may have blanks inside their names (seen with 22.05)."""


@record
class Placement:
    """Where the run goes; empty text and a walltime of 0 (seconds) stand for the scheduler's own default.

    ``limits`` are those of the partition and the QOS, as far as the site file lists them.
    """

    account: str = ""
    partition: str = ""
    qos: str = ""
    walltime: int = 0
    limits: tuple[Limits, ...] = ()

    def whole_nodes(self, node: NodeType) -> bool:
        """Whether no other job will run on these nodes."""
        known = [limits.whole_nodes for limits in self.limits if limits.whole_nodes is not None]
        return known[-1] if known else node.whole_nodes


def named_places(case: Case, decisions: Decisions) -> dict[str, str]:
    """Return account, partition and QOS as far as flags, the shell's variables or the settings name them."""
    if not case.site.scheduler_row.has_queue:
        _refuse_flags_of_a_queue(case, decisions)
        return {}
    if case.context.allocation:
        from hpclaunch.resolve.nodes.allocation import places_of  # most submissions do without it

        return places_of(case.context.allocation, case.request, decisions)
    request, variables = case.request, shell_choices(case.site.scheduler_row, case.context.environment)
    named = {}
    for key, typed in (("account", request.account), ("partition", request.partition), ("qos", request.qos)):
        variable, from_shell = variables.get(key, ("", None))
        offer = case.settings.offer(key, case.site.name)
        value = decisions.pick(key, (f"--{key}", typed), (variable, from_shell), offer)
        if value is None:
            continue
        named[key] = value
        form = _PARTITION if key == "partition" and re.fullmatch(_NAME, value[:1]) else _NAME
        if not re.fullmatch(form, value):
            what = f"{key} {value!r} contains a character that {case.site.scheduler_row.title} allows in no {key}"
            decisions.fault(what, where=f"--{key}", subject=_subject_of(key))
    return named


def unlisted_places(case: Case) -> dict[str, list[str]]:
    """Return ``partition`` and ``qos`` -> the named ones that the site file lacks, where it lists any of them.

    Where it lists no QOS, the named one is returned only if it may lift a limit that would refuse the request.
    """
    if not case.site.scheduler_row.has_queue or case.request.accept_unverified:
        return {}
    named = named_places(case, Decisions())
    listed = {"partition": case.site.partitions, "qos": case.site.qos}
    found = {key: _unlisted_members(key, named[key], listed[key]) for key in listed if key in named and listed[key]}
    if "qos" in named and not listed["qos"] and _may_need_lifting(case):
        found["qos"] = [named["qos"]]
    return {key: names for key, names in found.items() if names}


def _may_need_lifting(case: Case) -> bool:
    """Whether a partition has a limit of walltime or nodes that a QOS may lift, and that the request violates."""
    request, wants = case.request, case.job.resources
    nodes = request.nodes or wants.nodes
    ask = Ask(
        node_type=request.node_type or case.site.defaults.node_type,
        nodes=nodes if isinstance(nodes, int) else 1,  # not "auto"
        gpus=0,
        walltime=request.walltime or wants.walltime or 0,
    )
    return any(_is_lifted(one, ask, _LIFTABLE) for one in case.site.partitions.values())


def _is_lifted(limits: Limits, ask: Ask, lifts: tuple[Liftable, ...]) -> bool:
    """Whether the request violates a limit that is lifted."""
    return violations(limits, ask) != violations(limits.without(lifts), ask)


def _lifts_of_unlisted(case: Case, named: Mapping[str, str]) -> tuple[Liftable, ...]:
    """Return the limits of partitions that the named QOS lifts, if the site file lacks it: as the scheduler says.

    With --accept-unverified they are all.
    """
    qos = named.get("qos")
    if qos is None or qos in case.site.qos:
        return ()
    if case.request.accept_unverified:
        return _LIFTABLE
    live = case.context.live.get("qos")
    known = live.lifts.get(qos.lower(), ()) if live else ()
    return tuple(limit for limit in _LIFTABLE if limit in known)


def _warn_of_lifted(case: Case, wanted: Wanted, partition: str, decisions: Decisions) -> None:
    """Warn where only a QOS that the site file lacks lets the request into its partition."""
    own = [case.site.partitions[one] for one in partition.split(",") if one in case.site.partitions]
    if wanted.lifts and any(_is_lifted(one, wanted.ask, wanted.lifts) for one in own):
        why = "by --accept-unverified" if case.request.accept_unverified else f"as {_title(case)} says of this QOS"
        what = f"qos {wanted.named['qos']} is not in the site file"
        decisions.warnings.append(f"{what}: limits of partition {partition} are lifted, {why}")


def _title(case: Case) -> str:
    return case.site.scheduler_row.title


def _unlisted_members(family: str, named: str, known: Mapping[str, Limits]) -> list[str]:
    return [one for one in _members(family, named) if one not in known]


def _members(family: str, named: str) -> list[str]:
    return named.split(",") if family == "partition" else [named]  # Slurm starts a job in the first that is free


def placement_of(case: Case, ask: Ask, named: dict[str, str], decisions: Decisions) -> Placement:
    """Return the placement; every limit that the request violates becomes a fault.

    A partition or QOS that is not in the site file is used without a check if the scheduler of this machine has it, or
    with ``--accept-unverified``.
    """
    site, lifts = case.site, _lifts_of_unlisted(case, named)
    wanted = Wanted(site=site, ask=ask, named=named, interactive=case.interactive, lifts=lifts)
    if not site.scheduler_row.has_queue:
        _check_available(wanted, decisions)
        return Placement(walltime=ask.walltime)
    account = named.get("account") or site.defaults.account or ""
    if account and "account" not in named:
        decisions.pick("account", (f"site {site.name}", account))
    _warn_of_other_account(account, wanted, decisions)
    places: dict[str, str] = {}
    limits: list[Limits] = []
    for one in wanted.families:
        family = _drop_lifted_limits(one, wanted, limits)
        name = named.get(family.name)
        if name is None:
            name = _best_fitting(family, wanted, decisions)
        elif family.limits:
            _check_named(case, family, wanted, decisions)
        is_chosen_here = family.name not in named
        # The scheduler finds an implicit one by itself; a person's own choice is still written.
        implicit = is_chosen_here and name in family.limits and family.limits[name].implicit
        places[family.name] = "" if implicit else name
        fitting = _first_fitting(family, name, ask)
        # Whoever names one that is chosen for anybody has the permission.
        if is_chosen_here or any(place.only_if_asked for place in fitting):
            decisions.warnings += [f"{family.name} {name}: {place.permission}" for place in fitting if place.permission]
        if family.name == "partition":
            _warn_of_lifted(case, wanted, name, decisions)
        _warn_of_users_limit(family, name, fitting, ask, decisions)
        limits += [place.of(ask.node_type) for place in fitting]
    _check_available(wanted, decisions)
    partition, qos = places["partition"], places["qos"]
    placement = Placement(account=account, partition=partition, qos=qos, walltime=ask.walltime, limits=tuple(limits))
    _check_required(case, placement, wanted.node, decisions)
    return placement


def _warn_of_other_account(account: str, wanted: Wanted, decisions: Decisions) -> None:
    """Warn of an account for other nodes, as far as its ending tells which nodes it is for."""
    site, node_type, ending = wanted.site, wanted.ask.node_type, wanted.node.account_ending
    if not account or (ending and account.endswith(ending)):
        return
    if ending:
        decisions.warnings.append(f"account {account}: those for {node_type} nodes of {site.name} end in {ending}")
        return
    endings = {name: node.account_ending for name, node in site.node_types.items() if node.account_ending}
    others = [name for name, other in endings.items() if account.endswith(other)]
    if others:
        decisions.warnings.append(
            f"account {account}: at {site.name} this ending is that of accounts for {' and '.join(others)} nodes; "
            f"those for {node_type} nodes have none"
        )


def _drop_lifted_limits(family: Family, wanted: Wanted, of_partition: Sequence[Limits]) -> Family:
    """Return the partitions or QOS with the limits that hold: a QOS may lift those of a partition, and the reverse."""
    if family.name == "partition":
        limits = {name: together(one, wanted.qos)[0] for name, one in family.limits.items()}
    else:
        partition = next(iter(of_partition), Limits())
        limits = {name: together(partition, one)[1] for name, one in family.limits.items()}
    return replace(family, limits=limits)


def _check_available(wanted: Wanted, decisions: Decisions) -> None:
    most, ask = wanted.node.nodes, wanted.ask
    if most is not None and ask.nodes > most:
        decisions.fault(
            f"{ask.nodes} nodes requested",
            where=f"{wanted.site.name} {ask.node_type}",
            allowed=f"at most {most} nodes",
            next=_fewer_nodes(wanted, most),
        )


def _fewer_nodes(wanted: Wanted, most: int) -> str:
    """Return what to type instead of more nodes than there are; a partition that only the scheduler knows stays."""
    own = wanted.named.get("partition", "")
    is_listed = all(name in wanted.site.partitions for name in own.split(","))
    stays = own and wanted.site.partitions and not is_listed
    return f"--nodes {most}, or another --partition" if stays else alternative(wanted)


def _warn_of_users_limit(family: Family, name: str, fitting: list[Limits], ask: Ask, decisions: Decisions) -> None:
    """Warn of a job with more GPUs than a user may have at a time; only the site's staff can let it start."""
    gpus = ask.nodes * ask.gpus
    for most in (one.max_gpus_per_user for one in fitting):
        if most is not None and gpus > most:
            decisions.warnings.append(
                f"{family.name} {name}: {gpus} GPUs requested, but a user has at most {most} at a time; Slurm will not "
                "start the job unless the site's staff raise the limit"
            )


def _first_fitting(family: Family, name: str, ask: Ask) -> list[Limits]:
    """Return the limits of the first of several partitions (``a,b``) that accepts the request, else of the first."""
    known = [family.limits[member] for member in name.split(",") if member in family.limits]
    fitting = [limits for limits in known if not violations(limits, ask)]
    return fitting[:1] or known[:1]


def _check_required(case: Case, placement: Placement, node: NodeType, decisions: Decisions) -> None:
    """Note a fault for everything that the site requires and that is not chosen, unless another fault is about it."""
    memory = case.request.memory or case.job.resources.memory or node.request_memory
    chosen = {
        "account": placement.account or not case.needs_account,
        "partition": placement.partition,
        "qos": placement.qos,
        "walltime": placement.walltime,
        "memory": memory,
    }
    refused = {fault.where for fault in decisions.faults}
    for key in case.site.required:
        if chosen[key] or f"{case.site.name} {key}" in refused:
            continue
        # The settings have no key for memory.
        in_settings = f", or write '{key}: …' in the settings file ({SETTINGS_HINT})" if key != "memory" else ""
        what = f"{case.site.name} requires {key}"
        decisions.fault(what, next=f"add --{key}{in_settings}", subject=_subject_of(key))


def _best_fitting(family: Family, wanted: Wanted, decisions: Decisions) -> str:
    """Return the best fitting partition or QOS; empty text where the site neither prefers nor requires one.

    Every other one is noted with the reason why it was declined. If none fits, that is a fault.
    """
    limits, preferred = family.limits, family.preferred
    refusals = {name: violations(one, wanted.ask) for name, one in limits.items()}
    fitting = [name for name in limits if limits[name].interactive and not refusals[name]] if wanted.interactive else []
    # Without limits nothing can be compared. Where the site neither prefers nor requires one, the scheduler's own
    # default is as good, so that none is written.
    if not limits or (preferred is None and not family.required and not fitting):
        return decisions.pick(family.name, (_origin(family, preferred or "", wanted), preferred)) or ""
    fitting = fitting or [name for name in limits if not refusals[name] and not limits[name].only_if_asked]
    if not fitting:
        _refuse_all(family, wanted, decisions)
        return ""
    # The cheapest; of equally cheap ones the preferred; else the first of the site file (min keeps the order).
    best = min(fitting, key=lambda name: (_price(limits[name], wanted), name != preferred))
    for name, place in limits.items():
        if name != best:
            reason = "; ".join(map(str, refusals[name])) or _why_not(family, name, best, wanted)
            others = not place.has_nodes_of(wanted.ask.node_type)
            declined = Declined(key=family.name, value=name, reason=reason, for_other_nodes=others)
            decisions.declined.append(declined)
    decisions.pick(family.name, (_origin(family, best, wanted), best))
    return best


def _origin(family: Family, name: str, wanted: Wanted) -> str:
    """Return why a partition or a QOS was chosen: the node type or the site prefers it, or it fits best."""
    node, defaults = wanted.node, wanted.site.defaults
    if family.name == "partition":
        of_node_type, of_site = node.partition, defaults.partition
    else:
        of_node_type, of_site = node.qos, defaults.qos
    if name == of_node_type:
        return f"node type of {wanted.site.name}"
    return f"site {wanted.site.name}" if name == of_site else "best fit"


def _price(limits: Limits, wanted: Wanted) -> float:
    """Return the cost of an hour relative to that of a whole node at charge factor 1."""
    node = wanted.node
    whole = node.whole_nodes if limits.whole_nodes is None else limits.whole_nodes
    factor = 1.0 if limits.charge_factor is None else limits.charge_factor
    if whole or not node.gpus_per_node:
        return factor
    return wanted.ask.gpus / node.gpus_per_node * factor  # on shared nodes a job pays for its share of the GPUs


def _why_not(family: Family, name: str, best: str, wanted: Wanted) -> str:
    """Return why a partition or QOS that would accept the request was not chosen."""
    limits = family.limits[name]
    if wanted.interactive and family.limits[best].interactive and not limits.interactive:
        return f"{best} is for interactive work"
    if limits.only_if_asked:
        return "only if named" + (f" ({limits.note})" if limits.note else "")
    costs_more = _price(limits, wanted) > _price(family.limits[best], wanted)
    return f"costs more than {best}" if costs_more else f"would accept the request, but {best} comes first"


def _refuse_all(family: Family, wanted: Wanted, decisions: Decisions) -> None:
    ask = wanted.ask
    refused = []
    for name, limits in family.limits.items():
        if not limits.has_nodes_of(ask.node_type):
            continue  # one for other nodes is of no interest
        reason = "; ".join(map(str, violations(limits, ask))) or "only if named"
        refused.append(f"{name} ({reason})")
    decisions.fault(
        f"no {family.name} accepts {ask}" + (f": {', '.join(refused)}" if refused else ""),
        where=f"{wanted.site.name} {family.name}",
        next=alternative(wanted),
        subject=_subject_of(family.name),
    )


def _check_named(case: Case, family: Family, wanted: Wanted, decisions: Decisions) -> None:
    """Check the partition or QOS that a person named: it must be known, and it must accept the request."""
    named, known = wanted.named[family.name], family.limits
    unlisted = _unlisted_members(family.name, named, known)
    live = case.context.live.get(family.name)
    unknown = [one for one in unlisted if live is None or not _is_among(family, one, live)]
    if unknown and not case.request.accept_unverified:
        _refuse_unknown(family, unknown, wanted, live, decisions)
        return
    if unlisted:
        what = f"{family.name} {', '.join(unlisted)} is not in the site file"
        if not unknown:
            what += f", but {wanted.site.scheduler_row.title} has it"
        is_compared = family.name == "partition" and not unknown  # the submission asks for its limits
        remarks = [] if is_compared else ["its limits are not checked"]
        if family.name == "partition":
            from hpclaunch.resolve.nodes.live_nodes import words_of_nodes

            taken = f"its nodes are taken for {wanted.ask.node_type} nodes (--node-type)"
            remarks.append(words_of_nodes(case, unlisted[0], wanted.ask.node_type) or taken)
        decisions.warnings.append(f"{what}: {', and '.join(remarks)}")
        return
    refusals = [violations(known[one], wanted.ask) for one in _members(family.name, named)]
    if not all(refusals):
        return  # one that accepts the request is enough
    for violation in refusals[0]:
        decisions.fault(
            violation.what,
            where=f"{wanted.site.name} {family.name} {named}",
            allowed=violation.allowed,
            next=alternative(wanted),
            subject=violation.subject or _subject_of(family.name),
        )


def _is_among(family: Family, name: str, live: LiveNames) -> bool:
    return name in live.names or (family.name == "qos" and name.lower() in live.names)  # Slurm stores QOS in lower case


def _refuse_unknown(
    family: Family, unknown: list[str], wanted: Wanted, live: LiveNames | None, decisions: Decisions
) -> None:
    """Note a fault for each unknown partition or QOS, with the nearest one that would do.

    That the site has none of the name is said only if all its names are known: from the scheduler, or from a file that
    lists all.
    """
    site, limits = wanted.site, family.limits
    known = [*limits] if live is None else [name for name in live.names if name not in live.hidden]
    for one in unknown:
        from difflib import get_close_matches  # costs 5 ms, and only an error needs it

        like = get_close_matches(one, known, n=1) or [one]
        instead = Wanted(site=site, ask=wanted.ask, named={**wanted.named, family.name: like[0]})
        next_step = alternative(instead)
        if live is not None:
            what = f"{site.scheduler_row.title} has no {family.name} {one!r}"
        else:
            is_complete = family.name in site.complete
            what = f"{site.name} has no" if is_complete else f"the site file of {site.name} lists no"
            what += f" {family.name} {one!r}"
            next_step += f"; or use {one!r} without a check, with --accept-unverified"
        decisions.fault(
            f"{what}{did_you_mean(one, known)}",
            where=f"{site.name} {family.name}",
            allowed=", ".join(known),
            next=next_step,
            subject=_subject_of(family.name),
        )


def _subject_of(key: str) -> Subject:
    return "account" if key in ("account", "qos") else ""


def _refuse_flags_of_a_queue(case: Case, decisions: Decisions) -> None:
    typed = [one.name for one in fields(Request) if one.metadata == WITH_QUEUE and getattr(case.request, one.name)]
    for key in (name.replace("_", "-") for name in typed):
        before = "hpclaunch wait RUN, then " if key in ("after", "after-any") else ""
        decisions.fault(
            f"--{key} has no meaning at {case.site.name}, which has no scheduler",
            next=f"{before}leave --{key} out, or name a Slurm site (hpclaunch sites list)",
            subject=_subject_of(key),
        )
