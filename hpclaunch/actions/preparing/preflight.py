"""Finds all reasons against a submission: in the request, on this machine, in Slurm; it changes nothing.

What this machine lacks refuses a submission. A script that is only shown may be meant for another machine, so there
it is a warning, whatever else is wrong with the request.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpclaunch.actions.environments.python_packages import missing_packages
from hpclaunch.actions.preparing.node_copies import not_copied, nothing_to_copy, too_large
from hpclaunch.actions.preparing.programs import missing_program, missing_python, unseen_program
from hpclaunch.actions.preparing.submit import Prepared
from hpclaunch.actions.preparing.this_machine import cluster_remarks, misplaced, redirected
from hpclaunch.config.data_sets import layout_in
from hpclaunch.config.limits import Limits, together
from hpclaunch.config.site import Site
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.quoting import shown_name
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.core.spec import JobSpec
from hpclaunch.core.spec_parts import DataNeed
from hpclaunch.launchers import launcher_row
from hpclaunch.resolve.case import Case
from hpclaunch.runs.snapshot import Snapshot, examine, faults_of

if TYPE_CHECKING:
    from hpclaunch.schedulers import Objections

_MOST_NAMED = 5


def check(prepared: Prepared) -> tuple[str, ...]:
    """Raise Refused with all reasons against submitting: from resolving, from this machine, from the scheduler.

    Returns what the scheduler knows that the run will wait for, beside free nodes.
    """
    wrong_place, delays = misplaced(prepared.case, prepared.spec), tuple[str, ...]()
    faults = list(dict.fromkeys([*wrong_place, *prepared.faults, *missing(prepared)]))
    if not wrong_place:
        known = {(fault.what, fault.allowed) for fault in faults}
        is_asked = prepared.case.context.allocation is None and not prepared.case.request.as_is
        if is_asked:
            objections = _objections(prepared)
            found = objections.faults if _is_placed(prepared) else objections.anywhere
            faults += [fault for fault in found if (fault.what, fault.allowed) not in known]
            delays = objections.delays
        faults += _gone_modules(prepared)
    if faults:
        raise Refused(faults)
    return delays


def _is_placed(prepared: Prepared) -> bool:
    """Whether each part of the job has its partition.

    One that the site file refused has none. Slurm's default partition, which would be compared in its place, may have
    other nodes.
    """
    is_refused = prepared.faults and prepared.case.site.partitions
    return not is_refused or all(one.partition for one in prepared.spec.components)


def _gone_modules(prepared: Prepared) -> list[Fault]:
    """Return the modules that a login node of the site is known to lack; of another machine nothing is known."""
    case = prepared.case
    if not case.site.scheduler_row.has_queue or case.context.allocation or case.request.accept_unverified:
        return []
    from hpclaunch.actions.preparing.modules_here import gone_modules

    return gone_modules(prepared.spec, case.context.environment)


def check_resolved(prepared: Prepared) -> None:
    """Raise Refused with all reasons why there is no script; those are the faults that resolving found."""
    if prepared.faults:
        raise Refused(prepared.faults)


def _objections(prepared: Prepared) -> Objections:
    from hpclaunch.schedulers import scheduler_of

    spec = prepared.spec
    scheduler = scheduler_of(spec.scheduler)
    with scheduler.asking(spec.clusters):
        return scheduler.objections(spec, _listed_limits(prepared.case.site, spec.qos))


def _listed_limits(site: Site, qos: str) -> dict[str, tuple[Limits, ...]]:
    """Return partition -> its limits in the site file for jobs of a QOS.

    What a QOS lifts that the file lacks is not known here: of its partitions the nodes alone count then.
    """
    if qos and qos not in site.qos:
        return {name: (Limits(node_types=one.node_types),) for name, one in site.partitions.items()}
    return {name: together(one, site.qos.get(qos, Limits())) for name, one in site.partitions.items()}


def estimate(prepared: Prepared) -> str:
    """Check, and return the scheduler's estimate of the start time. Raises Refused, SchedulerError."""
    from hpclaunch.schedulers import scheduler_of

    delays = check(prepared)
    scheduler = scheduler_of(prepared.spec.scheduler)
    with scheduler.asking(prepared.spec.clusters):
        words = scheduler.estimate(_first_part(prepared, scheduler.largest_array)).words
    return "; ".join([words, *delays])


