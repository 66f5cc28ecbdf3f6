"""Finds the reasons why Slurm would accept a job but never start it, in the live limits of partitions and accounts.

With ``EnforcePartLimits=NO``, the default, Slurm accepts a walltime above the limit, too many nodes or an unknown
account (slurm.conf manual). If Slurm does not answer, nothing is refused.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from difflib import get_close_matches

from hpclaunch.config.limits import Limits
from hpclaunch.core import waiting
from hpclaunch.core.errors import Fault, SchedulerError, did_you_mean
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.records import record
from hpclaunch.core.spec import JobSpec, LiveNames
from hpclaunch.core.users import user_name
from hpclaunch.resolve.limits import Ask, suggestion, violations
from hpclaunch.runs.node_lists import names_in as hosts_in
from hpclaunch.schedulers.slurm.configuration import configuration
from hpclaunch.schedulers.slurm.programs import down_controllers, keep_answer, recent_answer
from hpclaunch.sites.detect import cluster_name
from hpclaunch.sites.slurm_limits import limits_of_partition, limits_of_qos, merged_qos
from hpclaunch.sites.slurm_text import Fields, names_in, records, split_list, table, value_of

_SECONDS = 15
_ACCOUNTING = "Slurm's accounting"
_PARTITIONS = ("scontrol", "show", "partition", "--all", "--oneliner")  # hidden ones too
_QOS = ("sacctmgr", "--parsable2", "show", "qos")
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
    """What Slurm answered: partitions and QOS by name, and the user's associations."""

    partitions: Mapping[str, Fields]
    qos: Mapping[str, Fields] = field(default_factory=dict)
    associations: tuple[Association, ...] = ()

    def qos_of(self, spec: JobSpec) -> str:
        """Return the QOS that the job gets; empty if it is not known."""
        account = spec.account.lower()
        defaults = {one.default for one in self.associations if account in ("", one.account) and one.default}
        return spec.qos.lower() or (defaults.pop() if len(defaults) == 1 else "")

    def limits_at(self, spec: JobSpec, name: str) -> list[tuple[str, Limits]]:
        """Return (whose, limits) of all that hold for the job in a partition: its own, and those of the QOS."""
        fields = self.partitions[name]
        of_partition, of_job = (self.qos.get(one, {}) for one in (_own_qos(fields), self.qos_of(spec)))
        qos = merged_qos(of_partition, of_job)
        whose = " and ".join(dict.fromkeys(f"QOS {row['Name']}" for row in (of_job, of_partition) if row))
        own = limits_of_partition(fields).without(qos.lifts)
        return [(f"partition {name}", own), *([(whose, qos)] if whose and _enforces_limits() else [])]


def objections(spec: JobSpec) -> list[Fault]:
    """Return why Slurm would never start this job, according to its own programs.

    scontrol and sshare get their answers from slurmctld within milliseconds. Only sacctmgr knows QOS, and who may use
    which; it asks slurmdbd, which takes a quarter of a second, so it is called only if a QOS matters.
    """
    if down_controllers():
        return []  # at once: the programs below would try again for MessageTimeout
    user, kept = user_name(), recent_answer("partitions")
    questions: dict[str, Sequence[str]] = {} if kept is not None else {"partitions": _PARTITIONS}
    if spec.account:
        questions["shares"] = _shares_command(user)
    if any(one.qos for one in spec.components):
        questions |= {"associations": _associations_command(user), "qos": _QOS}
    answers = _answers_to(questions)
    known = _read_answers(answers, kept or "")
    allowed = known.associations or _shares(answers.get("shares", ""), user)
    missing: dict[str, Sequence[str]] = {}
    if spec.account and not spec.qos and not allowed:
        # sshare showed no account, and accounting has not been asked yet.
        missing["associations"] = _associations_command(user)
    if "qos" not in answers and any(_needs_qos(one, known) for one in spec.components):
        missing |= {"associations": _associations_command(user), "qos": _QOS}
    if missing:
        known = _read_answers({**answers, **_answers_to(missing)}, kept or "")
        allowed = known.associations or allowed
    faults = [_partition_faults(one, known) + _accounting_faults(one, allowed) for one in spec.components]
    return list(dict.fromkeys(fault for found in faults for fault in found))


