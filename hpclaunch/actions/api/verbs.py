"""The verbs of ``import hpclaunch``: each takes the steps of the command of its name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from hpclaunch import runs
from hpclaunch.actions.api import options as keywords
from hpclaunch.actions.api.messages import LOGGER, this_system
from hpclaunch.actions.api.options import PlanOptions, Program
from hpclaunch.actions.api.plans import Plan, plan_of
from hpclaunch.actions.api.submitted import RunStatus, SubmittedRun, status_of
from hpclaunch.actions.following import states
from hpclaunch.actions.following.progress import ProgressOfRuns
from hpclaunch.actions.preparing import preflight
from hpclaunch.actions.preparing.submit import prepare
from hpclaunch.core.keyword_types import Name, Value
from hpclaunch.core.records import record
from hpclaunch.core.spec import SubmitOptions
from hpclaunch.runs.typed_command import typed_command

if TYPE_CHECKING:
    from typing_extensions import Unpack


@record
class DryRun:
    """What `submit` would submit.

    ``script``: byte for byte. ``library``: the functions that it needs beside it (``hpclaunch.sh``). ``spec``: every
    resolved value. ``command``: what one types for the same. ``notices``: warnings, and what a submission from this
    machine would be refused for.
    """

    script: str
    library: str = field(repr=False)
    spec: dict[str, Any] = field(repr=False)
    command: str
    notices: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.script


@overload
def submit(program: Program, *, dry_run: Literal[True], **options: Unpack[SubmitOptions]) -> DryRun: ...
@overload
def submit(program: Program, *, dry_run: Literal[False] = False, **options: Unpack[SubmitOptions]) -> SubmittedRun: ...
@overload
def submit(program: Program, *, dry_run: bool, **options: Unpack[SubmitOptions]) -> SubmittedRun | DryRun: ...
def submit(program: Program, *, dry_run: bool = False, **options: Unpack[SubmitOptions]) -> SubmittedRun | DryRun:
    """Submit a job, your own script, or any command (a list of words), as a multi-node run.

    The keywords are the flags of ``hpclaunch submit``; `SubmitOptions` lists them. With ``dry_run`` nothing is
    submitted, and the script is returned. Raises InvalidRequest, NotFound, InvalidFile, Refused with all problems, and
    SchedulerError; of these Unanswered and NotRecorded mean that the run may be queued.

        run = hpclaunch.submit("cifar", nodes=4, settings={"epochs": 3})
        run.wait()
        run.metrics("epoch")
    """
    keywords.refuse_unknown("submit", options, SubmitOptions)
    notices: list[str] = []

    def warn(text: str) -> None:
        LOGGER.warning(text)
        notices.append(text)

    system = this_system(warn)
    request = keywords.submit_request(system, program, options)
    prepared = prepare(system, request, keywords.runs_folder(options))
    for text in preflight.notices_of(prepared):
        warn(text)
    if dry_run:
        for fault in preflight.missing(prepared):
            warn(str(fault))
        preflight.check_resolved(prepared)
        return DryRun(
            script=prepared.text,
            library=prepared.script.library,
            spec=prepared.spec.to_json(),
            command=typed_command(request),
            notices=tuple(notices),
        )
    from hpclaunch.actions.queueing.start import start

    run = start(system, prepared)
    return SubmittedRun(folder=run.path, notices=tuple(notices))


def sweep(
    program: Program, values: Mapping[str, str | Iterable[Value]], **options: Unpack[SubmitOptions]
) -> SubmittedRun:
    """Submit one run for every combination of the values, as one job array; ``run.tasks()`` are its runs.

        run = hpclaunch.sweep("cifar", {"learning_rate": [0.1, 0.01], "seed": range(5)}, at_once=4)

    The same as `submit` with the keyword ``sweep``, which also has a dry run. Raises as `submit`.
    """
    merged: SubmitOptions = {**options, "sweep": values}
    return submit(program, **merged)


def plan(job: Name, **options: Unpack[PlanOptions]) -> Plan:
    """Recommend a node count and training settings for a job; nothing is submitted.

    The keywords are the flags of ``hpclaunch plan``; `PlanOptions` lists them. Values that you give are not changed. A
    request that cannot run gives a plan with ``problems``. Raises InvalidRequest, NotFound, InvalidFile and Refused.
    """
    from hpclaunch.actions.measuring.plan import plan_job

    keywords.refuse_unknown("plan", options, PlanOptions)
    calibration = options.get("calibration")
    forecast = plan_job(
        this_system(),
        keywords.plan_request(job, options),
        keywords.plan_objective(options),
        global_batch=keywords.global_batch_of(options),
        calibration=None if calibration is None else Path(calibration),
        work=keywords.work_of(options),
    )
    return plan_of(forecast)


def run(name: Name = "@latest") -> SubmittedRun:
    """Return a run by its name, first letters, directory, or job ID; ``@latest``, ``@2``: the newest, the one before.

    Raises NotFound.
    """
    system = this_system()
    return SubmittedRun(folder=runs.find(system.index, os.fspath(name), system.run_folders).path)


def status(
    *names: Name, state: str | Sequence[str] = (), since: datetime | timedelta | str | None = None
) -> list[RunStatus]:
    """Return how runs are now, newest first, with one question to the scheduler: the named ones, or all.

    ``state``: only runs in it, or in one of several. ``since``: only runs made then or later: a time (UTC without a
    zone), or how long ago, also as text (``"7d"``). Raises NotFound.
    """
    system = this_system()
    begin = _begin(since, system.now())
    found = states.find(system, [os.fspath(name) for name in names]) if names else states.all_runs(system, begin)
    wanted = [state] if isinstance(state, str) else [*state]
    found = states.in_states([one for one in found if one.created >= begin], wanted, every=False)
    progress = ProgressOfRuns()
    return [status_of(one, progress) for one in found]


def _begin(since: datetime | timedelta | str | None, now: datetime) -> str:
    """Return the earliest time as a record has it; empty without one."""
    if since is None or isinstance(since, str):
        from hpclaunch.actions.requesting.typed_times import since_of

        return since_of(since, now)
    moment = now - since if isinstance(since, timedelta) else since
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return f"{moment.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
