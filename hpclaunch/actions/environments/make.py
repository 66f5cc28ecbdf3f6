"""``environment make``: writes the script of a build, runs it on this machine, and keeps what it built on record."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from hpclaunch.actions.environments import kept
from hpclaunch.actions.environments.build_recipe import (
    CONTAINER,
    BuildRecipe,
    BuildRequest,
    build_recipe,
    check_request,
)
from hpclaunch.actions.environments.build_script import build_script
from hpclaunch.actions.environments.kept import KeptEnvironment
from hpclaunch.actions.place import choose_site, context_of, looked_at
from hpclaunch.actions.system import System
from hpclaunch.config.environment_recipes import is_other_machine, machine_of, recipe_of
from hpclaunch.config.settings import load_settings
from hpclaunch.config.site import Site
from hpclaunch.core.errors import Fault, Interrupted, Refused, unwritable
from hpclaunch.core.files import write_text
from hpclaunch.core.folders import PACKAGE
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.records import record
from hpclaunch.core.spec import Request
from hpclaunch.core.version import __version__
from hpclaunch.runs.processes import beginning_of
from hpclaunch.sites.detect import SiteChoice

CHECK = PACKAGE / "training" / "doctor" / "built_environment.py"
"""The program that tests an environment with its own Python."""
_LONGEST_LINE = 65_536
_LAST_LINES = 12
_TOLD = re.compile(r"hpclaunch: |(?:Downloading|Building wheel) ")
"""Lines of the log that show how far a build is."""
_SCRATCH = re.compile(r"/scratch\b|/scratch[0-9-]", re.IGNORECASE)


@record
class PlannedBuild:
    """A build that is decided, before anything is written. ``folder`` is that of this build, ``origin`` who chose it.

    ``can_download``: the script gets its wheels before it builds. ``remarks``: what the user should know of the place.
    """

    recipe: BuildRecipe
    choice: SiteChoice
    folder: Path
    origin: str
    text: str
    can_download: bool = False
    remarks: tuple[str, ...] = ()


def plan_build(
    system: System, request: BuildRequest, site: str | None, prefix: str | None, download_first: bool = False
) -> PlannedBuild:
    """Return the recipe, the place and the script of a new build; it writes nothing and starts no program.

    Raises InvalidRequest, NotFound, and Refused where the centre allows no such environment.
    """
    check_request(request)
    choice = choose_site(system, site, load_settings(system.catalog))
    context = context_of(system, Request(target=request.name))
    choice = replace(choice, site=looked_at(choice.site, context)[0])
    request = _make_paths_absolute(system, request)
    recipe = build_recipe(choice.site, request)
    missing = _missing_paths(request)
    if missing and is_at_site(system, choice):
        raise Refused(missing)
    root, origin = kept.root_of(system, choice.site, prefix)
    _refuse_private(system, choice.site, root, origin)
    builds = kept.builds_in(root / request.name)
    folder = root / request.name / str(builds[-1].number + 1 if builds else 1)
    # Conda's own packages cannot be kept for later, and a centre that builds in jobs has the internet there.
    can_download = download_first and not (
        recipe.own_wheels
        or recipe.in_job
        or recipe.make_with in ("conda", CONTAINER)
        or _other_machine(choice.site, recipe)  # pip downloads wheels for the machine that it runs on
    )
    text = build_script(recipe, str(folder), CHECK.read_text(encoding="utf-8"), can_download)
    note = recipe_of(choice.site, request.framework).note
    remarks = (
        *([note] if note else []),
        *_remarks(system, choice.site, root),
        *_processor_remarks(choice.site, recipe),
        *(f"this machine: {fault}" for fault in missing),
    )
    return PlannedBuild(
        recipe=recipe,
        choice=choice,
        folder=folder,
        origin=origin,
        text=text,
        can_download=can_download,
        remarks=remarks,
    )


def _make_paths_absolute(system: System, request: BuildRequest) -> BuildRequest:
    """Return the request with absolute paths of folders of wheels: the script starts in another folder."""

    def whole(text: str | None) -> str | None:
        return text if text is None or "://" in text else os.path.abspath(system.cwd / os.path.expanduser(text))

    python = request.python
    if python and "/" in python:
        python = os.path.abspath(system.cwd / os.path.expanduser(python))
    return replace(request, python=python, find_links=whole(request.find_links), wheels=whole(request.wheels))


def _missing_paths(request: BuildRequest) -> list[Fault]:
    """Return a fault for each typed path, already absolute, that this machine does not have."""
    faults = []
    folders = [("--wheelhouse", request.wheels), ("--find-links", request.find_links)]
    for flag, folder in folders:
        if folder and "://" not in folder and not os.path.exists(folder):
            faults.append(Fault(where=flag, what=f"there is no {folder}", allowed="a folder with wheels"))
    python = request.python or ""
    if "/" in python and not (os.path.isfile(python) and os.access(python, os.X_OK)):
        faults.append(Fault(where="--python", what=f"there is no program {python}", allowed="a Python from 3.8 on"))
    return faults


def is_at_site(system: System, choice: SiteChoice) -> bool:
    """Whether this machine is one of the site, where its paths are those of the build."""
    row = choice.site.scheduler_row
    has_program = not row.has_queue or shutil.which(row.start_command, path=system.environment.get("PATH", os.defpath))
    return not choice.elsewhere and bool(has_program)


def _refuse_private(system: System, site: Site, root: Path, origin: str) -> None:
    """Raise Refused for a folder that every node has for itself: the ranks would not find the environment there."""
    if not site.scheduler_row.has_queue:
        return
    for name in site.folders.node_private:
        private = Path(os.path.realpath(name))
        if "$" not in name and (private == root or private in root.parents):
            what = f"{root} (from {origin}) is local to each node of {site.name}"
            allowed = "a folder that all nodes share"
            raise Refused(
                Fault(what=what, allowed=allowed, next="choose another with --prefix", subject="shared paths")
            )


def _remarks(system: System, site: Site, root: Path) -> list[str]:
    """Return a warning for a place whose files are deleted after a time."""
    scratch = system.environment.get("SCRATCH", "")
    is_scratch = bool(scratch) and Path(os.path.realpath(scratch)) in (root, *root.parents)
    if not is_scratch and not _SCRATCH.search(str(root)):
        return []
    days = site.folders.purge_days
    known = f"{site.name} deletes files there that were not used for {days} days"
    why = known if days else "Many centres delete files there that were not used for some weeks"
    return [f"{root} is on scratch storage. {why}. --prefix chooses another place"]


def refuse_elsewhere(system: System, planned: PlannedBuild, next_step: str) -> None:
    """Raise Refused if this machine is not one of the site: what is built here would not run there."""
    site = planned.choice.site
    if site.status == "retired":
        raise Refused(Fault(what=f"the site {site.name} is retired: nothing is built for it", next=next_step))
    if not is_at_site(system, planned.choice):
        here = f"this machine belongs to {planned.choice.elsewhere}" if planned.choice.elsewhere else "it is elsewhere"
        what = f"an environment for {site.name} must be built there, and {here}"
        raise Refused(Fault(what=what, next=f"log in at {site.name}; or {next_step}"))


def _processor_remarks(site: Site, recipe: BuildRecipe) -> list[str]:
    """Say why an environment for nodes of another processor than the site's usual ones is built in a job."""
    if not is_other_machine(site, recipe.node_type):
        return []
    machine = machine_of(site.node_types[recipe.node_type])
    return [f"the {recipe.node_type} nodes of {site.name} are {machine}, unlike its usual ones: a job there builds it"]


