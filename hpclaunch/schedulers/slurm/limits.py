"""Finds the reasons why Slurm would accept a job but never start it, in the live limits of partitions and accounts.

With ``EnforcePartLimits=NO``, the default, Slurm accepts a walltime above the limit, too many nodes or an unknown
account (slurm.conf manual). If Slurm does not answer, nothing is refused.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from hpclaunch.config.limits import Limits
from hpclaunch.core import waiting
from hpclaunch.core.errors import Fault, SchedulerError, did_you_mean
from hpclaunch.core.records import record
from hpclaunch.core.spec import JobSpec
from hpclaunch.core.units import parse_walltime, whole_number
from hpclaunch.core.users import user_name
from hpclaunch.resolve.limits import Ask, suggestion, violations
from hpclaunch.schedulers.slurm.programs import down_controllers, keep_answer, recent_answer
from hpclaunch.sites.detect import cluster_name

_SECONDS = 15
_ACCOUNTING = "Slurm's accounting"
_PARTITIONS = ("scontrol", "show", "partition", "--all", "--oneliner")  # hidden ones too
_FIELD = re.compile(r"(\w+)=(.*?)(?= \w+=|\s*$)")  # names of partitions may contain blanks


@record
class Association:
    """An account of the user, and the QOS that the user may use with it (none: unknown)."""

    account: str
    qos: tuple[str, ...]


def objections(spec: JobSpec) -> list[Fault]:
    """Return why Slurm would never start this job, according to its own programs.

    scontrol and sshare get their answers from slurmctld within milliseconds. Only sacctmgr knows who may use which QOS;
    it asks slurmdbd, which takes a quarter of a second, so it is called only if needed.
    """
    if down_controllers():
        return []  # at once: the programs below would try again for MessageTimeout
    user, known = user_name(), recent_answer("partitions")
    commands: list[Sequence[str]] = [_PARTITIONS] if known is None else []
    if spec.account:
        commands.append(_shares_command(user))
    if any(one.qos for one in spec.components):
        commands.append(_associations_command(user))
    answers = dict(zip((command[0] for command in commands), _ask_all(*commands), strict=True))
    partitions = _partitions(answers.get("scontrol", known or ""))
    allowed = _associations(answers.get("sacctmgr", "")) or _shares(answers.get("sshare", ""), user)
    if spec.account and not spec.qos and not allowed:
        # sshare showed no account, and accounting has not been asked yet.
        allowed = _associations(_ask_all(_associations_command(user))[0])
    faults = [_partition_faults(one, partitions) + _accounting_faults(one, allowed) for one in spec.components]
    return list(dict.fromkeys(fault for found in faults for fault in found))


def longest_walltime(partition: str) -> int | None:
    """Return the longest walltime (seconds) of a job in a partition now; None without a limit, or if it is unknown.

    ``partition`` may name several (``a,b``); if it is empty, it is the cluster's default one.
    """
    if down_controllers():
        return None
    text = recent_answer("partitions")
    if text is None:
        text = _ask_all(_PARTITIONS)[0]
        keep_answer("partitions", text)  # for objections(), and for the script's second reading in retry
    known = {one["PartitionName"]: one for one in _partitions(text)}
    names = [name for name in _names(partition, known) if name in known]
    longest = [limits_of(known[name]).max_walltime for name in names]
    return max((seconds for seconds in longest if seconds), default=None) if all(longest) else None


def _partitions(text: str) -> list[dict[str, str]]:
    """Return the fields of each line of ``scontrol show partition --oneliner``."""
    return [dict(_FIELD.findall(line)) for line in text.split("\n") if line.startswith("PartitionName=")]


def _names(partition: str, known: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the partitions where a job may start: the named ones, else the cluster's default one."""
    default = [name for name, one in known.items() if one.get("Default") == "YES"]
    return partition.split(",") if partition else default


def _associations_command(user: str) -> list[str]:
    here = cluster_name(os.environ)  # one slurmdbd may serve several clusters
    where = [f"user={user}", f"cluster={here}"] if here else [f"user={user}"]
    return ["sacctmgr", "--noheader", "--parsable2", "show", "associations", *where, "format=Account,QOS"]


def _associations(text: str) -> list[Association]:
    rows = [line.split("|")[:2] for line in text.split("\n") if "|" in line]
    return [Association(account=account, qos=tuple(filter(None, qos.split(",")))) for account, qos in rows if account]


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


