"""Modules, venv or conda, Python and variables: what the ranks need around them, site first, then job."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath

from hpclaunch.job import Job
from hpclaunch.plan.folders import expanded
from hpclaunch.plan.ledger import Ledger
from hpclaunch.site import Site
from hpclaunch.spec import Layout, Step, Surroundings

# What a submitting shell may hold that would make the same script do something else. Under Slurm --export=NONE does it.
_STRAYS = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "LD_PRELOAD", "OMP_PLACES", "OMP_PROC_BIND", "KMP_AFFINITY")


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """``python`` is what stands first in a Python job's command."""

    python: str
    steps: tuple[Step, ...]
    variables: dict[str, str]
    unset: tuple[str, ...]


def software_of(site: Site, job: Job, layout: Layout, around: Surroundings, ledger: Ledger) -> Software:
    """Return the merged environment: a job that names modules, a venv, conda or Python replaces the site's choice."""
    ours, theirs = site.environment, job.environment
    own_python = bool(theirs.venv or theirs.conda or theirs.python)
    base = theirs if own_python else ours
    modules = theirs.modules or ours.modules
    steps = [Step(line=f"module load {shlex.quote(name)}", failure=f"module load {name}") for name in modules]
    steps += _activation(base.venv, base.conda, around)
    asked = base.python or ("python" if base.venv or base.conda else "python3")
    python = around.python if asked == "current" else asked
    if asked == "current":
        bin_folder = str(PurePosixPath(around.python).parent)
        steps.append(Step(line=f'export PATH={shlex.quote(bin_folder)}:"$PATH"', failure="setting PATH"))
    steps += [Step(line=line, failure=line) for line in (*ours.setup, *theirs.setup)]
    ledger.pick("python", ("job" if own_python else f"site {site.name}", python))
    variables: dict[str, str] = {"PYTHONUNBUFFERED": "1", **ours.variables, **theirs.variables}
    if site.scheduler == "local":
        variables.setdefault("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(layout.gpus_per_node))))
    _check_values(variables, ledger)
    unset = tuple(name for name in _STRAYS if name not in variables) if site.scheduler == "local" else ()
    return Software(python=python, steps=tuple(steps), variables=variables, unset=unset)


def _activation(venv: str | None, conda: str | None, around: Surroundings) -> list[Step]:
    if venv:
        script = f"{expanded(venv, around)}/bin/activate"
        return [Step(line=f"source {shlex.quote(script)}", failure=f"activating the venv {venv}")]
    if conda:
        return [
            Step(line='eval "$(conda shell.bash hook)"', failure="finding conda (is its module loaded?)"),
            Step(line=f"conda activate {shlex.quote(expanded(conda, around))}", failure=f"conda activate {conda}"),
        ]
    return []


def _check_values(variables: dict[str, str], ledger: Ledger) -> None:
    for name, value in variables.items():
        if "\0" in value:
            ledger.fault("a variable cannot hold a NUL character", where=f"environment.variables.{name}")
