"""What a job meets of limits that several jobs share: sbatch refuses it, it never starts, or it waits for others. Pure.

As in acct_policy.c (22.05 to 25.11): the number of submitted jobs is compared by sbatch, that of running jobs and the
resources in use when a job would start.
"""

from __future__ import annotations

from collections.abc import Sequence

from hpclaunch.config.limits import Limits
from hpclaunch.core.errors import Fault
from hpclaunch.core.units import count, format_memory
from hpclaunch.resolve.nodes.limits import Ask
from hpclaunch.sites.slurm_shares import Pool

_SUBMITTED = {
    "MaxSubmitPU": "jobs of yours",
    "MaxSubmitPA": "jobs of the account",
    "MaxSubmit": "jobs of yours",
    "GrpSubmit": "jobs of all its users",
}
"""The limits of jobs that wait or run -> whose they are."""
_RUNNING = {
    "MaxJobsPU": "jobs of yours",
    "MaxJobsPA": "jobs of the account",
    "MaxJobs": "jobs of yours",
    "GrpJobs": "jobs of all its users",
}
_IN_USE = {"MaxTRESPU": "by jobs of yours", "MaxTRESPA": "by jobs of the account", "GrpTRES": "by all its jobs"}
_OF_ONE_JOB = ("MaxTRESMins", "GrpTRESRunMins", "MaxTRESRunMinsPU", "MaxTRESRunMinsPA")
_NOUNS = {"cpu": "CPU", "node": "node", "gres/gpu": "GPU"}


def amounts_of(ask: Ask) -> dict[str, int]:
    """Return resource -> the least amount that the job has on all its nodes, as far as it is known."""
    gpus, cpus, memory = ask.held_gpus or ask.gpus, ask.held_cpus or ask.cpus, ask.held_memory or ask.memory
    amounts = {"node": 1, "cpu": cpus, "mem": memory, "gres/gpu": gpus}
    if ask.gpu_type:
        amounts[f"gres/gpu:{ask.gpu_type}"] = gpus
    return {name: ask.nodes * amount for name, amount in amounts.items() if amount}


def minute_limits(pool: Pool, ask: Ask, *, is_safe: bool) -> list[tuple[str, Limits]]:
    """Return (whose, walltime) of the limits of resource minutes, for this request's resources.

    ``is_safe``: a job beyond what is granted in all is refused, or starts only if it can end within it.
    """
    found = []
    for (column, name), bound in pool.bounds.items():
        whose = f"{pool.whose} ({column}{f' {name}={bound}' if name else ''})"
        if column == "GrpWall" and is_safe:
            found.append((whose, Limits(max_walltime=bound)))
        amount = amounts_of(ask).get(name)
        if amount and (column in _OF_ONE_JOB or (column == "GrpTRESMins" and is_safe)):
            found.append((whose, Limits(max_walltime=bound * 60 // amount)))
    return found


def refusals_by(pools: Sequence[Pool], jobs: int) -> list[Fault]:
    """Return why so many jobs more cannot be submitted, or never start."""
    found = []
    for pool in pools:
        for (column, _), bound in pool.bounds.items():
            live = pool.used.get((column, ""), 0)
            where = f"Slurm's {pool.whose} ({column}={bound})"
            if column in _SUBMITTED and live + jobs > bound:
                what = f"{count(jobs, 'job')} submitted" + (f", beside {live} that wait or run" if live else "")
                allowed = f"{bound} {_SUBMITTED[column]} at a time"
                found.append(Fault(where=where, what=what, allowed=allowed, next=_step(bound, live, jobs)))
            elif column in _RUNNING and not bound:
                step = "another --qos or --account"
                found.append(Fault(where=where, what="no job of it ever starts", next=step, subject="account"))
    return found


def _step(bound: int, live: int, jobs: int) -> str:
    if not bound:
        return "another --qos or --account"
    if jobs > bound:
        return f"sweep at most {count(bound, 'value')} in one submission"
    return f"submit it when {live + jobs - bound} of them have ended, or cancel as many"


def delays_by(pools: Sequence[Pool], ask: Ask, *, is_whole: bool, is_safe: bool) -> list[str]:
    """Return what the job waits for beside free nodes, in sentences; nothing of what is not known.

    ``is_whole``: its nodes are its own, so that they are none of those that other jobs have.
    """
    found = []
    amounts = amounts_of(ask)
    for pool in pools:
        for (column, name), bound in pool.bounds.items():
            used = pool.used.get((column, name))
            if used is None:
                continue
            where = f"Slurm's {pool.whose} ({column}{f' {name}' if name else ''}={bound})"
            amount = amounts.get(name, 0)
            if column in _RUNNING and 0 < bound <= used:
                found.append(f"{where}: {used} {_RUNNING[column]} run, so this one waits until one has ended")
            elif column in _IN_USE and amount <= bound < used + amount and (name != "node" or is_whole):
                in_use = f"{_words(name, used)} of {_words(name, bound)} are in use {_IN_USE[column]}"
                found.append(
                    f"{where}: {in_use}, so this one, with {_words(name, amount)}, waits until enough are free"
                )
            elif column == "GrpTRESMins":
                found += _warn_of_grant(where, name, bound, used, amount * ask.walltime // 60 if is_safe else 0)
    return found


def _warn_of_grant(where: str, name: str, bound: int, used: int, needed: int) -> list[str]:
    """Return that what is granted is used up, or is too little for the job."""
    if used < bound and used + needed <= bound:
        return []
    left = max(0, bound - used)
    what = f"{left} of {bound} minutes of {name} are left" + (f", and the job asks for {needed}" if needed else "")
    return [f"{where}: {what}, so it waits until more are granted, or until use has decayed"]


def _words(name: str, amount: int) -> str:
    """Return an amount of a resource in words: ``8 CPUs``, ``16G of memory``, ``4 a100 GPUs``."""
    if name == "mem":
        return f"{format_memory(amount)} of memory"
    kind = name.removeprefix("gres/gpu:")
    return count(amount, _NOUNS.get(name) or (f"{kind} GPU" if kind != name else name))