def _partition_faults(spec: JobSpec, partitions: list[dict[str, str]]) -> list[Fault]:
    """Return the faults of the named partition, else of the cluster's default one.

    A job that names several partitions never starts only if each of them refuses it; the faults of the first are
    returned then.
    """
    known = {one["PartitionName"]: one for one in partitions}
    names = _names(spec.partition, known)
    if not known or not names:
        return []
    found = [_faults_at_partition(spec, name, known) for name in names]
    return found[0] if all(found) else []


def _faults_at_partition(spec: JobSpec, name: str, known: dict[str, dict[str, str]]) -> list[Fault]:
    typed = _alternative(spec, name, known)
    would = f"{typed} would be accepted" if typed else ""
    if name not in known:
        shown = [other for other in known if known[other].get("Hidden", "NO") == "NO"]
        what = f"Slurm has no partition {name!r}{did_you_mean(name, shown)}"
        return [Fault(what=what, allowed=", ".join(shown), next=would)]
    where = f"Slurm's partition {name}"
    faults = [
        Fault(
            where=where,
            what=violation.what,
            allowed=violation.allowed,
            next=would or "request fewer nodes or less time",
            subject=violation.subject,
        )
        for violation in violations(limits_of(known[name]), _ask(spec))
    ]
    return faults + [
        Fault(where=where, what=f"{noun} {asked!r} may not use it", allowed=allowed, next=would, subject="account")
        for noun, asked, allowed in _exclusions(spec, known[name])
    ]


def _ask(spec: JobSpec) -> Ask:
    return Ask(
        node_type=spec.node_type, nodes=spec.layout.nodes, gpus=spec.layout.gpus_per_node, walltime=spec.walltime
    )


def _alternative(spec: JobSpec, name: str, known: dict[str, dict[str, str]]) -> str:
    """Return the flags of the nearest request that a partition accepts, or an empty text.

    Only partitions are suggested that are up, open to all users, and have GPUs if GPUs are requested. Of equally near
    ones the named partition comes first, then one with a similar name, then the default.
    """
    like = get_close_matches(name, known, n=1)
    order = sorted(known, key=lambda other: (other != name, other not in like, known[other].get("Default") != "YES"))
    with_gpus = {other for other in known if "gres/gpu" in known[other].get("TRES", "")}
    needed = with_gpus if spec.layout.gpus_per_node and with_gpus else set(known)  # not every cluster counts GPUs
    places = []
    for other in order:
        is_proposed = other == name or (other in needed and _is_open(known[other]))
        if is_proposed and not _exclusions(spec, known[other]):
            places.append((f"--partition {other}", [limits_of(known[other])]))
    return suggestion(places, _ask(spec)) or ""


def _is_open(partition: dict[str, str]) -> bool:
    """Whether every user's jobs start there; a field that an older Slurm does not show counts as usual."""
    usual = {"State": "UP", "AllowGroups": "ALL", "RootOnly": "NO", "Hidden": "NO"}
    return all(partition.get(key, value) == value for key, value in usual.items())


def limits_of(partition: dict[str, str]) -> Limits:
    """Return the limits in the fields of one line of ``scontrol show partition``."""
    numbers = [whole_number(partition.get(key, "")) for key in ("MaxNodes", "TotalNodes")]
    try:
        longest = parse_walltime(partition.get("MaxTime", ""))
    except ValueError:  # UNLIMITED, or missing
        longest = None
    return Limits(
        max_nodes=min((number for number in numbers if number), default=None),
        min_nodes=whole_number(partition.get("MinNodes", "")) or None,
        max_walltime=longest,
    )


def _exclusions(spec: JobSpec, partition: dict[str, str]) -> list[tuple[str, str, str]]:
    """Return (noun, requested name, allowed names) if the partition's lists exclude the account or the QOS."""
    found = []
    for key, noun, asked in (("Accounts", "account", spec.account), ("Qos", "QOS", spec.qos)):
        if not asked:
            continue
        allowed, denied = partition.get(f"Allow{key}", "ALL"), partition.get(f"Deny{key}", "")
        is_restricted = allowed not in ("ALL", "")
        if is_restricted and asked.lower() not in allowed.lower().split(","):
            found.append((noun, asked, allowed))
        elif asked.lower() in denied.lower().split(","):
            found.append((noun, asked, ""))
    return found


def _accounting_faults(spec: JobSpec, allowed: list[Association]) -> list[Fault]:
    """Return the faults of the account and of its QOS. Slurm stores the names of both in lower case."""
    if not allowed:
        return []
    faults = (_account_fault(spec, allowed), _qos_fault(spec, allowed))
    return [fault for fault in faults if fault]


def _account_fault(spec: JobSpec, allowed: list[Association]) -> Fault | None:
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


def _qos_fault(spec: JobSpec, allowed: list[Association]) -> Fault | None:
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
