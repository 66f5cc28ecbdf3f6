"""Heterogeneous jobs in Slurm: the names of their components in its answers, and whether this Slurm runs them.

squeue and sacct have a line for each component: 4711+0, 4711+1, …; the job itself is 4711, like its first component,
which runs the script.
"""

from __future__ import annotations

import re

from hpclaunch.core.errors import Fault
from hpclaunch.core.records import record
from hpclaunch.core.spec import JobSpec
from hpclaunch.schedulers.slurm.configuration import configuration
from hpclaunch.schedulers.slurm.programs import NO_NODES

_COMPONENT = re.compile(r"([0-9]{1,18})\+([0-9]{1,9})")
_VERSION = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})")
_FIRST_VERSION = (20, 2)
"""Since then #SBATCH hetjob and srun --het-group have these names (RELEASE_NOTES of 20.02)."""


def job_of(named: str) -> str:
    """Return the job that a line's first column names if it is the first component of one; else the same text."""
    match = _COMPONENT.fullmatch(named) if "+" in named else None
    return match[1] if match and int(match[2]) == 0 else named


def component_of(named: str) -> tuple[str, int]:
    """Return the job that a line's first column names, and which of its components; 0 for a job that has none."""
    match = _COMPONENT.fullmatch(named)
    return (match[1], int(match[2])) if match else (named, 0)


@record
class FurtherNodes:
    """The nodes of a further component of a job, and the component's number."""

    job_id: str
    number: int
    nodes: str


def further_nodes(named: str, nodes: str) -> list[FurtherNodes]:
    """Return the job of a line about a further component (``4711+1``) with its nodes; nothing for any other line."""
    match = _COMPONENT.fullmatch(named) if "+" in named else None
    is_further = match is not None and int(match[2]) > 0 and nodes not in NO_NODES
    return [FurtherNodes(job_id=match[1], number=int(match[2]), nodes=nodes)] if match and is_further else []


def objections(spec: JobSpec) -> list[Fault]:
    """Return why this Slurm would never start a heterogeneous job; nothing if scontrol does not answer.

    Only the backfill scheduler starts such jobs (slurm.schedmd.com/heterogeneous_jobs, Limitations), and a site may
    forbid the steps that span their components.
    """
    fields = configuration() if spec.further else {}
    step = "one node type: --node-type NAME --nodes N"
    found, version = [], _VERSION.match(fields.get("SLURM_VERSION", ""))
    if version and (int(version[1]), int(version[2])) < _FIRST_VERSION:
        found.append(Fault(where=f"Slurm {version[0]}", what="is too old for nodes of several types", next=step))
    if fields.get("SchedulerType", "sched/backfill") != "sched/backfill":
        what = "only its backfill scheduler starts jobs with nodes of several types"
        found.append(Fault(where=f"SchedulerType={fields['SchedulerType']}", what=what, next=step))
    if "disable_hetjob_steps" in fields.get("SchedulerParameters", "").split(","):
        what = "this Slurm starts no ranks on nodes of several types at once"
        found.append(Fault(where="SchedulerParameters=disable_hetjob_steps", what=what, next=step))
    return found
