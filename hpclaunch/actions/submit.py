"""The story of every verb, about ten lines each; it supplies clock, folders and environment, and decides nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hpclaunch import __version__
from hpclaunch.actions.system import System
from hpclaunch.config.settings import PROJECT_FILE, Settings, load_settings
from hpclaunch.config.site import Site
from hpclaunch.core.errors import Fault, InvalidRequest, Refused
from hpclaunch.core.folders import user_folder
from hpclaunch.core.records import record
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.core.spec import HOROVOD, JobSpec, Request, Surroundings
from hpclaunch.sites.detect import Choice, check_settings, choice_of, machine

if TYPE_CHECKING:
    from hpclaunch.config.job import Job
    from hpclaunch.planner.submission import Planned
    from hpclaunch.runs import Run


@record
class Prepared:
    """What planning and rendering made: the spec, the script, and what a person should be told.

    With ``faults`` there is no script. ``elsewhere`` names the site that this machine belongs to, if it is another one.
    ``advice``: why the planner chose so many nodes, if it did. ``ground``: what it was planned on.
    """

    spec: JobSpec
    request: Request
    text: str
    site_origin: str
    notices: tuple[str, ...]
    faults: tuple[Fault, ...] = ()
    elsewhere: str = ""
    advice: str = ""
    ground: Ground


@record
class Ground:
    """What a request is planned on: what its files say, and where it was typed.

    ``origin`` tells who chose the site; ``elsewhere`` names the site that this machine belongs to, if it is another.
    """

    settings: Settings
    site: Site
    origin: str
    elsewhere: str
    job: Job
    around: Surroundings


def ground_of(system: System, request: Request, runs_dir: str | None = None, job: Job | None = None) -> Ground:
    """Load settings, site and job, unless ``job`` is known. Raises HpclaunchError for a file that cannot be used."""
    from hpclaunch.config.job import load_job

    settings = load_settings(user_folder(system.environment), system.cwd)
    check_settings(system.catalog, settings)
    site, origin, elsewhere = choose_site(system, request.site, settings)
    job = job or load_job(system.catalog, request.target, system.cwd)
    around = surroundings(system, request, site, job, settings, runs_dir)
    return Ground(settings=settings, site=site, origin=origin, elsewhere=elsewhere, job=job, around=around)


def prepare(
    system: System, request: Request, runs_dir: str | None = None, job: Job | None = None, run_dir: str = ""
) -> Prepared:
    """Load, plan and render. Nothing is written and no program is asked.

    ``job`` and ``run_dir`` are those of a run that goes on. Raises HpclaunchError for a file that cannot be used.
    Reasons for refusing the request are kept in ``faults``, so that they can be told together with what a look at the
    machine adds.
    """
    known = ground_of(system, request, runs_dir, job)
    if run_dir:
        known = replace(known, around=replace(known.around, run_dir=run_dir))
    return prepare_on(system, known, request, _own_files(system, request, known.site))


def prepare_on(system: System, known: Ground, request: Request, told: Sequence[str] = ()) -> Prepared:
    """Plan and render on what was loaded before, which is not read again: for requests that differ in a count, say.

    ``told``: notices on the files that it was loaded from.
    """
    from hpclaunch.resolve import draft
    from hpclaunch.resolve.batch import undivided

    site, settings, around = known.site, known.settings, known.around
    nodes, advice, objections = _planned(site, known.job, request, settings, around)
    spec, faults = draft(site, known.job, request, settings, around, nodes)
    if not objections:  # the planner has looked at the batch as well
        faults += undivided(known.job, request, spec)
    notices = [*spec.warnings, *told]
    if known.elsewhere:
        notices.append(f"this machine is {known.elsewhere}'s, and the script is for {site.name}")
    text, more = ("", []) if faults or objections else _rendered(system, spec)
    return Prepared(
        spec=spec,
        request=request,
        text=text,
        site_origin=known.origin,
        notices=(*notices, *more),
        faults=(*objections, *faults),
        elsewhere=known.elsewhere,
        advice=advice,
        ground=known,
    )


def choose_site(system: System, asked: str | None, settings: Settings) -> Choice:
    """Return the site of a request, and who chose it. Raises NotFound or InvalidFile."""
    here = machine(system.environment, os.uname().nodename)
    return choice_of(system.catalog, here, asked, settings)


def _rendered(system: System, spec: JobSpec) -> tuple[str, list[str]]:
    """Return the script, and a notice if it is from a person's own template."""
    from hpclaunch.render import override_of, render  # 40 ms, which a refusal does not need

    roots = system.catalog.roots("templates")
    override = override_of(spec, roots)
    notices = [f"the template {override} takes the place of the bundled one"] if override else []
    return render(spec, roots), notices


