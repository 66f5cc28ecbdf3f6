"""The story of every verb, about ten lines each; it supplies clock, folders and environment, and decides nothing."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from hpclaunch import __version__
from hpclaunch.catalog import Catalog, user_folder
from hpclaunch.detection import Choice, check_settings, choice_of, machine
from hpclaunch.errors import Fault, InvalidRequest, Refused
from hpclaunch.settings import PROJECT_FILE, Settings, load_settings
from hpclaunch.site import Site
from hpclaunch.spec import JobSpec, Request, Surroundings

if TYPE_CHECKING:
    from hpclaunch.forecast.submission import Planned
    from hpclaunch.job import Job
    from hpclaunch.runs import Run
    from hpclaunch.schedulers import Status


_PATIENCE = 6
"""Answers of UNKNOWN in a row before following a run ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything that is outside the program; tests make one of their own."""

    cwd: Path = field(default_factory=Path.cwd)
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType(dict(os.environ)))
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)
    unique: Callable[[], str] = lambda: os.urandom(2).hex()

    @property
    def catalog(self) -> Catalog:
        """Where sites, jobs and templates are looked up."""
        return Catalog(project=self.cwd, user=user_folder(self.environment))

    @property
    def index(self) -> Path:
        """The file that lists the runs."""
        from hpclaunch.runs import index_file

        return index_file(self.environment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What planning and rendering made: the spec, the script, and what a person should be told.

    With ``faults`` there is no script. ``elsewhere`` names the site that this machine belongs to, if it is another one.
    ``advice``: why the planner chose so many nodes, if it did.
    """

    spec: JobSpec
    text: str
    site_origin: str
    notices: tuple[str, ...]
    faults: tuple[Fault, ...] = ()
    elsewhere: str = ""
    advice: str = ""


def prepare(world: World, request: Request, runs_dir: str | None = None) -> Prepared:
    """Load, plan and render. Nothing is written and no program is asked.

    Raises HpclaunchError for a file that cannot be used. Reasons for refusing the request are kept in ``faults``, so
    that they can be told together with what a look at the machine adds.
    """
    from hpclaunch.job import load_job
    from hpclaunch.plan import draft

    settings = load_settings(user_folder(world.environment), world.cwd)
    check_settings(world.catalog, settings)
    site, origin, elsewhere = choose_site(world, request.site, settings)
    job = load_job(world.catalog, request.target, world.cwd)
    around = surroundings(world, request, site, job, settings, runs_dir)
    nodes, advice, objections = _planned(site, job, request, settings, around)
    spec, faults = draft(site, job, request, settings, around, nodes)
    notices = [*spec.warnings, *_own_files(world, request, site)]
    if elsewhere:
        notices.append(f"this machine is {elsewhere}'s, and the script is for {site.name}")
    text, more = ("", []) if faults or objections else _rendered(world, spec)
    return Prepared(
        spec=spec,
        text=text,
        site_origin=origin,
        notices=(*notices, *more),
        faults=(*objections, *faults),
        elsewhere=elsewhere,
        advice=advice,
    )


def choose_site(world: World, asked: str | None, settings: Settings) -> Choice:
    """Return the site of a request, and who chose it. Raises NotFound or InvalidFile."""
    here = machine(world.environment, os.uname().nodename)
    return choice_of(world.catalog, here, asked, settings)


def _rendered(world: World, spec: JobSpec) -> tuple[str, list[str]]:
    """Return the script, and a notice if it is from a person's own template."""
    from hpclaunch.render import override_of, render  # 40 ms, which a refusal does not need

    roots = world.catalog.roots("templates")
    override = override_of(spec, roots)
    notices = [f"the template {override} takes the place of the bundled one"] if override else []
    return render(spec, roots), notices


def _own_files(world: World, request: Request, site: Site) -> list[str]:
    from hpclaunch.catalog import JOB, SITE, Kind
    from hpclaunch.job import looks_like_path

    wanted: list[tuple[Kind, str]] = [(SITE, site.name)]
    if not looks_like_path(request.target):
        wanted.append((JOB, request.target))
    found = [(kind.noun, world.catalog.find(kind, name)) for kind, name in wanted]
    notices = [f"the {noun} is the {one.origin}'s own: {one.path}" for noun, one in found if one.origin != "bundled"]
    if (world.cwd / PROJECT_FILE).is_file():
        notices.append(f"the project's settings count: {world.cwd / PROJECT_FILE}")
    return notices