def _first_part(prepared: Prepared, largest_array: Callable[[], int | None]) -> str:
    """Return the script; that of an array with as many tasks as one array may have."""
    sweep = prepared.spec.sweep
    if sweep is None:
        return prepared.text
    from hpclaunch.runs.array_parts import divide

    part = divide(range(sweep.count), largest_array(), sweep.at_once)[0]
    return prepared.job_script.with_tasks(part.tasks).text


def _faults_of_start(case: Case, spec: JobSpec) -> list[Fault]:
    """Return why a program that the user hands over could not start; a job with a job file is not looked at."""
    if not case.job.source_only:
        return []
    from hpclaunch.actions.preparing.handed_over import unstartable_program

    return unstartable_program(case, spec)


def missing(prepared: Prepared) -> list[Fault]:
    """Return what the run needs and this machine lacks, and what of its shell leads the run astray."""
    spec, case = prepared.spec, prepared.case
    found = [*redirected(case, spec), *missing_program(case), *missing_python(case)]
    if prepared.is_program:  # else its mode does not matter
        found = [*faults_of(spec.code, case.code_folders), *found, *_faults_of_start(case, spec)]
    found += [*too_large(prepared), *nothing_to_copy(spec)] if spec.broadcast and spec.broadcast.required else []
    if _has_own_software(prepared):
        from hpclaunch.actions.environments.processor import faults_of_processor

        found += faults_of_processor(case, spec)
    environment = case.context.environment
    if case.context.allocation:  # nothing is submitted
        return [*found, *_data(spec), *_secrets(spec, environment), *missing_packages(spec)]
    return [*found, *missing_here(spec, environment, may_come=_waits(case))]


def _has_own_software(prepared: Prepared) -> bool:
    """Whether an environment or a program has a place, where its files can be looked at."""
    spec = prepared.spec
    return bool(prepared.case.request.environment) or "/" in spec.python_folder or spec.interpreter.startswith("/")


def missing_here(spec: JobSpec, environment: Mapping[str, str], may_come: bool = False) -> list[Fault]:
    """Return what the run lacks: data, secrets, programs. ``environment``: that of the submitting shell.

    ``may_come``: the run waits for another one, which may make the data; then missing data are no fault.
    """
    data = [] if may_come and spec.data and spec.data.folder else _data(spec)
    return [*data, *_secrets(spec, environment), *_programs(spec, environment), *missing_packages(spec)]


def _waits(case: Case) -> bool:
    """Whether the run waits for another one that has not ended."""
    return any(run.jobs for run in case.context.predecessors)


def notices_of(prepared: Prepared) -> list[str]:
    """Return all that the user should know of the submission, whether it is submitted or only shown."""
    return [*prepared.notices, *cluster_remarks(prepared.case, prepared.spec), *_remarks(prepared)]


def _remarks(prepared: Prepared) -> list[str]:
    """Return notices about secrets that may not reach the job, and about what is not copied."""
    spec, environment = prepared.spec, prepared.case.context.environment
    notices = [
        f"{name} is set in this shell, but the job gets it only if your login profile sets it too; "
        f"otherwise write it to {secret_file(spec, name)} (chmod 600)"
        for name in spec.secrets
        if ("export", "NONE") in spec.directives and name in environment and not secret_file(spec, name).exists()
    ]
    if _waits(prepared.case) and spec.data and spec.data.folder and _data(spec):
        notices.append(_data_to_come(spec.data, prepared.case))
    if _has_own_software(prepared):
        from hpclaunch.actions.environments.processor import remarks_on_processor

        notices += remarks_on_processor(prepared.case, spec)
    unseen = unseen_program(prepared.case)
    if unseen:
        notices.append(f"{unseen} is not on PATH here: the nodes must have it, for example from a module")
    if spec.broadcast and not spec.broadcast.required:
        notices += [f"not broadcast: {fault}" for fault in too_large(prepared)]
    notices += filter(None, [not_copied(spec)])
    found = code_of(prepared)
    if found and found.from_outside and not spec.code.recorded:
        copied = _join_names([shown_name(name) for name in found.from_outside])
        notices.append(f"copied, but kept out of exports, as the links lead out of {spec.code.folder}: {copied}")
    closed = found.closed if found else ()
    if closed:
        notices.append(f"not copied, as you may not read them: {_join_names(closed)}")
    return notices


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_NAMED]) + (", ..." if names[_MOST_NAMED:] else "")


