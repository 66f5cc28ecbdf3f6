"""Every value of a site file that Slurm can confirm or contradict, beside what Slurm answers now. Pure.

A question without an answer confirms nothing: its values are ``not asked``. Where Slurm answers, but sets no such
limit, the file may know another rule of the site: such a value is ``not known``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from hpclaunch.config.limits import Limits
from hpclaunch.config.site import Site
from hpclaunch.config.yaml_edits import Change
from hpclaunch.core.errors import did_you_mean
from hpclaunch.core.records import record
from hpclaunch.core.units import format_walltime, whole_number
from hpclaunch.launchers import LAUNCHERS
from hpclaunch.sites.describe.answers import mpi_types, nodes_of, nodes_of_sinfo
from hpclaunch.sites.describe.comparison import (
    NODE_KEYS,
    fitting_partitions,
    has_parts,
    missing_places,
    node_differences,
)
from hpclaunch.sites.describe.draft import Answers
from hpclaunch.sites.slurm_limits import limits_of_partition, limits_of_qos
from hpclaunch.sites.slurm_text import Fields, records, settings, table, value_of

Verdict = Literal["differs", "agrees", "not known", "not asked"]
Path = tuple[str, ...]
_ASKED = {
    "config": "scontrol show config",
    "partitions": "scontrol show partition",
    "nodes": "scontrol show node",
    "qos": "sacctmgr show qos",
    "mpi": "srun --mpi=list",
}
"""Field of the answers -> what was asked."""
_LIMITS = (
    *("max_walltime", "max_nodes", "min_nodes", "max_gpus", "min_gpus", "max_gpus_per_node", "max_jobs"),
    "max_running",
)
_LEAST = ("min_nodes", "min_gpus")
_USUAL = ("max_walltime", "max_nodes", "min_nodes")
"""The limits that a file should have where Slurm has them."""
_NEEDS_CONS_TRES = ("gpus-per-node", "gpus-per-task", "gpus")
_CONS_TRES = "select/cons_tres"


@record
class Finding:
    """A value of a site file beside the value now.

    ``now``: as a file would have it (None: there is none, or several). ``what``: the finding in words; of one that was
    not asked, why. ``change`` corrects the file, where the right value is known.
    """

    path: Path
    verdict: Verdict
    asked: str
    now: Any = None
    what: str = ""
    change: Change | None = None

    @property
    def key(self) -> str:
        """Its dotted key."""
        return ".".join(self.path)


@record
class SchedulerFindings:
    """The findings of a scheduler's answers; ``also``: its partitions and QOS beside those of the file.

    ``cluster``: what answered, in words for the source of a corrected value.
    """

    findings: tuple[Finding, ...]
    also: Mapping[str, tuple[str, ...]]
    cluster: str = ""


def check(site: Site, answers: Answers) -> SchedulerFindings:
    """Return every finding about the file of a site; the answers are those of its cluster."""
    families = _families(site, answers)
    found = [finding for family in families for finding in _family_findings(site, family, answers)]
    found += [*_node_findings(site, answers), *_option_findings(site, answers)]
    also = {one.name: tuple(_more(one)) for one in families if one.name not in site.complete}
    config = settings(answers.config)
    cluster = f"Slurm {config.get('SLURM_VERSION', '')} of {config.get('ClusterName', '')}".replace("  ", " ")
    return SchedulerFindings(
        findings=tuple(found), also={name: names for name, names in also.items() if names}, cluster=cluster
    )


# --- Partitions and QOS


@record
class _Now:
    """The limits of a partition or QOS now, as values of a site file's keys.

    ``nodes``: how many there are in the partition, which limits a job, too. ``certain``: whether no other limit of it
    is unknown, so that a tighter one in the file is wrong.
    """

    values: Mapping[str, int]
    nodes: int | None = None
    certain: bool = True


@record
class _Family:
    """The partitions or the QOS: those of the site file, and those that Slurm has now, with their limits.

    ``own``: those that node types have as their own.
    """

    name: str
    section: str
    asked: str
    listed: Mapping[str, Limits]
    now: Mapping[str, _Now]
    hidden: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()

    def spelled(self, name: str) -> str:
        """Return a name as Slurm spells it: those of QOS in lower case."""
        return name.lower() if self.section == "qos" else name


def _families(site: Site, answers: Answers) -> tuple[_Family, _Family]:
    partitions = {one["PartitionName"]: one for one in records(answers.partitions, "PartitionName")}
    qos = {row["Name"].lower(): row for row in table(answers.qos) if row.get("Name")}
    hidden = frozenset(name for name, one in partitions.items() if one.get("Hidden", "NO") != "NO")
    return (
        _Family(
            name="partition",
            section="partitions",
            asked=_ASKED["partitions"],
            listed=site.partitions,
            now={name: _partition_now(one, qos) for name, one in partitions.items()},
            hidden=hidden,
            own=frozenset(node.partition for node in site.node_types.values() if node.partition),
        ),
        _Family(
            name="qos",
            section="qos",
            asked=_ASKED["qos"],
            listed=site.qos,
            now={name: _Now(values=_values_of(limits_of_qos(row))) for name, row in qos.items()},
        ),
    )


def _partition_now(fields: Fields, qos: Mapping[str, Fields]) -> _Now:
    """Return the limits of a partition: its own, and those of its own QOS where they are tighter."""
    own_qos = value_of(fields.get("QoS", "")).lower()
    most = whole_number(fields.get("MaxNodes", "")) or None
    own = replace(limits_of_partition(fields), max_nodes=most)
    values = _values_of(own)
    for limit, value in _values_of(limits_of_qos(qos.get(own_qos, {}))).items():
        tighter = max if limit in _LEAST else min
        values[limit] = tighter(value, values.get(limit, value))
    nodes = whole_number(fields.get("TotalNodes", "")) or None
    if nodes and "max_nodes" in values:
        values["max_nodes"] = min(values["max_nodes"], nodes)
    return _Now(values=values, nodes=nodes, certain=not own_qos or own_qos in qos)


def _values_of(limits: Limits) -> dict[str, int]:
    return {name: value for name in _LIMITS if (value := getattr(limits, name)) is not None}


def _family_findings(site: Site, family: _Family, answers: Answers) -> Iterator[Finding]:
    """Yield what is found of the names, and of the limits of each."""
    references = _references(site, family.name)
    if not family.now:
        why = answers.unanswered.get(family.section, "nothing is listed")
        for path in [*((family.section, name) for name in family.listed), *references]:
            yield Finding(path=path, verdict="not asked", asked=family.asked, what=why)
        return
    for name, limits in family.listed.items():
        now = family.now.get(family.spelled(name))
        if now is None:
            yield _report_missing((family.section, name), family, name)
            continue
        yield Finding(path=(family.section, name), verdict="agrees", asked=family.asked)
        yield from _limit_findings((family.section, name), limits, now, family.asked)
    for path, name in references.items():
        if family.spelled(name) in family.now:
            yield Finding(path=path, verdict="agrees", asked=family.asked, now=name)
        else:
            yield _report_missing(path, family, name)
    if family.name in site.complete:
        for name in _more(family):
            member = {**_spell_limits(family.now[name].values), "only_if_asked": True}
            path = (family.section, name)
            what = f"the file does not list it, and says that its list of {family.section} is complete"
            change = Change(path=path, value=member)
            yield Finding(path=path, verdict="differs", asked=family.asked, now=member, what=what, change=change)


def _more(family: _Family) -> list[str]:
    listed = {family.spelled(name) for name in family.listed}
    return [name for name in family.now if name not in listed and name not in family.hidden]


def _references(site: Site, family: str) -> dict[Path, str]:
    """Return the other keys that name a partition or QOS, with the name."""
    named: dict[Path, str | None] = {("defaults", family): getattr(site.defaults, family)}
    named |= {("node_types", key, family): getattr(node, family) for key, node in site.node_types.items()}
    return {path: name for path, name in named.items() if name}


def _report_missing(path: Path, family: _Family, name: str) -> Finding:
    shown = [one for one in family.now if one not in family.hidden]
    what = f"Slurm has no {family.name} {name}{did_you_mean(name, shown)}"
    # Without its own partition, a node type would be sent to the partitions of others.
    change = None if name in family.own else Change(path=path, removes=True)
    return Finding(path=path, verdict="differs", asked=family.asked, what=what, change=change)


def _limit_findings(place: Path, limits: Limits, now: _Now, asked: str) -> Iterator[Finding]:
    """Yield what is found of each limit of a partition or QOS that the file or Slurm has."""
    for limit in _LIMITS:
        said, value = getattr(limits, limit), now.values.get(limit)
        is_varied = limit in ("max_walltime", "max_nodes") and bool(limits.bins or limits.by_node_type)
        if limit == "max_nodes" and value is None and said is not None and now.nodes and said >= now.nodes:
            value = now.nodes
        if said is None and (value is None or is_varied or limit not in _USUAL):
            continue
        path = (*place, limit)
        written = None if value is None else _spell_limits({limit: value})[limit]
        if said == value:
            yield Finding(path=path, verdict="agrees", asked=asked, now=written)
        elif value is None:
            what = "Slurm sets no such limit there; another rule of the site may"
            yield Finding(path=path, verdict="not known", asked=asked, what=what)
        elif said is not None and not now.certain and _is_tighter(limit, said, value):
            what = "the QOS of the partition may set it, and sacctmgr did not tell"
            yield Finding(path=path, verdict="not asked", asked=asked, what=what)
        else:
            change = Change(path=path, value=written)
            yield Finding(path=path, verdict="differs", asked=asked, now=written, change=change)


def _is_tighter(limit: str, said: int, value: int) -> bool:
    return said > value if limit in _LEAST else said < value


def _spell_limits(values: Mapping[str, int]) -> dict[str, Any]:
    """Return limits as a site file writes them."""
    return {name: format_walltime(value) if name == "max_walltime" else value for name, value in values.items()}


# --- Nodes and options


def _node_findings(site: Site, answers: Answers) -> Iterator[Finding]:
    known = [one["PartitionName"] for one in records(answers.partitions, "PartitionName")]
    nodes = nodes_of(answers.nodes) or nodes_of_sinfo(answers.sinfo)
    asked = _ASKED["nodes"]
    for name, node_type in site.node_types.items():
        place = ("node_types", name)
        if not known or not nodes:
            question = "nodes" if known else "partitions"
            why = answers.unanswered.get(question, "no node is listed")
            yield Finding(path=place, verdict="not asked", asked=_ASKED[question], what=why)
            continue
        if missing := missing_places(site, name, known):
            what = f"which nodes are its own is not known: Slurm has no partition {' or '.join(missing)}"
            fitting = fitting_partitions(site, name, known, nodes)
            what += f"; the nodes of {' and '.join(fitting)} fit" if fitting else ""
            yield Finding(path=place, verdict="not asked", asked=asked, what=what)
            continue
        found = node_differences(site, name, known, nodes)
        wrong = {one.key.split(".")[-1] if one.key != ".".join(place) else "": one for one in found}
        for key, one in wrong.items():
            path = (*place, key) if key else place
            change = Change(path=path, value=one.now) if one.now is not None else None
            yield Finding(path=path, verdict="differs", asked=asked, now=one.now, what=one.what, change=change)
        if "" in wrong or "gpu_type" in wrong:  # without nodes to look at, nothing else is known of them
            continue
        for key in NODE_KEYS:
            is_compared = key != "gpus_per_node" or not has_parts(node_type)
            if is_compared and getattr(node_type, key) and key not in wrong:
                yield Finding(path=(*place, key), verdict="agrees", asked=asked, now=getattr(node_type, key))


def _option_findings(site: Site, answers: Answers) -> Iterator[Finding]:
    """Yield what is found of the GPU option, and of the type of MPI that steps are started with."""
    select = settings(answers.config).get("SelectType", "")
    if site.gpus is not None and select:
        option, asked = ("gpus", "directive"), _ASKED["config"]
        if site.gpus.directive in _NEEDS_CONS_TRES and select != _CONS_TRES:
            what, change = f"it needs {_CONS_TRES}, and SelectType is {select}", Change(path=option, value="gres")
            yield Finding(path=option, verdict="differs", asked=asked, now="gres", what=what, change=change)
        else:
            yield Finding(path=option, verdict="agrees", asked=asked, now=site.gpus.directive)
    types, asked = mpi_types(answers.mpi), _ASKED["mpi"]
    options = site.launchers.options.items() if site.launchers else ()
    named: dict[Path, str | None] = {
        ("launchers", "options", name, "mpi"): one.mpi for name, one in options if LAUNCHERS[name].mpi_option
    }
    named |= {("container", "mpi"): site.container.mpi} if site.container else {}
    for path, said in named.items():
        if not said:
            continue
        if not types:
            why = answers.unanswered.get("mpi", "no type is listed")
            yield Finding(path=path, verdict="not asked", asked=asked, what=why)
        elif said in types:
            yield Finding(path=path, verdict="agrees", asked=asked, now=said)
        else:
            what = f"it lists {', '.join(types)}"
            yield Finding(path=path, verdict="differs", asked=asked, what=what)