def _planned(site: Site, job: Job, request: Request, settings: Settings, around: Surroundings) -> Planned:
    """Return the planner's nodes, why, and its objections. Where nodes are said it is asked of large models only."""
    training, said = job.training, request.nodes is not None or job.resources.nodes != "auto"
    if training is None or not training.figures or (said and not training.large):
        return None, "", ()
    from hpclaunch.forecast.submission import planned_for  # 100 ms, which a typed number does not need

    return planned_for(site, job, request, settings, around)


def surroundings(
    world: World, request: Request, site: Site, job: Job, settings: Settings, runs_dir: str | None
) -> Surroundings:
    """Return clock, folders and environment as planning takes them. Raises InvalidRequest for a bad hosts file."""
    from hpclaunch.plan.folders import expanded, is_open

    now = world.now()
    around = Surroundings(
        now=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        cwd=str(world.cwd),
        run_dir="",
        python=sys.executable,
        version=__version__,
        cpus=len(os.sched_getaffinity(0)),
        hosts=_hosts(world, request),
        environment=world.environment,
    )
    offers = [world.environment.get("HPCLAUNCH_RUNS_DIR"), settings.offer("runs_dir", site.name)[1]]
    offers.append(site.folders.runs)
    spelled = [expanded(offer, around) for offer in offers if offer]
    folder = runs_dir or next((offer for offer in spelled if not is_open(offer)), "runs")
    root = os.path.realpath(os.path.join(world.cwd, folder))
    run_dir = f"{root}/{job.name}-{now.strftime('%Y%m%d-%H%M%S')}-{world.unique()}"
    return replace(around, run_dir=run_dir)