def _other_machine(site: Site, recipe: BuildRecipe) -> str:
    """Return the machine that the nodes are (``aarch64``) if this one is another; empty if not, or if not known."""
    machine = machine_of(site.node_types[recipe.node_type])
    return machine if machine != os.uname().machine else ""


def refuse_other_machine(planned: PlannedBuild) -> None:
    """Raise Refused if this machine's processor is not that of the nodes: what it builds would not start there."""
    site, recipe = planned.choice.site, planned.recipe
    if machine := _other_machine(site, recipe):
        where = f"{site.name} {recipe.node_type}"
        what = f"these nodes are {machine}, and this machine is {os.uname().machine}: what it builds cannot run there"
        raise Refused(Fault(where=where, what=what, next=f"--as-job; or log in at a {machine} node of {site.name}"))


def claim(system: System, planned: PlannedBuild, again: bool) -> KeptEnvironment:
    """Make the folder of the build with its recipe and script. Raises Refused if the name is taken."""
    folder, name = planned.folder, planned.recipe.name
    _refuse_taken(system, planned, again)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir()  # of two that begin at once only one can make it
        write_text(folder / kept.SCRIPT, planned.text)
        (folder / kept.SCRIPT).chmod(0o700)
        write_text(folder / kept.RECIPE, json.dumps(_recipe_on_record(system, planned), indent=2) + "\n")
    except FileExistsError:
        what = f"another build of {name} has just begun"
        raise Refused(Fault(where=str(folder), what=what, next=f"hpclaunch environment show {name}")) from None
    except OSError as error:
        raise unwritable(folder, error) from None
    kept.remember_root(system, folder.parent.parent)
    return kept.read_build(folder)


def _recipe_on_record(system: System, planned: PlannedBuild) -> dict[str, object]:
    """Return what is known before the build; its process tells whether an unfinished build is still at work."""
    process = str(os.getpid())
    return {
        "format": kept.FORMAT,
        **asdict(planned.recipe),
        "created": system.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        "hpclaunch": __version__,
        "script_sha256": hashlib.sha256(planned.text.encode("utf-8", "surrogateescape")).hexdigest(),
        "host": os.uname().nodename,
        "process": process,
        "process_began": beginning_of(process),
    }


