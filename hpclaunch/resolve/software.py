"""The software of the ranks: modules, venv, conda or container, Python and variables, from site, settings and job."""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath
from posixpath import join, normpath

from hpclaunch.config.fileformat import Environment
from hpclaunch.config.site import Site
from hpclaunch.core.records import record
from hpclaunch.core.spec import Context, Layout, Step
from hpclaunch.launchers import LAUNCHERS
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.folders import expanded
from hpclaunch.resolve.sizing import Sizing

# Variables of the submitting shell that would change what the script does. Under Slurm, --export=NONE keeps them out.
_STRAYS = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "LD_PRELOAD", "OMP_PLACES", "OMP_PROC_BIND", "KMP_AFFINITY")


@record
class Software:
    """``python`` is the first word of a Python job's command; ``image`` is that of the container, if there is one."""

    python: str
    steps: tuple[Step, ...]
    variables: dict[str, str]
    unset: tuple[str, ...]
    image: str | None = None


def software_of(case: Case, sizing: Sizing, launcher: str, decisions: Decisions) -> Software:
    """Return the merged environment of site, settings and job, each of which overrides the ones before it.

    A venv, conda environment, Python or container replaces whichever of these an earlier level names.
    """
    levels = _levels(case, sizing.node_type)
    (site_origin, of_site), *_ = levels
    merged = Environment()
    for _, level in levels:
        merged = merged.under(level)
    origin = next((name for name, level in reversed(levels) if level.has_python), site_origin)
    python = _python_of(merged, case.context)
    decisions.pick("python", (origin, python))
    is_the_sites = origin == site_origin and merged.modules == of_site.modules
    if is_the_sites and _lacks_horovod(case, launcher):
        decisions.warnings.append(
            f"{case.site.name} provides no known TensorFlow with Horovod, so the ranks run its plain {python}: "
            "write 'environment:' (modules, venv, conda or container) in the settings or the job file"
        )
    variables = _variables(case, merged, sizing.layout)
    _check_values(variables, decisions)
    return Software(
        python=python,
        steps=_steps_of(merged, case.context),
        variables=variables,
        unset=_unset(case.site, variables),
        image=_image(merged.container, case.context),
    )


def _python_of(merged: Environment, context: Context) -> str:
    """Return the interpreter's name or path: a venv, a conda environment or an image has one that is called python."""
    if merged.python == "current":
        return context.python
    has_its_own = merged.venv or merged.conda or merged.container
    return merged.python or ("python" if has_its_own else "python3")


def _steps_of(merged: Environment, context: Context) -> tuple[Step, ...]:
    """Return the lines of set-up, in the order in which each finds what those before it have set."""
    steps = [Step(line=f"module load {shlex.quote(name)}", failure=f"module load {name}") for name in merged.modules]
    steps += _activation(merged.venv, merged.conda, context)
    if merged.python == "current":
        bin_folder = str(PurePosixPath(context.python).parent)
        steps.append(Step(line=f'export PATH={shlex.quote(bin_folder)}:"$PATH"', failure="setting PATH"))
    return (*steps, *(Step(line=line, failure=line) for line in merged.setup))


def _levels(case: Case, node_type: str) -> list[tuple[str, Environment]]:
    """Return (origin, environment) of site, settings and job; later ones override earlier ones."""
    site = case.site
    return [
        (f"site {site.name}", case.node(node_type).environment or site.environment),
        ("settings", case.settings.environment_at(site.name)),
        ("job", case.job.environment),
    ]


def _variables(case: Case, merged: Environment, layout: Layout) -> dict[str, str]:
    variables = dict(merged.variables)
    if merged.container:  # where the container sees the home folder, ~/.local would hide packages of the image
        variables.setdefault("PYTHONNOUSERSITE", "1")
    if not case.site.scheduler_row.assigns_gpus:
        gpus = min(layout.gpus_per_node, layout.node_gpus)  # _check_gpus of resolve.layout refuses more
        variables.setdefault("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(gpus))))
    return variables


def _unset(site: Site, variables: dict[str, str]) -> tuple[str, ...]:
    """Return the variables that the script unsets, because they must not reach the job from the submitting shell.

    A scheduler that assigns GPUs sets CUDA_VISIBLE_DEVICES itself; otherwise it is among ``variables``.
    """
    unmanaged = site.gpus is not None and site.gpus.directive == "none"
    strays = (*_STRAYS, "CUDA_VISIBLE_DEVICES") if unmanaged else _STRAYS
    leaks = not site.scheduler_row.keeps_shell_out or site.export == "all"
    return tuple(name for name in strays if name not in variables) if leaks else ()


def _image(container: str | None, context: Context) -> str | None:
    """Return the image: a registry's name unchanged, a relative file as an absolute path.

    The script starts in another folder, so that a relative path would not be found.
    """
    if container is None:
        return None
    image = expanded(container, context)
    return normpath(join(context.cwd, image)) if image.startswith(("./", "../")) else image


def _lacks_horovod(case: Case, launcher: str) -> bool:
    """Whether a Python job may need Horovod, and the site's own Python is not known to have it."""
    wanted = case.job.script is not None and LAUNCHERS[launcher].trains_tensorflow
    return wanted and case.site.scheduler_row.has_queue and "horovod" not in case.site.provides


def _activation(venv: str | None, conda: str | None, context: Context) -> list[Step]:
    if venv:
        script = f"{expanded(venv, context)}/bin/activate"
        return [Step(line=f"source {shlex.quote(script)}", failure=f"activating the venv {venv}")]
    if conda:
        return [
            Step(line='eval "$(conda shell.bash hook)"', failure="finding conda (is its module loaded?)"),
            Step(line=f"conda activate {shlex.quote(expanded(conda, context))}", failure=f"conda activate {conda}"),
        ]
    return []


def _check_values(variables: dict[str, str], decisions: Decisions) -> None:
    for name, value in variables.items():
        if "\0" in value:
            decisions.fault("a variable cannot hold a NUL character", where=f"environment.variables.{name}")