def _hosts(world: World, request: Request) -> tuple[str, ...]:
    if request.hosts_file is None:
        return ()
    path = world.cwd / request.hosts_file
    try:
        lines = [line.split("#")[0].split() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(Fault(where=str(path), what=f"the hosts file cannot be read: {error}")) from None
    return tuple(words[0] for words in lines if words)


def missing(prepared: Prepared) -> list[Fault]:
    """Return what the run would need and is not there."""
    from hpclaunch.preflight import missing_code, missing_here

    return [*missing_code(prepared.spec), *missing_here(prepared.spec)]


def refuse_faulty(prepared: Prepared) -> None:
    """Raise Refused if planning found a reason, together with what is missing here."""
    if prepared.faults:
        raise Refused([*prepared.faults, *missing(prepared)])


def check(prepared: Prepared) -> None:
    """Raise Refused with every reason against submitting: of planning, of this machine, of the scheduler itself."""
    from hpclaunch.schedulers import scheduler_of

    spec = prepared.spec
    retired = Fault(
        what=f"{spec.site} is retired: its scripts can be rendered, not submitted",
        next="--dry-run shows the script; hpclaunch sites list",
    )
    astray = Fault(
        what=f"this machine is {prepared.elsewhere}'s: its sbatch does not lead to {spec.site}",
        next=f"log in at {spec.site}; or --dry-run shows the script",
    )
    faults = [retired] if spec.site_status == "retired" else [astray] if prepared.elsewhere else []
    faults += [*prepared.faults, *missing(prepared)]
    told = {(fault.what, fault.allowed) for fault in faults}
    # Another cluster's Slurm says nothing of this site's, nor does any of one that is retired.
    foreign = prepared.elsewhere or spec.site_status == "retired"
    objections = [] if foreign else scheduler_of(spec.scheduler).objections(spec)
    faults += [fault for fault in objections if (fault.what, fault.allowed) not in told]
    if faults:
        raise Refused(faults)


def estimate(prepared: Prepared) -> str:
    """Return the scheduler's own word on the script: when it would start. Raises Refused or SchedulerError."""
    from hpclaunch.schedulers import scheduler_of

    check(prepared)
    return scheduler_of(prepared.spec.scheduler).estimate(prepared.text)


def remarks(prepared: Prepared) -> list[str]:
    """Return what a person should know of the code that the run takes along."""
    from hpclaunch.preflight import remarks as look

    return look(prepared.spec)


def write_run(world: World, prepared: Prepared) -> Run:
    """Create the run directory (state RENDERED), so that its script can be given to sbatch by hand.

    Raises Refused if the code is not there; missing data is for the caller to weigh.
    """
    from hpclaunch import runs
    from hpclaunch.preflight import missing_code
    from hpclaunch.snapshot import choose

    faults = [*prepared.faults, *missing_code(prepared.spec)]
    if faults:
        raise Refused(faults)
    return runs.create(prepared.spec, prepared.text, choose(prepared.spec.code), os.uname().nodename, world.index)


def submit(world: World, prepared: Prepared) -> Run:
    """Check, create the run directory, submit. If the scheduler refuses, the directory stays, with the reason."""
    from hpclaunch import runs
    from hpclaunch.errors import SchedulerError
    from hpclaunch.schedulers import scheduler_of

    check(prepared)
    run = write_run(world, prepared)
    try:
        job_id = scheduler_of(run.scheduler).submit(run, prepared.text, prepared.spec.walltime)
    except SchedulerError as error:
        runs.save(replace(run, reason=" ".join(str(error).split())))
        raise
    return runs.submitted(run, job_id)


def refreshed(world: World, found: Sequence[Run]) -> list[Run]:
    """Return the runs with their states of now, asking each scheduler once; what changed is recorded."""
    from hpclaunch.schedulers import scheduler_of

    found = [run.as_started_by_hand() for run in found]
    news = {}
    for name in {run.scheduler for run in found}:
        open_runs = [run for run in found if run.scheduler == name and run.job_id and not run.final]
        if open_runs:
            news[name] = scheduler_of(name).states(open_runs)
    return [_updated(run, news.get(run.scheduler, {}).get(run.job_id)) for run in found]


def _updated(run: Run, status: Status | None) -> Run:
    from hpclaunch import runs

    if status is None or run.final:
        return run
    changed = replace(run, state=status.state, exit_code=status.exit_code, reason=status.reason)
    return runs.save(changed) if changed != run else run


def find_run(world: World, name: str | None) -> Run:
    """Return one run with its state of now. Raises NotFound."""
    from hpclaunch import runs

    return refreshed(world, [runs.find(world.index, name)])[0]


def all_runs(world: World) -> list[Run]:
    """Return all runs with their states of now, newest first."""
    from hpclaunch import runs

    return refreshed(world, runs.known(world.index))


def cancel(world: World, name: str) -> Run:
    """Cancel a run and return it; one that has ended is left as it is. Raises Refused if it was never submitted."""
    from hpclaunch import runs
    from hpclaunch.schedulers import scheduler_of

    run = find_run(world, name)
    if not run.job_id:
        raise Refused(Fault(what=f"{run.path.name} was rendered and not submitted by hpclaunch", next="scancel JOBID"))
    if run.final:
        return run
    ended = scheduler_of(run.scheduler).cancel(run)
    if run.scheduler == "local" and ended:
        run = runs.save(replace(run, state="CANCELLED"))
    return refreshed(world, [run])[0]


def follow(world: World, run: Run, poll: Callable[[float], None] = time.sleep) -> Iterator[tuple[Run, bytes]]:
    """Yield (run, new log bytes) until the run has ended; the last pair carries the final state.

    The scheduler is asked at growing intervals, up to 15 s; the logs are looked at every half second. Raises
    SchedulerError when nobody has known the run for several questions in a row.
    """
    from hpclaunch.errors import SchedulerError

    tail = Tail(run)
    pause = since = 0.5 if run.scheduler == "local" else 1.0
    unknown = 0
    while True:
        if since >= pause:
            run, since, pause = refreshed(world, [run])[0], 0.0, min(15.0, pause * 1.5)
            if run.scheduler == "local":
                pause = 0.5
            unknown = unknown + 1 if run.state == "UNKNOWN" else 0
        if unknown >= _PATIENCE:
            what = f"nobody knows what became of {run.path.name}" + (f" ({run.reason})" if run.reason else "")
            raise SchedulerError(
                Fault(what=what, next=f"hpclaunch logs {run.path.name}, and sacct or the site's staff")
            )
        ended = run.final
        yield run, tail.read()
        if ended:
            return
        poll(0.5)
        since += 0.5


class Tail:
    """Reads what was added to a run's log files since the last time."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._offsets: dict[Path, int] = {}

    def read(self) -> bytes:
        """Return the new bytes of all log files, oldest file first."""
        new = []
        for path in self._run.logs():
            with path.open("rb") as file:
                file.seek(self._offsets.get(path, 0))
                new.append(file.read())
                self._offsets[path] = file.tell()
        return b"".join(new)


def cancel_command(run: Run) -> str:
    """Return what a person would type to cancel the run."""
    from hpclaunch.schedulers import scheduler_of

    return scheduler_of(run.scheduler).cancel_command(run)


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
        path.chmod(0o755)
    except OSError as error:
        raise Refused(Fault(where=str(path), what=f"cannot be written: {error.strerror}")) from None


def strays(world: World, prepared: Prepared) -> list[str]:
    """Return the variables of this shell that would override the script if a person gave it to sbatch by hand."""
    from hpclaunch.schedulers.slurm import leaking

    names = leaking(world.environment) if prepared.spec.scheduler == "slurm" else []
    return [name for name in names if name.startswith("SBATCH_") or world.environment.get("SLURM_JOB_ID")]
