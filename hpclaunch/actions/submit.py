"""The story of ``submit`` and ``render``: load, advise, resolve, render; then check, create the run, hand it over."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hpclaunch.actions.advice import advised
from hpclaunch.actions.load import load
from hpclaunch.actions.system import System
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.records import record
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.core.spec import JobSpec, Request, Script
from hpclaunch.resolve.case import Case

if TYPE_CHECKING:
    from hpclaunch.config.job import Job
    from hpclaunch.runs import Run


@record
class Prepared:
    """What resolving and rendering made of a case: the spec, the script, and what a person should know.

    With ``faults`` there is no script.
    """

    case: Case
    spec: JobSpec
    script: Script
    notices: tuple[str, ...]
    faults: tuple[Fault, ...] = ()

    @property
    def text(self) -> str:
        """The script: what is shown, and submitted."""
        return self.script.text


def prepare(system: System, request: Request, runs_dir: str | None = None, job: Job | None = None) -> Prepared:
    """Load, advise, resolve and render. Nothing is written and no program is asked.

    Raises HpclaunchError for a file that cannot be used. Reasons for refusing the request are kept in ``faults``, so
    that they can be raised together with what a look at the machine adds.
    """
    return prepare_case(system, load(system, request, runs_dir, job))


def prepare_case(system: System, case: Case) -> Prepared:
    """Advise, resolve and render what was loaded before, which is not read again."""
    from hpclaunch.resolve import resolve

    case = advised(case)
    spec, faults = resolve(case)
    notices = [*spec.warnings, *case.context.notices]
    if case.context.other_site:
        notices.append(f"this machine is {case.context.other_site}'s, and the script is for {spec.site}")
    script, from_templates = (Script(text="", library=""), []) if faults else _render(system, spec)
    return Prepared(case=case, spec=spec, script=script, notices=(*notices, *from_templates), faults=tuple(faults))


def _render(system: System, spec: JobSpec) -> tuple[Script, list[str]]:
    """Return the script with its library, and a notice if either is a person's own."""
    from hpclaunch.render import library, override_of, render  # 40 ms, which a refusal does not need

    roots = system.catalog.roots("templates")
    override = override_of(spec, roots)
    notices = [f"the template {override} takes the place of the bundled one"] if override else []
    return Script(text=render(spec, roots), library=library(roots)), notices


def standalone(system: System, prepared: Prepared) -> Prepared:
    """Return the same with a script that holds its library; with faults there is none. Raises InvalidFile."""
    from hpclaunch.render import render

    if not prepared.text:
        return prepared
    text = render(prepared.spec, system.catalog.roots("templates"), standalone=True)
    return replace(prepared, script=replace(prepared.script, text=text))


def missing(prepared: Prepared) -> list[Fault]:
    """Return what the run would need and is not there."""
    from hpclaunch.actions.preflight import missing_code, missing_here

    return [*missing_code(prepared.spec), *missing_here(prepared.spec)]


def refuse_faulty(prepared: Prepared) -> None:
    """Raise Refused if planning found a reason, together with what is missing here."""
    if prepared.faults:
        raise Refused([*prepared.faults, *missing(prepared)])


def is_foreign(site_status: str, other_site: str) -> bool:
    """Whether the scheduler here knows nothing of a site: this machine is another site's, or the site is retired."""
    return bool(other_site) or site_status == "retired"


def check(prepared: Prepared) -> None:
    """Raise Refused with every reason against submitting: of planning, of this machine, of the scheduler itself."""
    from hpclaunch.schedulers import scheduler_of

    spec, other_site = prepared.spec, prepared.case.context.other_site
    retired = Fault(
        what=f"{spec.site} is retired: its scripts can be rendered, not submitted",
        next="--dry-run shows the script; hpclaunch sites list",
    )
    program = scheduler_row(spec.scheduler).start_command
    astray = Fault(
        what=f"this machine is {other_site}'s: its {program} does not lead to {spec.site}",
        next=f"log in at {spec.site}; or --dry-run shows the script",
    )
    faults = [retired] if spec.site_status == "retired" else [astray] if other_site else []
    faults += [*prepared.faults, *missing(prepared)]
    told = {(fault.what, fault.allowed) for fault in faults}
    foreign = is_foreign(spec.site_status, other_site)
    objections = [] if foreign else scheduler_of(spec.scheduler).objections(spec)
    faults += [fault for fault in objections if (fault.what, fault.allowed) not in told]
    if faults:
        raise Refused(faults)


def estimate(prepared: Prepared) -> str:
    """Return the scheduler's own word on the script: when it would start. Raises Refused or SchedulerError."""
    from hpclaunch.schedulers import scheduler_of

    check(prepared)
    return scheduler_of(prepared.spec.scheduler).estimate(prepared.text).words


def remarks(prepared: Prepared) -> list[str]:
    """Return what a person should know of the code that the run takes along."""
    from hpclaunch.actions.preflight import remarks as look

    return look(prepared.spec)


def write_run(system: System, prepared: Prepared) -> Run:
    """Create the run directory (state RENDERED), so that its script can be given to sbatch by hand.

    Raises Refused if the code is not there; missing data is for the caller to weigh. The list of runs is told first, so
    that no run is lost; where it cannot be written the run is still found by its folder, and the person is told.
    """
    from hpclaunch import runs
    from hpclaunch.actions.preflight import missing_code
    from hpclaunch.planner.measured.finished_runs import expect
    from hpclaunch.runs.snapshot import choose

    faults = [*prepared.faults, *missing_code(prepared.spec)]
    if faults:
        raise Refused(faults)
    trouble = runs.remember(system.index, Path(prepared.spec.run_dir))
    if trouble:
        system.warn(f"{trouble}; hpclaunch finds this run from {system.cwd}, or by its path")
    code = choose(prepared.spec.code)
    request = {**asdict(prepared.case.request), "cwd": str(system.cwd)}
    expect(prepared.case, prepared.spec.run_dir)
    return runs.create(prepared.spec, prepared.script, code, os.uname().nodename, system.environment, request)


def submit(system: System, prepared: Prepared) -> Run:
    """Check, create the run directory, submit. If the scheduler refuses, the directory stays, with the reason."""
    from hpclaunch.actions.states import hand_over

    check(prepared)
    return hand_over(write_run(system, prepared), prepared.text, prepared.spec.walltime)


def check_output(path: Path) -> None:
    """Refuse a place for a script that holds anything but an older script of hpclaunch. Raises Refused."""
    name_it = "name a new file with -o"
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise Refused(Fault(where=str(path), what="is not a plain file, and is left as it is", next=name_it))
    if path.exists():
        with path.open("rb") as file:
            if b"\n# Rendered by hpclaunch " not in file.read(1000):
                raise Refused(Fault(where=str(path), what="exists and was not rendered by hpclaunch", next=name_it))
    elif not path.parent.is_dir():
        raise Refused(Fault(where=str(path), what="its folder is not there", next=f"mkdir -p {path.parent}"))


def write_script(path: Path, text: str) -> None:
    """Write a rendered script to a place that ``check_output`` has admitted. Raises Refused."""
    from hpclaunch.runs import write_text

    try:
        write_text(path, text)
        path.chmod(0o700)  # what the job's variables hold is nobody else's
    except OSError as error:
        raise Refused(Fault(where=str(path), what=f"cannot be written: {error.strerror}")) from None


def strays(system: System, prepared: Prepared) -> list[str]:
    """Return the variables of this shell that would override the script if a person started it by hand."""
    from hpclaunch.schedulers import scheduler_of

    return scheduler_of(prepared.spec.scheduler).overriding(system.environment)
