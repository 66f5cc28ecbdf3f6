"""What Slurm itself would let wait for ever: it accepts a walltime above the limit, too many nodes, an unknown account.

(With ``EnforcePartLimits=NO``, the default: slurm.conf manual.) Where Slurm cannot tell, nothing is refused.
"""

from __future__ import annotations

import os
import pwd
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from hpclaunch.catalog import did_you_mean
from hpclaunch.errors import Fault
from hpclaunch.plan.limits import Ask, best_alternative, breaches
from hpclaunch.site import Limits
from hpclaunch.spec import JobSpec
from hpclaunch.units import parse_walltime

_SECONDS = 15
_FIELD = re.compile(r"(\w+)=(\S*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Association:
    """One account that the user may charge, with the QOS that it may use there (none: not said)."""

    account: str
    qos: tuple[str, ...]


def objections(spec: JobSpec) -> list[Fault]:
    """Return why Slurm would let this job wait for ever, as its own programs tell."""
    asked = _ask_all(["scontrol", "show", "partition", "--oneliner"], _associations_command())
    partitions = [dict(_FIELD.findall(line)) for line in asked[0].splitlines() if line.startswith("PartitionName=")]
    allowed = _associations(asked[1]) or _shares()
    return [*_of_partition(spec, partitions), *_of_account(spec, allowed)]


def _associations_command() -> list[str]:
    user = pwd.getpwuid(os.geteuid()).pw_name
    return ["sacctmgr", "--noheader", "--parsable2", "show", "associations", f"user={user}", "format=Account,QOS"]


def _associations(text: str) -> list[Association]:
    rows = [[*line.split("|"), ""][:2] for line in text.splitlines() if line.strip()]
    return [Association(account=account, qos=tuple(filter(None, qos.split(",")))) for account, qos in rows if account]


def _shares() -> list[Association]:
    """Ask sshare where sacctmgr knows nothing of this user: some sites let users see their shares only."""
    user = pwd.getpwuid(os.geteuid()).pw_name
    (text,) = _ask_all(["sshare", "--noheader", "--parsable2", f"--users={user}", "--format=Account,User"])
    rows = [[*line.split("|"), ""][:2] for line in text.splitlines()]
    return [Association(account=account.strip(), qos=()) for account, name in rows if name.strip() == user]


def _ask_all(*commands: Sequence[str]) -> list[str]:
    """Return the programs' answers, asked side by side; nothing for one that is missing, refuses or is silent."""
    running = [_start(command) for command in commands]
    return [_answer(process) for process in running]


def _start(command: Sequence[str]) -> subprocess.Popen[str] | None:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
        )
    except OSError:
        return None


def _answer(process: subprocess.Popen[str] | None) -> str:
    if process is None:
        return ""
    try:
        text, _ = process.communicate(timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return ""
    return text if process.returncode == 0 else ""


def _of_partition(spec: JobSpec, partitions: list[dict[str, str]]) -> list[Fault]:
    """Return the faults of the named partition, else of the cluster's default one; of several the first one's.

    A job that names several partitions waits for ever only if each of them refuses it.
    """
    known = {one["PartitionName"]: one for one in partitions}
    default = [name for name, one in known.items() if one.get("Default") == "YES"]
    names = spec.partition.split(",") if spec.partition else default
    if not known or not names:
        return []
    found = [_of_one_partition(spec, name, known) for name in names]
    return found[0] if all(found) else []


def _of_one_partition(spec: JobSpec, name: str, known: dict[str, dict[str, str]]) -> list[Fault]:
    if name not in known:
        what = f"Slurm has no partition {name!r}{did_you_mean(name, known)}"
        return [Fault(what=what, allowed=", ".join(known), next="--partition NAME")]
    ask = Ask(kind=spec.node_type, nodes=spec.layout.nodes, gpus=spec.layout.gpus_per_node, walltime=spec.walltime)
    order = sorted(known, key=lambda other: other != name)
    places = [(f"--partition {other}", [limits_of(known[other])]) for other in order]
    typed = best_alternative(places, ask)
    faults = [
        Fault(
            where=f"Slurm's partition {name}",
            what=breach.what,
            allowed=breach.allowed,
            next=f"{typed} would be taken" if typed else "ask for less",
        )
        for breach in breaches(limits_of(known[name]), ask)
    ]
    for key, asked in (("Accounts", spec.account), ("Qos", spec.qos)):
        faults += _of_list(name, known[name], key, asked)
    return faults


def limits_of(partition: dict[str, str]) -> Limits:
    """Return the limits that ``scontrol show partition`` tells (its fields of one line, by name)."""
    numbers = [int(partition[key]) for key in ("MaxNodes", "TotalNodes") if partition.get(key, "").isdigit()]
    least = partition.get("MinNodes", "")
    try:
        longest = parse_walltime(partition.get("MaxTime", ""))
    except ValueError:  # UNLIMITED, or not said
        longest = None
    return Limits(
        max_nodes=min((number for number in numbers if number), default=None),
        min_nodes=int(least) if least.isdigit() and int(least) > 0 else None,
        max_walltime=longest,
    )


def _of_list(name: str, partition: dict[str, str], key: str, asked: str) -> list[Fault]:
    if not asked:
        return []
    allowed, denied = partition.get(f"Allow{key}", "ALL"), partition.get(f"Deny{key}", "")
    noun = {"Accounts": "account", "Qos": "QOS"}[key]
    if allowed not in ("ALL", "") and asked not in allowed.split(","):
        return [Fault(where=f"Slurm's partition {name}", what=f"{noun} {asked!r} may not use it", allowed=allowed)]
    if asked in denied.split(","):
        return [Fault(where=f"Slurm's partition {name}", what=f"{noun} {asked!r} may not use it")]
    return []


def _of_account(spec: JobSpec, allowed: list[Association]) -> list[Fault]:
    if not allowed:
        return []
    accounts = sorted({one.account for one in allowed})
    if spec.account and spec.account.lower() not in accounts:  # Slurm keeps accounts in small letters
        near = did_you_mean(spec.account, accounts)
        what = f"you have no account {spec.account!r}{near}"
        return [
            Fault(where="Slurm's accounting", what=what, allowed=", ".join(accounts), next=f"--account {accounts[0]}")
        ]
    mine = [one for one in allowed if not spec.account or one.account == spec.account.lower()]
    qos = sorted({name for one in mine for name in one.qos})
    if spec.qos and qos and spec.qos.lower() not in qos:
        what = f"account {spec.account or accounts[0]} may not use QOS {spec.qos!r}{did_you_mean(spec.qos, qos)}"
        return [Fault(where="Slurm's accounting", what=what, allowed=", ".join(qos), next=f"--qos {qos[0]}")]
    return []