def _data_to_come(need: DataNeed, case: Case) -> str:
    """Return the notice about data that are missing yet, and whether the runs to wait for seem to make other ones."""
    waited = [run for run in case.context.predecessors if run.jobs]
    known = [run for run in waited if run.is_run]
    notice = f"the data set {need.name} is not in {need.folder} yet: what this run waits for must make it"
    if len(known) < len(waited) or any(run.names(need.folder) for run in known):
        return notice
    return f"{notice}, but the command of {' and '.join(run.run for run in known)} does not contain this folder"


def code_of(prepared: Prepared) -> Snapshot | None:
    """Return the files of code that the run takes along; None if they cannot be copied."""
    return examine(prepared.spec.code, prepared.case.code_folders)[0]


def secret_file(spec: JobSpec, name: str) -> Path:
    """Return the file that the script reads a variable of ``secret_env`` from."""
    return Path(spec.secrets_folder, name)


def found_layout(need: DataNeed) -> Path | None:
    """Return the first layout of the data set that exists: in the data folder, or in its sub-folder of that name."""
    inner = Path(need.folder) / need.name
    return layout_in(inner.parent, need.layouts) or layout_in(inner, need.layouts)


def _data(spec: JobSpec) -> list[Fault]:
    need = spec.data
    if need is None or (need.folder and found_layout(need)):
        return []
    if not need.layouts:
        if os.path.exists(need.folder):
            return []
        return [
            Fault(where=f"{need.folder} (from {need.origin})", what="does not exist", next="type another --data-dir")
        ]
    fetch = f"hpclaunch data fetch {spec.name}{f' --set {need.setting}' if need.setting else ''}"
    fetch += "" if need.address else " --from PATH"
    fetch += ", or --data-dir FOLDER, or --synthetic to train on generated data"
    if not need.folder:
        return [Fault(what=f"no data folder is known for {need.name} at {spec.site}", next=fetch)]
    return [
        Fault(
            where=f"{need.folder} (from {need.origin})",
            what=f"the data set {need.name} was not found",
            allowed=f"{', '.join(need.layouts)}, in this folder or in its sub-folder {need.name}",
            next=fetch,
        )
    ]


def _secrets(spec: JobSpec, environment: Mapping[str, str]) -> list[Fault]:
    """Return the secrets that the job could not read; their values are not looked at."""
    faults = []
    for name in spec.secrets:
        file = secret_file(spec, name)
        write = f"write it to {file} (chmod 600), or export it in your login profile"
        if not file.exists() and not environment.get(name):
            faults.append(Fault(where=f"secret_env {name}", what="is not set", next=write))
        elif file.exists() and file.stat().st_mode & 0o077:
            faults.append(Fault(where=str(file), what="can be read by other users", next=f"chmod 600 {file}"))
    return faults


def _programs(spec: JobSpec, environment: Mapping[str, str]) -> list[Fault]:
    row, path = scheduler_row(spec.scheduler), environment.get("PATH", os.defpath)
    if row.has_queue and shutil.which(row.start_command, path=path) is None:
        return [
            Fault(
                what=f"there is no {row.start_command} on this machine, so nothing can be submitted to {spec.site}",
                next=f"log in at {spec.site}; or --dry-run to see the script; or --site local to run here",
                subject="scheduler",
            )
        ]
    # Only an interpreter with a path can be looked up here. The script checks what a venv, conda or a module brings.
    if row.has_queue or "/" not in spec.interpreter:
        return []
    launcher, places = launcher_row(spec.launcher), (str(Path(spec.interpreter).parent), path)
    return [
        Fault(
            what=f"the launcher {program} is not on this machine",
            next=f"{launcher.install_hint}; or --tasks-per-node 1",
            subject="MPI",
        )
        for program in launcher.programs_at(spec.scheduler, spec.contained)
        if not any(shutil.which(program, path=place) for place in places)
    ]
