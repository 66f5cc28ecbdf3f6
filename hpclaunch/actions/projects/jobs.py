"""``jobs list``, ``jobs show`` and ``jobs new``."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

from hpclaunch.actions.preparing.trust import trust_folder
from hpclaunch.actions.system import System
from hpclaunch.config.catalog import JOB, NAME, Found
from hpclaunch.config.job import Job, load_job
from hpclaunch.core.errors import ChangeableByOthers, Fault, InvalidFile, InvalidRequest, Refused

_NEW_JOB = """\
# The keys: hpclaunch docs job-files. To see the script: hpclaunch submit {name} --dry-run
summary: "{name}"
{program}
resources:
  walltime: "00:30:00"
"""
_NEW_PARAMETERS = """\
parameters:
  epochs: {default: 1, help: passes over the training data}"""
_NEW_SCRIPT = '''\
"""Every rank runs this file. hpclaunch passes the parameters of job.yaml as --name=value."""

import argparse
import os

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
options = parser.parse_args()
rank = os.environ.get("SLURM_PROCID") or os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("HOROVOD_RANK", "0")
print(f"rank {rank} of {os.environ.get('HPCLAUNCH_WORLD_SIZE', '1')} trains for {options.epochs} epochs")
'''


def list_jobs(system: System) -> list[tuple[str, str, str]]:
    """Return (name, origin, summary) of all jobs; for a faulty file the summary is the error."""
    return [(found.name, found.origin, _summary(system, found)) for found in system.catalog.names(JOB)]


def _summary(system: System, found: Found) -> str:
    try:
        return load_job(system.catalog, found.name, system.cwd).summary
    except InvalidFile as error:
        return f"cannot be used: {error.faults[0]}"


def show_job(system: System, name: str) -> tuple[Found, Job]:
    """Return where a job was found, and the job. Raises NotFound or InvalidFile."""
    return system.catalog.find(JOB, name), load_job(system.catalog, name, system.cwd)


def new_job(system: System, name: str, script: str | None) -> Path:
    """Make ``jobs/NAME`` in the project, with a copy of ``script`` if one is named; returns its path.

    The new folder is trusted, as its content is the user's. Nothing is overwritten. Raises InvalidRequest, Refused.
    """
    folder = system.cwd / "jobs" / name
    if not NAME.fullmatch(name):
        raise InvalidRequest(Fault(what=f"{name!r} is not a job name", allowed="letters, digits, '.', '_' and '-'"))
    if folder.exists():
        raise Refused(Fault(where=str(folder), what="exists already", next="choose another name"))
    hidden = next((found.origin for found in system.catalog.names(JOB) if found.name == name), "")
    source = system.cwd / script if script is not None else None
    if source is not None and not source.is_file():
        raise Refused(Fault(where=str(source), what="the script does not exist", next="check the path"))
    folder.mkdir(parents=True)
    if source is None:
        (folder / "train.py").write_text(_NEW_SCRIPT, encoding="utf-8")
        program = f"script: train.py\n{_NEW_PARAMETERS}"
    else:
        shutil.copy2(source, folder / source.name)
        program = _program_line(source.name)
    (folder / "job.yaml").write_text(_NEW_JOB.format(name=name, program=program), encoding="utf-8")
    with contextlib.suppress(Refused, ChangeableByOthers):  # the first plan asks, or says why it is not used
        trust_folder(system.environment, folder)
    if hidden:
        system.warn(f"in this project {name} now means the new job: the {hidden} job of this name is hidden")
    return folder


def _program_line(script: str) -> str:
    """Return the line of a job file that runs this file, quoted as in JSON (which is valid YAML)."""
    if script.endswith(".py"):
        return f"script: {json.dumps(script)}"
    program = ["bash"] if script.endswith(".sh") else []
    return f"command: {json.dumps([*program, '{code}/' + script])}"
