"""The story of ``jobs list``, ``show`` and ``new``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from hpclaunch.config.catalog import JOB, NAME, Catalog, Found
from hpclaunch.config.job import Job, load_job
from hpclaunch.core.errors import Fault, InvalidFile, InvalidRequest, Refused

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
