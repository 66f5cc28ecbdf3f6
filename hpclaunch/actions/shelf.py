"""The story of the verbs about jobs, sites and data sets, beside actions/submit.py's of the runs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hpclaunch.config.catalog import JOB, NAME, SITE, Catalog, Found
from hpclaunch.config.documents import read_yaml
from hpclaunch.config.job import Job, load_job
from hpclaunch.config.provenance import values
from hpclaunch.config.site import load_site
from hpclaunch.core.errors import Fault, InvalidFile, InvalidRequest, Refused
from hpclaunch.core.folders import user_folder
from hpclaunch.core.records import record
from hpclaunch.sites.card import sections_of
from hpclaunch.sites.card.lines import Section
from hpclaunch.sites.card.short import gpus_in_short, lacks

_NEW_JOB = """\
# What may stand here: docs/job-files.md. Try it with: hpclaunch submit {name} --dry-run
summary: "{name}"
{program}
resources:
  walltime: "00:30:00"
"""
_NEW_PARAMETERS = """\
parameters:
  epochs: {default: 1, help: passes over the training data}"""
_NEW_SCRIPT = '''\
"""What every rank runs. hpclaunch passes the parameters of job.yaml as --name=value."""

import argparse
import os

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
options = parser.parse_args()
rank = os.environ.get("SLURM_PROCID") or os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("HOROVOD_RANK", "0")
print(f"rank {rank} of {os.environ.get('HPCLAUNCH_WORLD_SIZE', '1')} trains for {options.epochs} epochs")
'''


def catalog() -> Catalog:
    """Return the catalog of the current folder."""
    return Catalog(project=Path.cwd(), user=user_folder(os.environ))


def list_jobs(catalog: Catalog) -> list[tuple[str, str, str]]:
    """Return (name, origin, summary) of all jobs; a faulty file says so in its place."""
    return [(found.name, found.origin, _summary(catalog, found)) for found in catalog.names(JOB)]


def _summary(catalog: Catalog, found: Found) -> str:
    try:
        return load_job(catalog, found.name, Path.cwd()).summary
    except InvalidFile as error:
        return f"cannot be used: {error.faults[0]}"


def show_job(catalog: Catalog, name: str) -> tuple[Found, Job]:
    """Return a job and where it was found. Raises NotFound or InvalidFile."""
    return catalog.find(JOB, name), load_job(catalog, name, Path.cwd())


@record
class SiteLine:
    """A site in a list. ``gpus`` are those of its usual node type; ``unverified``: essential keys its file lacks."""

    name: str
    origin: str
    status: str
    title: str
    gpus: str = ""
    launcher: str = ""
    unverified: tuple[str, ...] = ()


def list_sites(catalog: Catalog) -> list[SiteLine]:
    """Return all sites, one line each; a faulty file says so in its place."""
    return [_line(catalog, found) for found in catalog.names(SITE)]


def _line(catalog: Catalog, found: Found) -> SiteLine:
    try:
        site = load_site(catalog, found.name)
    except InvalidFile as error:
        title = f"cannot be used: {error.faults[0]}"
        return SiteLine(name=found.name, origin=found.origin, status="faulty", title=title)
    return SiteLine(
        name=found.name,
        origin=found.origin,
        status=site.status,
        title=site.title,
        gpus=gpus_in_short(site),
        launcher=site.launchers.default if site.launchers else "",
        unverified=tuple(lacks(site)),
    )


def site_file(catalog: Catalog, name: str) -> Found:
    """Return where a site was found. Raises NotFound."""
    return catalog.find(SITE, name)


def site_card(catalog: Catalog, name: str) -> list[Section]:
    """Return what a person wants to read of a site. Raises NotFound or InvalidFile."""
    found = site_file(catalog, name)
    return sections_of(load_site(catalog, name), read_yaml(found.path), f"{found.path} ({found.origin})")


def site_as_json(catalog: Catalog, name: str) -> dict[str, Any]:
    """Return a site, and under ``provenance`` every value as its file writes it, with its sources."""
    found, site = site_file(catalog, name), load_site(catalog, name)
    provenance = [asdict(value) for value in values(site, read_yaml(found.path))]
    place = {"path": str(found.path), "origin": found.origin}
    return {**place, **asdict(site), "needs_accept_unverified": lacks(site), "provenance": provenance}


def usual_site() -> tuple[str, str]:
    """Return the site that a submission would go to if nobody named one, and who chose it. Raises HpclaunchError."""
    from hpclaunch.actions.load import choose_site
    from hpclaunch.actions.system import System
    from hpclaunch.config.settings import load_settings

    system = System()
    site, origin, _ = choose_site(system, None, load_settings(user_folder(system.environment), system.cwd))
    return site.name, origin


def new_job(catalog: Catalog, name: str, script: str | None) -> Path:
    """Make ``jobs/NAME`` in the project, from a script if one is named. Raises Refused; nothing is overwritten."""
    folder = catalog.project / "jobs" / name
    if not NAME.fullmatch(name):
        raise InvalidRequest(Fault(what=f"{name!r} is not a job name", allowed="letters, digits, '.', '_' and '-'"))
    if folder.exists():
        raise Refused(Fault(where=str(folder), what="exists already", next="choose another name"))
    if script is not None and not Path(script).is_file():
        raise Refused(Fault(where=script, what="the script is not there"))
    folder.mkdir(parents=True)
    if script is None:
        (folder / "train.py").write_text(_NEW_SCRIPT, encoding="utf-8")
        program = f"script: train.py\n{_NEW_PARAMETERS}"
    else:
        shutil.copy2(script, folder / Path(script).name)
        program = _program_line(Path(script).name)
    (folder / "job.yaml").write_text(_NEW_JOB.format(name=name, program=program), encoding="utf-8")
    return folder


def _program_line(script: str) -> str:
    """Return the line of a job file that runs this file (text in JSON's quotes is YAML too)."""
    if script.endswith(".py"):
        return f"script: {json.dumps(script)}"
    program = ["bash"] if script.endswith(".sh") else []
    return f"command: {json.dumps([*program, '{code}/' + script])}"


def fetch(
    job: str, source: str | None, data_dir: str | None, site: str | None, sha256: str | None, say: Callable[[str], None]
) -> Path:
    """Stage a job's data set and return its folder. Raises Refused with what is wrong with the source."""
    from hpclaunch.actions.load import choose_site, context_of
    from hpclaunch.actions.staging import stage
    from hpclaunch.actions.system import System
    from hpclaunch.config.settings import load_settings
    from hpclaunch.core.spec import Request
    from hpclaunch.resolve.case import Case
    from hpclaunch.resolve.decisions import Decisions
    from hpclaunch.resolve.folders import data_folder

    system = System()
    loaded = load_job(system.catalog, job, system.cwd)
    if loaded.data is None:
        raise Refused(Fault(what=f"{job} reads no data set"))
    settings = load_settings(user_folder(system.environment), system.cwd)
    chosen = choose_site(system, site, settings).site
    request = Request(target=job, data_dir=data_dir)
    case = Case(site=chosen, job=loaded, request=request, settings=settings, context=context_of(system, request))
    folder, _ = data_folder(case, Decisions())
    if not folder:
        raise Refused(Fault(what=f"no data folder is known at {chosen.name}", next="--data-dir FOLDER"))
    return stage(loaded.data, source, Path(folder), sha256, say)