def live_names(families: Sequence[str]) -> dict[str, LiveNames]:
    """Return the names of all partitions (``partition``) and QOS (``qos``), as far as asked for and as Slurm answers.

    The answers are kept for ``objections``, so that a submission asks once.
    """
    if down_controllers():
        return {}
    questions: dict[str, Sequence[str]] = {"partitions": _PARTITIONS} if "partition" in families else {}
    questions |= {"qos": _QOS} if "qos" in families else {}
    for question, text in _answers_to(questions).items():
        if text:
            keep_answer(question, text)
    known = _read_answers({name: recent_answer(name) or "" for name in questions}, "")
    hidden = tuple(name for name, one in known.partitions.items() if one.get("Hidden", "NO") != "NO")
    found = {
        "partition": LiveNames(names=tuple(known.partitions), hidden=hidden),
        "qos": LiveNames(names=tuple(known.qos)),
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
    lifted = "max_walltime" in limits_of_qos(_rows(_ask_all(_QOS)[0]).get(qos.lower(), {})).lifts if qos else False
    longest = [None if lifted else limits_of_partition(known.partitions[name]).max_walltime for name in names]
    return max((seconds for seconds in longest if seconds), default=None) if all(longest) else None


def _answers_to(questions: Mapping[str, Sequence[str]]) -> dict[str, str]:
    kept = {name: text for name in questions if (text := recent_answer(name)) is not None}
    missing = {name: command for name, command in questions.items() if name not in kept}
    return {**kept, **dict(zip(missing, _ask_all(*missing.values()), strict=True))}


def _read_answers(answers: Mapping[str, str], partitions: str) -> _Known:
    found = records(answers.get("partitions", partitions), "PartitionName")
    return _Known(
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
        _own_qos(one) or names_in(one.get("AllowQos", "ALL")) or violations(limits_of_partition(one), _ask(spec))
        for one in here
    )


def _enforces_limits() -> bool:
    enforced = split_list(configuration().get("AccountingStorageEnforce", "").lower())
    return any(word in enforced for word in _ENFORCING)


def _names(partition: str, known: Mapping[str, Fields]) -> list[str]:
    """Return the partitions where a job may start: the named ones, else the cluster's default one."""
    default = [name for name, one in known.items() if one.get("Default") == "YES"]
    return partition.split(",") if partition else default


def _associations_command(user: str) -> list[str]:
    here = cluster_name(os.environ)  # one slurmdbd may serve several clusters
    where = [f"user={user}", f"cluster={here}"] if here else [f"user={user}"]
    columns = "format=Account,QOS,DefaultQOS"
    return ["sacctmgr", "--noheader", "--parsable2", "show", "associations", *where, columns]


def _associations(text: str) -> list[Association]:
    rows = [[*line.split("|"), ""][:3] for line in text.split("\n") if "|" in line]
    return [
        Association(account=account, qos=tuple(filter(None, qos.split(","))), default=default)
        for account, qos, default in rows
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
            command,
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
            next=would or "request fewer nodes or less time",
            subject=violation.subject,
        )
        for whose, limits in known.limits_at(spec, name)
        for violation in violations(limits, _ask(spec))
    ]
    where = f"Slurm's partition {name}"
    return faults + [
        Fault(where=where, what=what, allowed=allowed, next=would or step, subject="account")
        for what, allowed, step in _exclusions(spec, name, known)
    ]


def _ask(spec: JobSpec) -> Ask:
    return Ask(
        node_type=spec.node_type, nodes=spec.layout.nodes, gpus=spec.layout.gpus_per_node, walltime=spec.walltime
    )


def _alternative(spec: JobSpec, name: str, known: _Known) -> str:
    """Return the flags of the nearest request that a partition accepts, or an empty text.

    Only partitions are suggested that are up, open to all users, and have GPUs if GPUs are requested. Of equally near
    ones the named partition comes first, then one with a similar name, then the default.
    """
    every = known.partitions
    like = get_close_matches(name, every, n=1)
    order = sorted(every, key=lambda other: (other != name, other not in like, every[other].get("Default") != "YES"))
    with_gpus = {other for other in every if "gres/gpu" in every[other].get("TRES", "")}
    needed = with_gpus if spec.layout.gpus_per_node and with_gpus else set(every)  # not every cluster counts GPUs
    places = []
    for other in order:
        is_proposed = other == name or (other in needed and _is_open(every[other]))
        if is_proposed and not _exclusions(spec, other, known):
            places.append((f"--partition {shell_word(other)}", [limits for _, limits in known.limits_at(spec, other)]))
    return suggestion(places, _ask(spec)) or ""


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


def _accounting_faults(spec: JobSpec, allowed: Sequence[Association]) -> list[Fault]:
    """Return the faults of the account and of its QOS. Slurm stores the names of both in lower case."""
    if not allowed:
        return []
    faults = (_account_fault(spec, allowed), _qos_fault(spec, allowed))
    return [fault for fault in faults if fault]


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
        next=f"--account {_most_similar(account, usable)}",
        subject="account",
    )


def _qos_fault(spec: JobSpec, allowed: Sequence[Association]) -> Fault | None:
    """Return the fault of a QOS that the account may not use; for an unknown account, one that no account may use."""
    account, qos = spec.account.lower(), spec.qos.lower()
    mine = [one for one in allowed if one.account == account]
    names = sorted({name for one in mine or allowed for name in one.qos})
    if not qos or not names or qos in names:
        return None
    who = f"account {spec.account}" if mine else "you"
    return Fault(
        where=_ACCOUNTING,
        what=f"{who} may not use QOS {spec.qos!r}{did_you_mean(qos, names)}",
        allowed=", ".join(names),
        next=f"--qos {_most_similar(qos, names)}",
        subject="account",
    )


def _most_similar(name: str, known: list[str]) -> str:
    """Return the most similar of the known names, else the first."""
    return (get_close_matches(name, known, n=1) or known)[0]
