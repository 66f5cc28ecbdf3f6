"""What several jobs share under Slurm's limits, and how much of it is used: ``scontrol show assoc_mgr`` as pools. Pure.

slurmctld prints its own counters there, with which it compares a job: ``GrpTRES=cpu=64(8)`` is a limit of 64 CPUs, of
which 8 are in use, and ``N`` is no limit (info_assoc_mgr.c of 22.05 to 25.11). An ordinary user sees what PrivateData
leaves; of what is not shown nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache

from hpclaunch.core.records import record
from hpclaunch.core.units import whole_number
from hpclaunch.sites.slurm_limits import Bounds
from hpclaunch.sites.slurm_text import Fields, amounts_in, clean, records, tres_in

_RECORD = re.compile(
    r"^ClusterName=\S* Account=(?P<account>\S*) UserName=(?P<user>[^\s(]*)\S* Partition=(?P<partition>\S*)"
)
_DEFAULT = " DefAssoc=Yes"
_USED = re.compile(r"\(([0-9]{1,18})(?:\.[0-9]*)?\)$")
_OF_ONE_JOB = {"MaxTRESPJ": "MaxTRES", "MaxTRESPN": "MaxTRESPerNode", "MaxTRESMinsPJ": "MaxTRESMins"}
_OF_ALL_JOBS = ("GrpTRES", "GrpTRESMins", "GrpTRESRunMins")
_NUMBERS = {"GrpJobs": "GrpJobs", "GrpSubmitJobs": "GrpSubmit", "MaxJobs": "MaxJobs", "MaxSubmitJobs": "MaxSubmit"}
_OF_PERSON = {"MaxJobsPU": "MaxJobsPU", "MaxSubmitJobsPU": "MaxSubmitPU", "MaxTRESPU": "MaxTRESPU"}
_OF_ACCOUNT = {"MaxJobsPA": "MaxJobsPA", "MaxSubmitJobsPA": "MaxSubmitPA", "MaxTRESPA": "MaxTRESPA"}


@record
class Pool:
    """Limits of a QOS or an association, and what is ``used`` of them now (a missing one: not known)."""

    whose: str
    bounds: Bounds = field(default_factory=dict)
    used: Bounds = field(default_factory=dict)


def default_account(text: str, user: str) -> str:
    """Return the account of a user's job that names none; empty if it is not shown."""
    own = [account for (account, name, _), line in _associations_in(text).items() if name == user and _DEFAULT in line]
    return own[0] if own else ""


@lru_cache(maxsize=1)
def _associations_in(text: str) -> Mapping[tuple[str, str, str], str]:
    """Return (account, user, partition) -> the line of every association; those of others need no reading."""
    lines = ((_RECORD.match(line), line) for line in clean(text).split("\n"))
    return {(place["account"], place["user"], place["partition"]): line for place, line in lines if place}


def associations_of(text: str, user: str, account: str, partition: str) -> list[Pool]:
    """Return the association that a job gets, and the accounts above it; none where the user's own is not shown.

    Of two associations of a user with an account, the one for the partition counts.
    """
    lines = _associations_in(text)
    own = lines.get((account, user, partition)) or lines.get((account, user, ""))
    if own is None:
        return []
    found = [_association(f"association of {user} with account {account}", own)]
    seen = set[str]()
    while account and account not in seen and (line := lines.get((account, "", ""))):
        seen.add(account)
        above = _association(f"account {account}", line)
        # What one job may have is inherited by the user's own association, which may have more.
        of_all = {key: bound for key, bound in above.bounds.items() if key[0].startswith("Grp")}
        found.append(Pool(whose=above.whose, bounds=of_all, used=above.used))
        account = _fields(line).get("ParentAccount", "").partition("(")[0]
    return found


def _fields(line: str) -> Fields:
    return next(iter(records(line, "ClusterName")), {})


def _association(whose: str, line: str) -> Pool:
    fields = _fields(line)
    bounds: dict[tuple[str, str], int] = {}
    used: dict[tuple[str, str], int] = {}
    for shown, column in {**_OF_ONE_JOB, **{name: name for name in _OF_ALL_JOBS}}.items():
        _add_amounts(column, fields.get(shown, ""), bounds, used)
    for shown, column in _NUMBERS.items():
        _add_number(column, fields.get(shown, ""), bounds, used)
    for shown, column in {"MaxWallPJ": "MaxWall", "GrpWall": "GrpWall"}.items():
        _add_number(column, fields.get(shown, ""), bounds, used, seconds=60)
    return Pool(whose=whose, bounds=bounds, used=used)


def used_of_qos(text: str, qos: str, uid: int, account: str) -> Bounds:
    """Return what is used of a QOS: by all jobs, by those of the user, and by those of the account."""
    used: dict[tuple[str, str], int] = {}
    found = re.search(rf"^QOS={re.escape(qos)}\([0-9]+\) .*$", clean(text), re.MULTILINE)
    if found is None:
        return used
    whole, bounds = found[0], dict[tuple[str, str], int]()
    fields = next(iter(records(whole.partition(" Account Limits")[0], "QOS")), {})
    for name in _OF_ALL_JOBS:
        _add_amounts(name, fields.get(name, ""), bounds, used)
    for shown in ("GrpJobs", "GrpSubmitJobs"):
        _add_number(_NUMBERS[shown], fields.get(shown, ""), bounds, used)
    _add_number("GrpWall", fields.get("GrpWall", ""), bounds, used, seconds=60)
    accounts, _, users = whole.partition(" User Limits")
    for part, name, columns in (
        (accounts, re.escape(account), _OF_ACCOUNT),
        (users, rf"(?:\S*\()?{uid}\)?", _OF_PERSON),
    ):
        block = re.search(rf" {name}=\{{([^}}]*)\}}", part)
        # Without a block there is no job yet.
        values = dict(word.split("=", 1) for word in block[1].split(" ") if "=" in word) if block else {}
        for shown, column in columns.items():
            if shown.startswith("MaxTRES"):
                _add_amounts(column, values.get(shown, ""), bounds, used)
            else:
                _add_number(column, values.get(shown, "N(0)"), bounds, used)
    return used


def _add_amounts(column: str, text: str, bounds: dict[tuple[str, str], int], used: dict[tuple[str, str], int]) -> None:
    bounds |= {(column, name): amount for name, amount in amounts_in(text).items()}
    for name, value in tres_in(text).items():
        if place := _USED.search(value):
            used[column, name] = int(place[1])


def _add_number(
    column: str, text: str, bounds: dict[tuple[str, str], int], used: dict[tuple[str, str], int], seconds: int = 1
) -> None:
    number, _, _ = text.partition("(")
    if (bound := whole_number(number)) is not None:
        bounds[column, ""] = bound * seconds
    if place := _USED.search(text):
        used[column, ""] = int(place[1]) * seconds


def without(pool: Pool, taken: Mapping[tuple[str, str], int]) -> Pool:
    """Return a pool without the limits that others have already, which count in their place."""
    instead = {"MaxJobs": ("MaxJobsPU", "MaxJobsPA"), "MaxSubmit": ("MaxSubmitPU", "MaxSubmitPA")}
    left = {}
    for (column, name), bound in pool.bounds.items():
        counted = [other for other in instead.get(column, (column,)) if (other, name) in taken]
        if not counted:
            left[column, name] = bound
    return Pool(whose=pool.whose, bounds=left, used=pool.used)
