"""Modules, venv, conda or container, Python and variables: what the ranks need around them; site, settings, job."""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath
from posixpath import join, normpath

from hpclaunch.config.fileformat import Environment
from hpclaunch.config.job import Job
from hpclaunch.config.settings import Settings
from hpclaunch.config.site import Site
from hpclaunch.core.records import record
from hpclaunch.core.spec import Layout, Step, Surroundings
from hpclaunch.resolve.decisions import Ledger
from hpclaunch.resolve.folders import expanded

# What a submitting shell may hold that would make the same script do something else. Under Slurm --export=NONE does it.
_STRAYS = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "LD_PRELOAD", "OMP_PLACES", "OMP_PROC_BIND", "KMP_AFFINITY")


@record
class Software:
    """``python`` is what stands first in a Python job's command; ``image`` is the container's, if there is one."""

    python: str
    steps: tuple[Step, ...]
    variables: dict[str, str]
    unset: tuple[str, ...]
    image: str | None = None


def software_of(
    site: Site,
    kind: str,
    job: Job,
    layout: Layout,
    launcher: str,
    settings: Settings,
    around: Surroundings,
    ledger: Ledger,
) -> Software:
    """Return the merged environment: a level that names a venv, conda, Python or container replaces a weaker one's."""
    levels = [
        (f"site {site.name}", site.node_types[kind].environment or site.environment),
        ("settings", settings.environment_at(site.name)),
        ("job", job.environment),
    ]
    whole = Environment()
    for _, level in levels:
        whole = whole.under(level)
    origin = next((name for name, level in reversed(levels) if level.has_python), levels[0][0])
    steps = [Step(line=f"module load {shlex.quote(name)}", failure=f"module load {name}") for name in whole.modules]
    steps += _activation(whole.venv, whole.conda, around)
    in_environment = whole.venv or whole.conda or whole.container
    asked = whole.python or ("python" if in_environment else "python3")
    python = around.python if asked == "current" else asked
    if asked == "current":
        bin_folder = str(PurePosixPath(around.python).parent)
        steps.append(Step(line=f'export PATH={shlex.quote(bin_folder)}:"$PATH"', failure="setting PATH"))
    steps += [Step(line=line, failure=line) for line in whole.setup]
    ledger.pick("python", (origin, python))
    if (
        origin == levels[0][0]
        and not whole.modules[len(levels[0][1].modules) :]
        and _lacks_horovod(site, job, launcher)
    ):
        ledger.warnings.append(
            f"no TensorFlow with Horovod is known at {site.name}, so its plain {python} runs: "
            "say 'environment:' (modules, venv, conda or container) in the settings or the job file"
        )
    variables = dict(whole.variables)
    if whole.container:  # runtimes that show the home folder would else let ~/.local win over the image's own packages
        variables.setdefault("PYTHONNOUSERSITE", "1")
    if site.scheduler == "local":
        gpus = min(layout.gpus_per_node, layout.node_gpus)  # more are refused elsewhere
        variables.setdefault("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(gpus))))
    _check_values(variables, ledger)
    # Where Slurm hands out GPUs it sets this one itself, and without a scheduler it is set above.
    unmanaged = site.gpus is not None and site.gpus.directive == "none"
    strays = (*_STRAYS, "CUDA_VISIBLE_DEVICES") if unmanaged else _STRAYS
    leaks = site.scheduler == "local" or site.export == "all"
    unset = tuple(name for name in strays if name not in variables) if leaks else ()
    return Software(
        python=python, steps=tuple(steps), variables=variables, unset=unset, image=_image(whole.container, around)
    )


def _image(container: str | None, around: Surroundings) -> str | None:
    """Return the image: a name of a registry as it is, a file where it is (the script starts in another folder)."""
    if container is None:
        return None
    image = expanded(container, around)
    return normpath(join(around.cwd, image)) if image.startswith(("./", "../")) else image


def _lacks_horovod(site: Site, job: Job, launcher: str) -> bool:
    """Whether a Python job that may want Horovod gets the site's own Python, which has none as far as is known."""
    wanted = job.script is not None and launcher != "torchrun"
    return wanted and site.scheduler == "slurm" and "horovod" not in site.provides


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
