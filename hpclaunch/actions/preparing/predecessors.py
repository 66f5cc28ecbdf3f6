"""The runs and jobs that a submission waits for (--after, --after-any), as recorded, or with their present states."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpclaunch import runs
from hpclaunch.actions.following.identity import obstacle, other_users
from hpclaunch.core.errors import Fault, InvalidRequest, NotFound
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.run_states import FINAL
from hpclaunch.core.scheduler_rows import SAME_NAME
from hpclaunch.core.spec import Request
from hpclaunch.core.spec_parts import Predecessor
from hpclaunch.runs import Run
from hpclaunch.schedulers import scheduler_of

if TYPE_CHECKING:
    from hpclaunch.actions.system import System

_JOB_NUMBER = re.compile(r"[1-9][0-9]{0,17}(_[0-9]{1,9})?")
"""A job, or a task of an array, as dependencies name it. No scheduler has a job 0."""
_CONDITIONS = {"afterok": "--after", "afterany": "--after-any", "after": "", "afternotok": "", "aftercorr": ""}
"""Conditions of Slurm's dependencies -> the flag that means the same; empty: hpclaunch has none."""
_SEPARATORS = re.compile(r"[,:]")
"""What stands between jobs in the dependencies of Slurm. The path of a run may contain them too."""


def recorded_predecessors(system: System, request: Request) -> tuple[Predecessor, ...]:
    """Return the runs and jobs that the request names, as they were last recorded; asks no scheduler.

    A number that is no run's is another job of the scheduler. Nothing is recorded of it. Raises InvalidRequest and
    NotFound.
    """
    found, others = _find_named(system, request)
    runs_of = [_predecessor_of(run, must, present=False) for run, must in found]
    others_of = (_other_job(number, must, "UNKNOWN") for number, must in others.items())
    return (*runs_of, *others_of, *_jobs_of_same_name(request))


def present_predecessors(
    system: System, request: Request, scheduler: str, clusters: str = ""
) -> tuple[Predecessor, ...]:
    """Return the runs and jobs that the request names, in their present states: the scheduler is asked.

    ``clusters``: the other cluster to which the new run goes, and where the jobs that are no runs are looked for.
    Raises InvalidRequest and NotFound.
    """
    from hpclaunch.actions.following.states import refreshed

    found, others = _find_named(system, request)
    present = refreshed([run for run, _ in found])
    runs_of = [_predecessor_of(run, must, present=True) for run, (_, must) in zip(present, found, strict=True)]
    with scheduler_of(scheduler).asking(clusters):
        states = scheduler_of(scheduler).job_states(list(others)) if others and "," not in clusters else {}
    jobs = [_other_job(number, must, states.get(number, "UNKNOWN")) for number, must in others.items()]
    return (*runs_of, *jobs, *_jobs_of_same_name(request))


def _find_named(system: System, request: Request) -> tuple[list[tuple[Run, bool]], dict[str, bool]]:
    """Return (run, whether it must have completed) for each run that the request names, and so for other jobs, once.

    Of both flags for one of them --after counts, which comes first.
    """
    typed = [*((name, True) for name in request.after), *((name, False) for name in request.after_any)]
    names = [(name, must) for name, must in typed if name not in SAME_NAME]
    _check(system, names)
    others: dict[str, bool] = {}
    for name, must in names:
        if _JOB_NUMBER.fullmatch(name) and not _is_run(system, name):
            others.setdefault(name, must)
    of_runs = [(name, must) for name, must in names if name not in others]
    found = runs.find_all(system.index, [name for name, _ in of_runs], system.run_folders) if of_runs else []
    chosen: dict[Path, tuple[Run, bool]] = {}
    for run, (_, must) in zip(found, of_runs, strict=True):
        chosen.setdefault(run.path, (run, must))
    return list(chosen.values()), others


