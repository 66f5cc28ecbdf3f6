"""``shell``: an interactive allocation with the environment of a job; it makes no run, and leaves no file behind.

The scheduler's own program takes the place of this process, so that keys, signals and a lost terminal end the
allocation as that program does it. The file that the shell reads travels in a variable.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from hpclaunch.actions.preparing.advice import advised
from hpclaunch.actions.preparing.load import load
from hpclaunch.actions.preparing.preflight import check
from hpclaunch.actions.preparing.programs import program_job
from hpclaunch.actions.preparing.submit import Prepared, template_cache
from hpclaunch.config.job import Job, command_job
from hpclaunch.core.errors import Fault, Refused, SchedulerError
from hpclaunch.core.records import record
from hpclaunch.core.runtime_rows import RUNTIMES
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.core.shell_variables import person_variables
from hpclaunch.core.spec import TENSORFLOW, JobSpec, Request, Script
from hpclaunch.launchers import launcher_row
from hpclaunch.resolve.environment.framework import stated_framework
from hpclaunch.schedulers import scheduler_of

if TYPE_CHECKING:
    from hpclaunch.actions.system import System
    from hpclaunch.render import ShellParts
    from hpclaunch.resolve.case import Case

_BASH = "/bin/bash"
_TEXT = "HPCLAUNCH_SHELL"
_KEPT = ("PATH", "DISPLAY", "XAUTHORITY")
"""Variables that the command itself needs, besides those of the person."""
_OPEN = f'exec {_BASH} --rcfile <(printf %s "${_TEXT}") -i'


@record
class InteractiveShell:
    """A shell that can be opened: its resolved request, the file that it reads, and the command that opens it."""

    prepared: Prepared
    text: str
    command: tuple[str, ...]


def prepare_shell(system: System, request: Request) -> InteractiveShell:
    """Load, resolve and render; nothing is written, and no program is run. An empty target: bash alone.

    Raises Refused where the site has no queue, and HpclaunchError for a file that cannot be used.
    """
    from hpclaunch.render import render_shell
    from hpclaunch.resolve import resolve

    case = advised(_case_of_shell(system, request))
    if not case.site.scheduler_row.has_queue:
        what = f"{case.site.name} has no scheduler, so there is no allocation in which a shell could be opened"
        next_step = "hpclaunch submit runs a job on this machine; for a cluster: hpclaunch shell --site NAME"
        raise Refused(Fault(what=what, next=next_step))
    resolved, faults = resolve(case)
    spec = replace(resolved, data=None)  # the variable tells where it would be; nobody reads it yet
    notices = (*spec.warnings, *case.context.notices)
    prepared = Prepared(case=case, spec=spec, script=Script(text="", library=""), notices=notices, faults=tuple(faults))
    command = scheduler_of(spec.scheduler).shell_command(spec, [_BASH, "-c", _OPEN])
    roots, cache = system.catalog.template_roots(), template_cache(system)
    text = "" if faults else render_shell(spec, _parts_of(spec, case), roots, cache, system.catalog.require)
    return InteractiveShell(prepared=prepared, text=text, command=command)


def _case_of_shell(system: System, request: Request) -> Case:
    """Return the case of the shell: one node unless another number was typed, and the software of the target.

    bash stands in the place of the job's program, in the folder where one types.
    """
    request = replace(request, nodes=request.nodes or 1, name=request.name or "shell")
    if request.target:
        job = program_job(system, request)
    else:
        request = replace(request, target=_BASH, is_command=True)
        job = replace(command_job(_BASH, Path("/")), name="shell")
    case = load(system, request, job=job)
    framework = stated_framework(case)[1] or (TENSORFLOW if case.job.script else None)
    context = replace(case.context, run_dir=case.context.cwd)
    return replace(case, job=with_bash(case.job, framework), context=context, interactive=True)


def with_bash(job: Job, framework: str | None) -> Job:
    """Return a job that runs bash where the job runs its program: without what belongs to the program's parameters."""
    return replace(
        job,
        script=None,
        command=(_BASH,),
        framework=framework,
        parameters={},
        packages=(),
        data=replace(job.data, make=None) if job.data else None,
        other_data=(),
        training=None,
        recipes={},
        strategies=(),
        restarts=None,
        source_only=True,
        in_place=True,
    )


def _parts_of(spec: JobSpec, case: Case) -> ShellParts:
    from hpclaunch.render import ShellParts

    program = Path(sys.executable).with_name("hpclaunch")
    return ShellParts(
        container=_container_words(spec, case),
        program=str(program) if os.access(program, os.X_OK) else "",
        login_shell=("export", "NONE") in spec.directives or spec.shell.endswith(" -l"),
    )


def _container_words(spec: JobSpec, case: Case) -> tuple[str, ...]:
    """Return the words before a command that runs in the job's image, as its ranks do; none without an image."""
    option = RUNTIMES[case.site.container.runtime].step_option if case.site.container else ""
    begin = next((place for place, word in enumerate(spec.launch) if option and word.startswith(option)), 0)
    if begin:
        return (spec.launch[0], "--overlap", "--nodes=1", "--ntasks=1", "--pty", *spec.launch[begin:])
    row = launcher_row(spec.launcher)
    if spec.contained and row.is_in_image and case.site.container:
        program = RUNTIMES[case.site.container.runtime].program
        return spec.launch[spec.launch.index(program) : spec.launch.index(row.programs[-1])]
    return spec.command[: spec.command.index(_BASH)]


def open_shell(system: System, shell: InteractiveShell) -> NoReturn:
    """Check as before a submission, then start the command in the place of this process. Raises Refused."""
    check(shell.prepared)
    _refuse_nested(system, shell.prepared.case)
    environment, program = _environment_of(system.environment, shell.prepared.spec), shell.command[0]
    found = shutil.which(program, path=environment.get("PATH", os.defpath))
    if found is None:
        site = shell.prepared.spec.site
        what = f"there is no {program} on this machine, which opens an allocation at {site}"
        next_step = f"log in at {site}; or add --dry-run to see the command"
        raise Refused(Fault(what=what, next=next_step, subject="scheduler"))
    os.execve(found, shell.command, {**environment, _TEXT: shell.text})


def _refuse_nested(system: System, case: Case) -> None:
    """Raise Refused in a shell that is in an allocation: one in the other would hold both until it ends."""
    try:
        outer = scheduler_of(case.site.scheduler).allocation(system.environment)
    except SchedulerError:  # its variables outlived it
        return
    if outer:
        what = f"this shell is in the allocation {outer.job_id} already"
        next_step = "hpclaunch submit --here JOB runs a job in it; or exit, and then hpclaunch shell"
        raise Refused(Fault(what=what, next=next_step))


def _environment_of(environment: Mapping[str, str], spec: JobSpec) -> dict[str, str]:
    """Return the variables for the command: as of a job, without those that would override its options.

    Where a job gets none of the submitting shell, those of the person and the terminal remain.
    """
    row = scheduler_row(spec.scheduler)
    overriding = scheduler_of(spec.scheduler).overriding({**environment, row.inside_job: "1"})
    kept = {name: value for name, value in environment.items() if name not in overriding}
    if ("export", "NONE") not in spec.directives:
        return kept
    others = {name: value for name, value in kept.items() if name in _KEPT or name.startswith(row.variables)}
    return {**person_variables(kept), **others}