def _own_files(system: System, request: Request, site: Site) -> list[str]:
    from hpclaunch.config.catalog import JOB, SITE, Kind
    from hpclaunch.config.job import looks_like_path

    wanted: list[tuple[Kind, str]] = [(SITE, site.name)]
    if not looks_like_path(request.target):
        wanted.append((JOB, request.target))
    found = [(kind.noun, system.catalog.find(kind, name)) for kind, name in wanted]
    notices = [f"the {noun} is the {one.origin}'s own: {one.path}" for noun, one in found if one.origin != "bundled"]
    if (system.cwd / PROJECT_FILE).is_file():
        notices.append(f"the project's settings count: {system.cwd / PROJECT_FILE}")
    return notices


def _planned(site: Site, job: Job, request: Request, settings: Settings, around: Surroundings) -> Planned:
    """Return the planner's nodes, why, and its objections. Where nodes are said it is asked of large models only.

    It plans Horovod's runs: those of a strategy of TensorFlow get as many nodes as are typed.
    """
    training, said = job.training, request.nodes is not None or job.resources.nodes != "auto"
    if request.strategy not in (None, HOROVOD):
        return None, "", ()
    if training is None or not (training.figures or training.model) or (said and not training.large):
        return None, "", ()
    from hpclaunch.planner.measured.finished_runs import evidence_for
    from hpclaunch.planner.measured.model_figures import known_figures
    from hpclaunch.planner.submission import planned_for  # 100 ms, which a typed number does not need

    figures = known_figures(job, around.environment)
    if figures is None:
        return None, "", ()
    evidence = evidence_for(site, job, request, settings, around)
    return planned_for(site, job, request, settings, around, figures, evidence)


def surroundings(
    system: System, request: Request, site: Site, job: Job, settings: Settings, runs_dir: str | None
) -> Surroundings:
    """Return clock, folders and environment as planning takes them. Raises InvalidRequest for a bad hosts file."""
    from hpclaunch.resolve.folders import expanded, is_open

    now = system.now()
    around = Surroundings(
        now=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        cwd=str(system.cwd),
        run_dir="",
        python=sys.executable,
        version=__version__,
        cpus=len(os.sched_getaffinity(0)),
        hosts=_hosts(system, request),
        user_folder=os.path.abspath(user_folder(system.environment)),
        environment=system.environment,
    )
    offers = [system.environment.get("HPCLAUNCH_RUNS_DIR"), settings.offer("runs_dir", site.name)[1]]
    offers.append(site.folders.runs)
    spelled = [expanded(offer, around) for offer in offers if offer]
    folder = runs_dir or next((offer for offer in spelled if not is_open(offer)), "runs")
    root = os.path.realpath(os.path.join(system.cwd, folder))
    run_dir = f"{root}/{job.name}-{now.strftime('%Y%m%d-%H%M%S')}-{system.unique()}"
    return replace(around, run_dir=run_dir)


def _hosts(system: System, request: Request) -> tuple[str, ...]:
    if request.hosts_file is None:
        return ()
    path = system.cwd / request.hosts_file
    try:
        lines = [line.split("#")[0].split() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(Fault(where=str(path), what=f"the hosts file cannot be read: {error}")) from None
    return tuple(words[0] for words in lines if words)


def missing(prepared: Prepared) -> list[Fault]:
    """Return what the run would need and is not there."""
    from hpclaunch.actions.preflight import missing_code, missing_here

    return [*missing_code(prepared.spec), *missing_here(prepared.spec)]


def refuse_faulty(prepared: Prepared) -> None:
    """Raise Refused if planning found a reason, together with what is missing here."""
    if prepared.faults:
        raise Refused([*prepared.faults, *missing(prepared)])


def is_foreign(site_status: str, elsewhere: str) -> bool:
    """Whether the scheduler here says nothing of a site: this machine is ``elsewhere``'s, or the site is retired."""
    return bool(elsewhere) or site_status == "retired"


def check(prepared: Prepared) -> None:
    """Raise Refused with every reason against submitting: of planning, of this machine, of the scheduler itself."""
    from hpclaunch.schedulers import scheduler_of

    spec = prepared.spec
    retired = Fault(
        what=f"{spec.site} is retired: its scripts can be rendered, not submitted",
        next="--dry-run shows the script; hpclaunch sites list",
    )
    program = scheduler_row(spec.scheduler).start_command
    astray = Fault(
        what=f"this machine is {prepared.elsewhere}'s: its {program} does not lead to {spec.site}",
        next=f"log in at {spec.site}; or --dry-run shows the script",
    )
    faults = [retired] if spec.site_status == "retired" else [astray] if prepared.elsewhere else []
    faults += [*prepared.faults, *missing(prepared)]
    told = {(fault.what, fault.allowed) for fault in faults}
    foreign = is_foreign(spec.site_status, prepared.elsewhere)
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
    request = {**asdict(prepared.request), "cwd": str(system.cwd)}
    known = prepared.ground
    expect(known.site, known.job, prepared.request, known.settings, known.around, prepared.spec.run_dir)
    return runs.create(prepared.spec, prepared.text, code, os.uname().nodename, system.environment, request)


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
