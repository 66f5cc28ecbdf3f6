"""Finds why Slurm would refuse a job, never start it, or let it wait for others: the live limits of all that it uses.

With ``EnforcePartLimits=NO``, the default, Slurm accepts a walltime above the limit, too many nodes or an unknown
account (slurm.conf manual), and beyond the limits of a QOS or an association a job waits for ever, unless the QOS has
the flag DenyOnLimit. If Slurm does not answer, nothing is refused.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from difflib import get_close_matches
from types import MappingProxyType

from hpclaunch.config.limits import Limits
from hpclaunch.core import waiting
from hpclaunch.core.errors import Fault, SchedulerError, did_you_mean
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.records import record
from hpclaunch.core.spec import JobSpec, LiveNames
from hpclaunch.core.units import whole_number
from hpclaunch.core.users import user_name
from hpclaunch.resolve.nodes.limits import Ask, suggestion, violations
from hpclaunch.runs.node_lists import names_in as hosts_in
from hpclaunch.schedulers import Objections
from hpclaunch.schedulers.slurm.configuration import configuration
from hpclaunch.schedulers.slurm.partition_nodes import kinds_of, nodes_in
from hpclaunch.schedulers.slurm.programs import (
    asked_cluster,
    down_controllers,
    keep_answer,
    recent_answer,
    undirected,
    with_address,
)
from hpclaunch.schedulers.slurm.request import (
    ask_of,
    asks_for_gpus,
    exact_about,
    is_on_whole_nodes,
    is_surely_alone,
    with_whole_nodes,
)
from hpclaunch.schedulers.slurm.shared_limits import delays_by, minute_limits, refusals_by
from hpclaunch.sites.detect import cluster_name
from hpclaunch.sites.slurm_limits import (
    bounds_of_qos,
    denies,
    is_over_partition,
    lifted_by,
    limits_in,
    limits_of_partition,
)
from hpclaunch.sites.slurm_shares import Pool, associations_of, default_account, used_of_qos, without
from hpclaunch.sites.slurm_text import Fields, names_in, records, split_list, table, value_of

_SECONDS = 15
_ACCOUNTING = "Slurm's accounting"
_PARTITIONS = ("scontrol", "show", "partition", "--all", "--oneliner")  # hidden ones too
_QOS = ("sacctmgr", "--parsable2", "show", "qos")
_FACTORS = (*_QOS, "format=Name,LimitFactor")
_USUAL_QOS = "normal"
"""The QOS of a job whose association has no default one, and may use this (Slurm's acct_mgr; seen with 22.05)."""
_ENFORCING = ("limits", "safe")
"""Values of AccountingStorageEnforce with which the limits of a QOS hold. Its flags always do (seen with 22.05)."""


@record
class Association:
    """An account of the user, and the QOS that the user may use with it (none: unknown); ``default``: without one."""

    account: str
    qos: tuple[str, ...]
    default: str = ""


@record
class _Known:
    """What Slurm answered: partitions and QOS by name, the user's associations, and what jobs share (as text).

    ``enforced``: the limits that AccountingStorageEnforce names (none: limits of QOS and associations do not hold).
    ``listed``: partition -> its limits in the site file.
    """

    partitions: Mapping[str, Fields]
    qos: Mapping[str, Fields] = field(default_factory=dict)
    associations: tuple[Association, ...] = ()
    shares: str = ""
    enforced: frozenset[str] = frozenset()
    listed: Mapping[str, Sequence[Limits]] = field(default_factory=dict)

    def qos_of(self, spec: JobSpec) -> str:
        """Return the QOS that the job gets; empty if it is not known."""
        account = spec.account.lower()
        defaults = {one.default for one in self.associations if account in ("", one.account) and one.default}
        return spec.qos.lower() or (defaults.pop() if len(defaults) == 1 else "")

    def qos_rows(self, spec: JobSpec, name: str) -> list[Fields]:
        """Return the QOS of the job and of the partition as far as they are known, that whose limits count first."""
        of_partition, of_job = self._rows(spec, name)
        ordered = (of_job, of_partition) if is_over_partition(of_job) else (of_partition, of_job)
        return [row for row in ordered if row]

    def _rows(self, spec: JobSpec, name: str) -> tuple[Fields, Fields]:
        names = (_own_qos(self.partitions[name]), self.qos_of(spec))
        of_partition, of_job = (self.qos.get(one, {}) for one in names)
        return of_partition if names[0] != names[1] else {}, of_job

    def pools_at(self, spec: JobSpec, name: str) -> list[Pool]:
        """Return the limits of the QOS and associations of the job in a partition, each limit once; what is used, too.

        Slurm's order: the QOS, then the association, then the accounts above it.
        """
        of_qos, above = self._pools_by_kind(spec, name)
        return [*of_qos, *self._drop_multiplied(above, spec, name)]

    def _pools_by_kind(self, spec: JobSpec, name: str) -> tuple[list[Pool], list[Pool]]:
        """Return the limits of the QOS, and those of associations that no QOS has."""
        if not self.enforced:
            return [], []
        user, uid = user_name(), os.geteuid()
        account = spec.account.lower() or default_account(self.shares, user)
        pools: list[Pool] = []
        taken: dict[tuple[str, str], int] = {}
        for row in self.qos_rows(spec, name):
            used = used_of_qos(self.shares, row["Name"], uid, account)
            pool = without(Pool(whose=f"QOS {row['Name']}", bounds=bounds_of_qos(row), used=used), taken)
            taken |= pool.bounds
            pools.append(pool)
        return pools, [without(one, taken) for one in associations_of(self.shares, user, account, name)]

    def _drop_multiplied(self, pools: list[Pool], spec: JobSpec, name: str) -> list[Pool]:
        """Return the pools of associations; without their limits of resources if a QOS multiplies these.

        That costs a call of sacctmgr, so it is asked only where one of these limits would decide.
        """
        ask = self.ask_at(spec, name)
        if not any(violations(limits_in(one.bounds), ask) for one in pools):
            return pools
        if all(_has_no_factor(row["Name"]) for row in self.qos_rows(spec, name)):
            return pools
        columns = ("GrpTRES", "MaxTRES")
        return [
            replace(one, bounds={key: bound for key, bound in one.bounds.items() if key[0] not in columns})
            for one in pools
        ]

    def ask_at(self, spec: JobSpec, name: str) -> Ask:
        """Return the request as the limits of the partition are compared with it."""
        fields, config = self.partitions[name], configuration()
        ask = ask_of(spec, fields, config)
        is_held = is_surely_alone(spec, fields, config) and self._has_limits_of_amounts(spec, name)
        return with_whole_nodes(ask, spec, nodes_in(fields), fields, config) if is_held else ask

    def _has_limits_of_amounts(self, spec: JobSpec, name: str) -> bool:
        """Whether CPUs, memory or GPUs are limited by a QOS or an association, so that those of whole nodes count."""
        keys = [key for kind in self._pools_by_kind(spec, name) for pool in kind for key in pool.bounds]
        return any(column != "MinTRES" and resource not in ("", "node") for column, resource in keys)

    def limits_at(self, spec: JobSpec, name: str) -> list[tuple[str, Limits]]:
        """Return (whose, limits) of all that hold for the job in a partition: its own, of the QOS, of associations."""
        fields = self.partitions[name]
        _, of_job = self._rows(spec, name)
        own = limits_of_partition(fields).without(lifted_by(of_job))
        found = [(f"partition {name}", own), *self._gpus_at(spec, name)]
        is_refused = any(map(denies, self.qos_rows(spec, name)))
        ask = self.ask_at(spec, name)
        for pool in self.pools_at(spec, name):
            # Slurm compares the least amounts with what the job gets, sbatch with what it asks for.
            known = pool.bounds if is_refused else exact_about(spec, fields, pool.bounds)
            found.append((pool.whose, limits_in(known)))
            found += minute_limits(pool, ask, is_safe=is_refused or "safe" in self.enforced)
        return found

    def _gpus_at(self, spec: JobSpec, name: str) -> list[tuple[str, Limits]]:
        """Return the GPUs of a partition as a limit, where the job names its partition and Slurm counts GPUs.

        No node has more than all of them; how they are divided among the nodes is not known here.
        Without a named partition the site may route the job elsewhere.
        """
        counted = {other: _gpus_in(one.get("TRES", "")) for other, one in self.partitions.items()}
        is_compared = spec.partition and asks_for_gpus(spec) and any(counted.values())
        if not is_compared or "cpu=" not in self.partitions[name].get("TRES", ""):
            return []
        return [(f"partition {name}", Limits(max_gpus_per_node=counted[name]))]


def _gpus_in(tres: str) -> int:
    """Return the GPUs in a list of resources (``cpu=64,gres/gpu=4``)."""
    amounts = dict(item.split("=", 1) for item in tres.split(",") if "=" in item)
    return whole_number(amounts.get("gres/gpu", "")) or 0


def _has_no_factor(qos: str) -> bool:
    """Whether the QOS is known not to multiply limits of associations (LimitFactor in the manual of sacctmgr)."""
    text = recent_answer("factors")
    if text is None:
        text = _ask_all(_FACTORS)[0]
        keep_answer("factors", text)
    return _rows(text).get(qos.lower(), {}).get("LimitFactor") == ""


def objections(spec: JobSpec, listed: Mapping[str, Sequence[Limits]] = MappingProxyType({})) -> Objections:
    """Return why Slurm would refuse this job, never start it, or let it wait, according to its own programs.

    ``listed``: partition -> its limits in the site file: what these refuse is not proposed.

    scontrol and sshare get their answers from slurmctld within milliseconds. Only sacctmgr knows QOS, and who may use
    which; it asks slurmdbd, which takes a quarter of a second. So it is called only if a QOS matters: where Slurm
    enforces limits, since every job has a QOS then, else where the request or the partition names one. Of accounts one
    of sshare and sacctmgr tells; the other is asked only if it shows none.
    """
    if down_controllers():
        return Objections()  # at once: the programs below would try again for MessageTimeout
    user, kept, enforced = user_name(), recent_answer("partitions"), _read_enforcement()
    questions: dict[str, Sequence[str]] = {} if kept is not None else {"partitions": _PARTITIONS}
    if enforced or any(one.qos for one in spec.components):
        questions |= {"associations": _associations_command(user), "qos": _QOS}
    elif spec.account:
        questions["shares"] = _shares_command(user)
    if enforced:
        questions["pools"] = ("scontrol", "--oneliner", "show", "assoc_mgr", f"users={user}", "flags=assoc,qos")
    answers = _answers_to(questions)
    known = replace(_read_answers(answers, kept or "", enforced), listed=listed)
    allowed = known.associations or _shares(answers.get("shares", ""), user)
    missing: dict[str, Sequence[str]] = {}
    if spec.account and not allowed:  # the one showed no account, and the other has not been asked yet
        is_asked = "associations" in answers
        missing |= {"shares": _shares_command(user)} if is_asked else {"associations": _associations_command(user)}
    if "qos" not in answers and any(_needs_qos(one, known) for one in spec.components):
        missing |= {"associations": _associations_command(user), "qos": _QOS}
    if missing:
        answers |= _answers_to(missing)
        known = replace(_read_answers(answers, kept or "", enforced), listed=listed)
        allowed = known.associations or _shares(answers.get("shares", ""), user)
    faults = [_partition_faults(one, known) + _accounting_faults(one, allowed, known) for one in spec.components]
    delays = [delay for one in spec.components for delay in (*_delays(one, known), *_unknown_qos(one, allowed, known))]
    flat = dict.fromkeys(fault for found in faults for fault in found)
    anywhere = tuple(fault for fault in flat if fault.where == _ACCOUNTING)
    return Objections(faults=tuple(flat), anywhere=anywhere, delays=() if flat else tuple(dict.fromkeys(delays)))


def _delays(spec: JobSpec, known: _Known) -> list[str]:
    """Return what the job waits for beside free nodes; nothing where one of its partitions has nothing to wait for."""
    names = [name for name in _names(spec.partition, known.partitions) if name in known.partitions]
    found = []
    for name in names:
        ask, fields = known.ask_at(spec, name), known.partitions[name]
        pools, is_whole = known.pools_at(spec, name), is_on_whole_nodes(spec, fields)
        found.append(delays_by(pools, ask, is_whole=is_whole, is_safe="safe" in known.enforced))
    return found[0] if found and all(found) else []


def live_names(named: Mapping[str, Sequence[str]]) -> dict[str, LiveNames]:
    """Return the names of all partitions (``partition``) and QOS (``qos``), as far as asked for and as Slurm answers.

    ``named``: the same -> those of which more is returned: of partitions their nodes.

    The answers are kept for ``objections``, so that a submission asks once.
    """
    if down_controllers():
        return {}
    questions: dict[str, Sequence[str]] = {"partitions": _PARTITIONS} if "partition" in named else {}
    questions |= {"qos": _QOS} if "qos" in named else {}
    for question, text in _answers_to(questions).items():
        if text:
            keep_answer(question, text)
    known = _read_answers({name: recent_answer(name) or "" for name in questions}, "")
    hidden = tuple(name for name, one in known.partitions.items() if one.get("Hidden", "NO") != "NO")
    asked = {name: known.partitions[name] for name in named.get("partition", ()) if name in known.partitions}
    nodes = {name: kinds_of(nodes_in(fields)) for name, fields in asked.items()}
    found = {
        "partition": LiveNames(names=tuple(known.partitions), hidden=hidden, nodes=nodes),
        "qos": LiveNames(names=tuple(known.qos), lifts={name: lifted_by(row) for name, row in known.qos.items()}),
    }
    return {family: one for family, one in found.items() if one.names}


def longest_walltime(partition: str, qos: str = "") -> int | None:
    """Return the longest walltime (seconds) of a job in a partition now; None without a limit, or if it is unknown.

    ``partition`` may name several (``a,b``); if it is empty, it is the cluster's default one. ``qos``: that of the job.
    """
    if down_controllers():
        return None
    text = recent_answer("partitions")
    if text is None:
        text = _ask_all(_PARTITIONS)[0]
        keep_answer("partitions", text)  # for objections(), and for the script's second reading in retry
    known = _read_answers({}, text)
    names = [name for name in _names(partition, known.partitions) if name in known.partitions]
    lifted = "max_walltime" in lifted_by(_rows(_ask_all(_QOS)[0]).get(qos.lower(), {})) if qos else False
    longest = [None if lifted else limits_of_partition(known.partitions[name]).max_walltime for name in names]
    return max((seconds for seconds in longest if seconds), default=None) if all(longest) else None


def _answers_to(questions: Mapping[str, Sequence[str]]) -> dict[str, str]:
    kept = {name: text for name in questions if (text := recent_answer(name)) is not None}
    missing = {name: command for name, command in questions.items() if name not in kept}
    return {**kept, **dict(zip(missing, _ask_all(*missing.values()), strict=True))}


def _read_answers(answers: Mapping[str, str], partitions: str, enforced: frozenset[str] = frozenset()) -> _Known:
    found = records(answers.get("partitions", partitions), "PartitionName")
    return _Known(
        shares=answers.get("pools", ""),
        enforced=enforced,
        partitions={one["PartitionName"]: one for one in found},
        qos=_rows(answers.get("qos", "")),
        associations=tuple(_associations(answers.get("associations", ""))),
    )


def _rows(text: str) -> dict[str, Fields]:
    return {row["Name"].lower(): row for row in table(text) if row.get("Name")}


def _own_qos(partition: Fields) -> str:
    return value_of(partition.get("QoS", "")).lower()


def _needs_qos(spec: JobSpec, known: _Known) -> bool:
    """Whether the QOS of the job or of its partition may decide: the partition has one, names some, or is too small."""
    here = [known.partitions[name] for name in _names(spec.partition, known.partitions) if name in known.partitions]
    return any(
        _own_qos(one)
        or names_in(one.get("AllowQos", "ALL"))
        or violations(limits_of_partition(one), ask_of(spec, one, {}))
        for one in here
    )


def _read_enforcement() -> frozenset[str]:
    """Return what AccountingStorageEnforce names if it names limits, else nothing."""
    enforced = frozenset(split_list(configuration().get("AccountingStorageEnforce", "").lower()))
    return enforced if enforced & set(_ENFORCING) else frozenset()


def _names(partition: str, known: Mapping[str, Fields]) -> list[str]:
    """Return the partitions where a job may start: the named ones, else the cluster's default one."""
    default = [name for name, one in known.items() if one.get("Default") == "YES"]
    return partition.split(",") if partition else default


def _associations_command(user: str) -> list[str]:
    where = [f"user={user}", *([f"cluster={here}"] if (here := _own_cluster()) else [])]
    columns = "format=Account,QOS,DefaultQOS,Cluster"
    return ["sacctmgr", "--noheader", "--parsable2", "show", "associations", *where, columns]


def _own_cluster() -> str:
    """Return the name of the cluster that is asked; slurm.conf need not be readable here. Empty if it is not known."""
    return asked_cluster() or cluster_name(os.environ) or configuration().get("ClusterName", "")


def _associations(text: str) -> list[Association]:
    """Return the associations in an answer; none if it is about several clusters: one slurmdbd may serve them."""
    rows = [[*line.split("|"), "", "", ""][:4] for line in text.split("\n") if "|" in line]
    if len({cluster for *_, cluster in rows if cluster}) > 1:
        return []
    return [
        Association(account=account, qos=tuple(filter(None, qos.split(","))), default=default)
        for account, qos, default, _ in rows
        if account
    ]


def _shares_command(user: str) -> list[str]:
    return ["sshare", "--noheader", "--parsable2", f"--users={user}", "--format=Account,User"]


def _shares(text: str, user: str) -> list[Association]:
    """Return the accounts in sshare's answer: a tree of accounts, in which the user's own rows name the user."""
    rows = [[*line.split("|"), ""][:2] for line in text.split("\n")]
    return [Association(account=account.strip(), qos=()) for account, name in rows if name.strip() == user]


def _ask_all(*commands: Sequence[str], seconds: float = _SECONDS) -> list[str]:
    """Run the programs at the same time, and return their answers; an empty one for a program that fails."""
    running = [(command[0], _start(command)) for command in commands]
    deadline = time.monotonic() + seconds
    return [_answer(name, process, deadline) for name, process in running]


def _start(command: Sequence[str]) -> subprocess.Popen[bytes] | None:
    try:
        return subprocess.Popen(
            with_address(command),
            env=undirected(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None


def _answer(name: str, process: subprocess.Popen[bytes] | None, deadline: float) -> str:
    """Return the program's output; nothing of one that fails. Raises SchedulerError for an answer without an end."""
    if process is None:
        return ""
    try:
        # A program that has answered by the deadline is still read after it.
        text, _ = waiting.communicate(process, name, max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        _kill(process)
        return ""
    except waiting.TooLong as error:
        _kill(process)
        next_step = f"{shlex.join(process.args)} shows it; ask the site's staff"  # type: ignore[arg-type]
        raise SchedulerError(Fault(where=name, what=str(error), next=next_step, subject="scheduler")) from None
    return text.decode("utf-8", "replace") if process.returncode == 0 else ""


def _kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)  # children of a wrapper too
    process.wait()


def _partition_faults(spec: JobSpec, known: _Known) -> list[Fault]:
    """Return the faults of the named partition, else of the cluster's default one.

    A job that names several partitions never starts only if each of them refuses it; the faults of the first are
    returned then.
    """
    names = _names(spec.partition, known.partitions)
    if not known.partitions or not names:
        return []
    found = [_faults_at_partition(spec, name, known) for name in names]
    return found[0] if all(found) else []


def _faults_at_partition(spec: JobSpec, name: str, known: _Known) -> list[Fault]:
    typed = _alternative(spec, name, known)
    would = f"{typed} would be accepted" if typed else ""
    if name not in known.partitions:
        shown = [other for other, one in known.partitions.items() if one.get("Hidden", "NO") == "NO"]
        what = f"Slurm has no partition {name!r}{did_you_mean(name, shown)}"
        return [Fault(what=what, allowed=", ".join(shown), next=would)]
    faults = [
        Fault(
            where=f"Slurm's {whose}",
            what=violation.what,
            allowed=violation.allowed,
            next=would or _step(known.ask_at(spec, name)),
            subject=violation.subject,
        )
        for whose, limits in known.limits_at(spec, name)
        for violation in violations(limits, known.ask_at(spec, name))
    ]
    jobs = spec.sweep.count if spec.sweep else len(spec.further) + 1
    where = f"Slurm's partition {name}"
    return [*faults, *refusals_by(known.pools_at(spec, name), jobs)] + [
        Fault(where=where, what=what, allowed=allowed, next=would or step, subject="account")
        for what, allowed, step in _exclusions(spec, name, known)
    ]


def _step(ask: Ask) -> str:
    """Return what to do where no nearer request is known."""
    if ask.held_cpus:
        return "another --qos; or nodes that it shares with other jobs, without --exclusive or in another --partition"
    return "request fewer nodes or less time"


def _alternative(spec: JobSpec, name: str, known: _Known) -> str:
    """Return the flags of the nearest request that a partition accepts, or an empty text.

    Only partitions are suggested that are up, open to all users, and have GPUs if GPUs are requested; the one of the
    job itself need not be open. Of equally near ones it comes first, then one with a similar name, then the default.
    """
    every = known.partitions
    like = get_close_matches(name, every, n=1)
    order = sorted(every, key=lambda other: (other != name, other not in like, every[other].get("Default") != "YES"))
    with_gpus = {other for other in every if "gres/gpu" in every[other].get("TRES", "")}
    needed = with_gpus if spec.layout.gpus_per_node and with_gpus else set(every)  # not every cluster counts GPUs
    places = []
    for other in order:
        is_proposed = other in needed and (other == name or _is_open(every[other]))
        if is_proposed and not _exclusions(spec, other, known):
            limits = [one for _, one in known.limits_at(spec, other)]
            # What the site file refuses there would send the user back.
            places.append((f"--partition {shell_word(other)}", [*limits, *known.listed.get(other, ())]))
    return suggestion(places, known.ask_at(spec, order[0])) or ""


def _is_open(partition: Fields) -> bool:
    """Whether every user's jobs start there; a field that an older Slurm does not show counts as usual."""
    usual = {"State": "UP", "AllowGroups": "ALL", "RootOnly": "NO", "Hidden": "NO"}
    return all(partition.get(key, value) == value for key, value in usual.items())


def _exclusions(spec: JobSpec, name: str, known: _Known) -> list[tuple[str, str, str]]:
    """Return (what, allowed, next step) if the partition's lists exclude the account, the QOS or this host."""
    partition = known.partitions[name]
    found = []
    for key, noun, asked in (("Accounts", "account", spec.account), ("Qos", "QOS", known.qos_of(spec))):
        allowed, denied = names_in(partition.get(f"Allow{key}", "ALL")), split_list(partition.get(f"Deny{key}", ""))
        is_default = "" if getattr(spec, noun.lower()) else ", which it gets without one,"
        refused = allowed and asked.lower() not in [one.lower() for one in allowed]
        if asked and (refused or asked.lower() in [one.lower() for one in denied]):
            step = f"--{noun.lower()} {' or '.join(allowed)}" if refused else f"another --{noun.lower()}"
            found.append((f"{noun} {asked!r}{is_default} may not use it", ",".join(allowed) if refused else "", step))
    hosts = partition.get("AllocNodes", "ALL")
    here = os.uname().nodename.partition(".")[0]
    if names_in(hosts) and here not in hosts_in(hosts):
        found.append((f"jobs of it cannot be submitted from {here}", hosts, f"log in to {hosts}, and submit there"))
    return found


def _accounting_faults(spec: JobSpec, allowed: Sequence[Association], known: _Known) -> list[Fault]:
    """Return the faults of the account and of its QOS. Slurm stores the names of both in lower case."""
    faults = (_account_fault(spec, allowed) if allowed else None, _qos_fault(spec, allowed, known))
    return [fault for fault in faults if fault]


def _unknown_qos(spec: JobSpec, allowed: Sequence[Association], known: _Known) -> list[str]:
    """Return that nothing is known of a QOS that is named: accounting does not show it, nor those of its accounts."""
    if not spec.qos or known.qos or any(one.qos for one in allowed):
        return []
    return [f"whether there is a QOS {spec.qos!r} is not known: Slurm's accounting shows no QOS here"]


def _account_fault(spec: JobSpec, allowed: Sequence[Association]) -> Fault | None:
    account, qos, accounts = spec.account.lower(), spec.qos.lower(), sorted({one.account for one in allowed})
    if not account or account in accounts:
        return None
    # Suggest an account that may use the QOS; one without a list of QOS may use any.
    usable = sorted({one.account for one in allowed if not qos or not one.qos or qos in one.qos}) or accounts
    return Fault(
        where=_ACCOUNTING,
        what=f"you have no account {spec.account!r}{did_you_mean(account, accounts)}",
        allowed=", ".join(accounts),
        next=f"--account {(get_close_matches(account, usable, n=1) or usable)[0]}",
        subject="account",
    )


def _qos_fault(spec: JobSpec, allowed: Sequence[Association], known: _Known) -> Fault | None:
    """Return the fault of a QOS that the account may not use; for an unknown account, one that no account may use.

    Where no account has a list of QOS, it is one that Slurm does not have.
    """
    account, qos = spec.account.lower(), spec.qos.lower()
    mine = [one for one in allowed if one.account == account]
    names = sorted({name for one in mine or allowed for name in one.qos})
    what = f"{f'account {spec.account}' if mine else 'you'} may not use QOS {spec.qos!r}"
    if not names:
        names, what = sorted(known.qos), f"Slurm has no QOS {spec.qos!r}"
    if not qos or not names or qos in names:
        return None
    usual = known.qos_of(replace(spec, qos=""))
    first = next(one for one in (usual, _USUAL_QOS, names[0]) if one in names)
    instead = next(iter(get_close_matches(qos, names, n=1)), first)
    return Fault(
        where=_ACCOUNTING,
        what=f"{what}{did_you_mean(qos, names)}",
        allowed=", ".join(names),
        next=f"--qos {instead}" + (", the one of a job that names none" if instead == usual else ""),
        subject="account",
    )