def _refuse_taken(system: System, planned: PlannedBuild, again: bool) -> None:
    """Raise Refused if the environment is there already, is being built, or has the name of another one."""
    name, here = planned.recipe.name, planned.folder.parent
    others = [build for build in kept.kept_environments(system) if build.name == name and build.path.parent != here]
    if others:
        what = f"an environment {name} is in {others[0].path.parent} already"
        raise Refused(Fault(where=name, what=what, next="another name; or --prefix with the folder above it"))
    builds = kept.builds_in(here)
    for build in builds:
        if is_at_work(build):
            what = f"{name} is being built by process {build.value('process')}"
            raise Refused(
                Fault(where=str(build.path), what=what, next=f"tail -f {shell_word(str(build.path / kept.LOG))}")
            )
    complete = [build for build in builds if build.state == kept.COMPLETE]
    if complete and not again:
        what = f"the environment {name} was built on {str(complete[-1].built.get('finished', ''))[:10]}"
        next_step = f"hpclaunch environment show {name}; or --again, which keeps it until the new one is complete"
        raise Refused(Fault(where=str(complete[-1].path), what=what, next=next_step))


def is_at_work(build: KeptEnvironment) -> bool:
    """Whether a process of this machine is building it; one of another machine cannot be asked."""
    if build.state != kept.UNFINISHED or build.value("host") != os.uname().nodename:
        return False
    began = build.value("process_began")
    return bool(began) and beginning_of(build.value("process")) == began


def build_here(system: System, build: KeptEnvironment, login_shell: bool) -> KeptEnvironment:
    """Run the script of a claimed build on this machine, and return the complete environment.

    Its output goes to the log, and its progress to ``tell``. Raises Refused with the cause if it fails, and
    Interrupted; then nothing is left that looks complete.
    """
    log = build.path / kept.LOG
    code, last = _run(system, [str(build.path / kept.SCRIPT)], log, login_shell)
    done = kept.read_build(build.path)
    if code == 0 and done.state == kept.COMPLETE:
        return done
    raise Refused(_failure(build, code, last))


def download_wheels(system: System, build: KeptEnvironment) -> None:
    """Download all wheels of a claimed build into its folder, here where there is internet. Raises Refused."""
    code, last = _run(system, [str(build.path / kept.SCRIPT), "download"], build.path / kept.LOG, login_shell=False)
    if code:
        raise Refused(_failure(build, code, last))


def _run(system: System, words: Sequence[str], log: Path, login_shell: bool) -> tuple[int, list[str]]:
    """Run bash, with its output in a log; return its exit code and the last lines."""
    last: deque[str] = deque(maxlen=200)
    shell = ["/bin/bash", "-l"] if login_shell else ["/bin/bash"]
    with (
        log.open("ab", buffering=0) as file,
        subprocess.Popen(
            [*shell, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a key reaches this process alone, which ends all of the build
            env=dict(system.environment),
        ) as bash,
    ):
        assert bash.stdout is not None
        try:
            while line := bash.stdout.readline(_LONGEST_LINE):
                file.write(line)
                text = line.decode("utf-8", errors="replace").rstrip()
                last.append(text)
                if _TOLD.match(text.lstrip()):
                    system.tell(text.strip().removeprefix("hpclaunch: "))
        except BaseException as error:
            _end(bash)
            if isinstance(error, KeyboardInterrupt):
                raise Interrupted(
                    Fault(where=str(log), what="the build was stopped, and what it made removed")
                ) from None
            raise
    return bash.returncode, list(last)


def _end(bash: subprocess.Popen[bytes]) -> None:
    """End the script with all that it started; its trap removes what was built."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(bash.pid, signal.SIGTERM)
    bash.wait()


def _failure(build: KeptEnvironment, code: int, last: Sequence[str]) -> Fault:
    """Return why a build failed, in the words of its script, with the last lines of its log."""
    said = [line.partition("hpclaunch: error: ")[2] for line in last if line.startswith("hpclaunch: error: ")]
    advice = [line.partition("next: ")[2] for line in last if line.startswith("hpclaunch:     next: ")]
    what = said[-1] if said else f"the build ended with exit code {code}"
    lines = [line for line in last if line and not line.startswith("hpclaunch: ")][-_LAST_LINES:]
    shown = "".join(f"\n    | {line}" for line in lines)
    next_step = advice[-1] if advice else f"the whole log: less {shell_word(str(build.path / kept.LOG))}"
    return Fault(where=str(build.path / kept.LOG), what=f"{what}; nothing was kept but this log{shown}", next=next_step)