def _check(system: System, names: Sequence[tuple[str, bool]]) -> None:
    """Raise InvalidRequest for words that name nothing, or several runs."""
    faults: list[Fault] = []
    for name, must_complete in names:
        flag = "--after" if must_complete else "--after-any"
        several = [part.strip() for part in _SEPARATORS.split(name) if part.strip()]
        condition = next((part for part in several if part not in SAME_NAME), "") if len(several) > 1 else ""
        if condition in _CONDITIONS:
            what, allowed = f"{name!r} is a dependency as the scheduler spells it", "one run or job each"
            next_step = flags_for(name) or f"--sbatch {shell_word(f'--dependency={name}')}"
        elif not several:
            what, allowed, next_step = "the text is empty", "a run, or the number of a job", "hpclaunch status"
        elif len(several) > 1 and not _is_run(system, name):
            what, allowed = f"{name!r} is no single run", "one run or job each"
            next_step = " ".join(f"{flag} {shell_word(part)}" for part in several)
        else:
            continue
        faults.append(Fault(what=what, where=flag, allowed=allowed, next=next_step))
    if faults:
        raise InvalidRequest(faults)


def flags_for(dependency: str) -> str:
    """Return a dependency of Slurm as flags; empty if a part of it has none, as ``?`` (any of several) has none."""
    words = []
    for clause in dependency.split(","):
        condition, *jobs = (part.strip() for part in clause.split(":"))
        if condition in SAME_NAME and not jobs:
            words.append(f"--after {condition}")
            continue
        flag = _CONDITIONS.get(condition, "")
        if not flag or not jobs or "?" in clause:
            return ""
        words += [f"{flag} {shell_word(job)}" for job in jobs]
    return " ".join(words)


def lasting(names: Sequence[str]) -> tuple[str, ...]:
    """Return those of the names that a further run waits for as well, since they are no jobs that end."""
    return tuple(name for name in names if name in SAME_NAME)


def _jobs_of_same_name(request: Request) -> list[Predecessor]:
    """Return what stands for all earlier jobs of the new run's name, if the request names them; nothing is known of it.

    The scheduler knows one such condition: that they have ended. So either flag means it.
    """
    word = next(iter(lasting([*request.after, *request.after_any])), "")
    own = Predecessor(run=word, must_complete=False, site="", state="", is_run=False, is_same_name=True)
    return [own] if word else []


def _is_run(system: System, name: str) -> bool:
    try:
        return bool(runs.find_all(system.index, [name], system.run_folders))
    except NotFound:
        return False


def _other_job(number: str, must_complete: bool, state: str) -> Predecessor:
    """Return a job that hpclaunch has no run of; an empty ``state``: the scheduler does not know it (any more)."""
    is_over = state in FINAL
    condition = "afterok" if must_complete else "afterany"
    unknown = f"the scheduler knows no job {number}, and hpclaunch no run of it" if not state else ""
    return Predecessor(
        run=f"job {number}",
        must_complete=must_complete,
        site="",
        state=state,
        jobs=() if is_over else (number,),
        has_failed=is_over and state != "COMPLETED",
        refusal=unknown,
        next=f"hpclaunch status lists runs, and squeue --me your jobs; --sbatch --dependency={condition}:{number} "
        "leaves the job to the scheduler"
        if unknown
        else "",
        is_run=False,
    )


def _predecessor_of(run: Run, must_complete: bool, present: bool) -> Predecessor:
    refusal, next_step = _refusal_of(run, present)
    command = run.spec().get("command")
    return Predecessor(
        run=run.label,
        must_complete=must_complete,
        site=run.site,
        state=run.state,
        jobs=() if run.final else tuple(job.job_id for job in runs.jobs_of(run)),
        cluster=run.cluster,
        sent_from=run.via,
        has_failed=runs.has_failed(run),
        refusal=refusal,
        next=next_step,
        command=tuple(map(str, command)) if isinstance(command, list) else (),
    )


def _refusal_of(run: Run, present: bool) -> tuple[str, str]:
    """Return why no run can wait for this one, and the next step; two empty texts if one can."""
    fault = obstacle(run) if present else other_users(run)
    if fault:
        return fault.what, fault.next
    if run.final:
        return "", ""
    if not run.job_id:
        return f"{run.label} has no job: its state is {run.state}", f"hpclaunch status {run.label}"
    restarts = run.spec().get("restarts")
    if isinstance(restarts, dict) and restarts.get("most") and restarts.get("by") == "resubmit":
        what = f"{run.label} may continue in another job, which the scheduler does not know yet"
        return what, f"when it has ended (hpclaunch wait {run.label}), submit again"
    return "", ""
