"""The software of the ranks: modules, venv, conda or container, Python and variables, from site, settings and job."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import PurePosixPath
from posixpath import join, normpath

from hpclaunch.config.environment_recipes import maker_of_gpus, recipe_of, wheels_apart
from hpclaunch.config.fileformat import Environment
from hpclaunch.config.provenance import longest
from hpclaunch.config.site import Site
from hpclaunch.core.hardware import NO_GPU, cuda_order, first_gpus
from hpclaunch.core.records import record
from hpclaunch.core.spec import (
    JAX,
    MPI,
    NO_FRAMEWORK,
    PYTORCH,
    TENSORFLOW,
    Context,
    Layout,
    Request,
    Step,
)
from hpclaunch.core.spec_parts import CONDA_PREFIX
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.environment.folders import expanded
from hpclaunch.resolve.environment.framework import uses_horovod
from hpclaunch.resolve.environment.given_variables import Given, given_variables, may_export
from hpclaunch.resolve.nodes.sizing import Sizing

# Variables of the submitting shell that would change what the script does. Under Slurm, --export=NONE keeps them out.
_STRAYS = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "LD_PRELOAD", "OMP_PLACES", "OMP_PROC_BIND", "KMP_AFFINITY")


@record
class Software:
    """``python`` is the first word of a Python job's command; ``image`` is that of the container, if there is one.

    ``framework``: one of ``core.spec.FRAMEWORKS``, for which the site's software was chosen. ``folder``: that of the
    venv or conda environment, or of a named interpreter (CONDA_PREFIX: only the job knows it; empty: none is known).
    ``sbatch``: options by which the scheduler provides the software.
    ``given``: the variables of all levels. ``own_lines``: how many of the last steps are lines of set-up that a person
    wrote, if these may export further ones. ``is_the_sites``: nobody names other software than the site's.
    """

    python: str
    steps: tuple[Step, ...]
    variables: dict[str, str]
    unset: tuple[str, ...]
    image: str | None = None
    framework: str = TENSORFLOW
    folder: str = ""
    sbatch: tuple[str, ...] = ()
    given: tuple[Given, ...] = ()
    own_lines: int = 0
    is_the_sites: bool = False


def software_of(case: Case, sizing: Sizing, framework: str, decisions: Decisions) -> Software:
    """Return the merged environment of site (for the framework), settings, job, request: each overrides the last.

    A venv, conda environment, Python or container replaces whichever of these an earlier level names.
    """
    levels = _levels(case, sizing.node_type, framework)
    (site_origin, of_site), *others = levels
    merged = _merge_levels(levels)
    origin = next((name for name, level in reversed(levels) if level.has_python), site_origin)
    if origin != site_origin and _is_own_environment(merged):
        (_, of_site), *_ = levels = [(site_origin, _rest_of_site(case, sizing.node_type)), *others]
        merged = _add_needed_modules(case, sizing.node_type, _merge_levels(levels), decisions)
    python = _python_of(merged, case.context)
    decisions.pick("python", (origin, python))
    is_the_sites = origin == site_origin and (merged.modules, merged.sbatch) == (of_site.modules, of_site.sbatch)
    own_lines = merged.setup[len(of_site.setup) :]
    unknown = _unknown_software(case, sizing.node_type, framework)
    if is_the_sites and unknown:
        has_part = _has_software(case, sizing.node_type, framework)
        lacks = "no known Horovod beside its TensorFlow" if has_part else f"no known {unknown}"
        runs = "" if has_part else f", so the ranks run its plain {python}"
        way_on = _way_on(case, sizing.node_type, framework)
        decisions.way_on = f"{case.site.name} provides {lacks}{runs}: {way_on}"
    else:
        _tell_software(case, sizing.node_type, framework, merged, of_site, decisions)
    if case.context.environment.get("PYTHONPATH") and "PYTHONPATH" not in merged.variables:
        decisions.warnings.append(
            'PYTHONPATH of this shell does not reach the ranks; --env PYTHONPATH="$PYTHONPATH" passes it on'
        )
    if case.request.python and case.job.script is None:
        decisions.warnings.append("--python has no effect: the command itself says which program it runs")
    variables = _variables(case, merged, sizing.layout)
    _check_values(variables, decisions)
    return Software(
        python=python,
        steps=_steps_of(_add_modules_of_runtime(case.site, merged, decisions), case),
        variables=variables,
        unset=_unset(case.site, variables),
        image=_image(merged.container, case.context),
        framework=framework,
        folder=_folder_of(merged, python, case.context),
        sbatch=merged.sbatch,
        given=given_variables(levels, dict(case.request.variables)),
        own_lines=len(own_lines) if may_export(own_lines) else 0,
        is_the_sites=is_the_sites,
    )


def _tell_software(
    case: Case, node_type: str, framework: str, merged: Environment, of_site: Environment, decisions: Decisions
) -> None:
    """Note the software that the site has for a framework, with its source and date, if the ranks get it."""
    site, node = case.site, case.node(node_type)
    offered = (node.frameworks or site.frameworks).get(framework)
    if offered is None or not _names_of(offered) or _names_of(of_site) != _names_of(merged):
        return
    of_node = f"node_types.{node_type}." if node.frameworks else ""
    key = longest(f"{of_node}frameworks.{framework}", site.origins) or ""
    sources = [site.sources[name] for name in site.origins.get(key, ()) if name in site.sources]
    dated = [source for source in sources if source.read[:1].isdigit()]
    told = "; ".join(f"{source.ref}, {source.read}" for source in (dated or sources)[:1]) or "no source"
    decisions.pick("software", (f"site {site.name}: {told}", " ".join(_names_of(merged))))


def _names_of(environment: Environment) -> tuple[str, ...]:
    """Return what names the software of an environment: modules, container, venv or conda environment, or options."""
    one = (environment.container, environment.venv, environment.conda)
    return (*environment.modules, *environment.sbatch, *filter(None, one))


def _merge_levels(levels: list[tuple[str, Environment]]) -> Environment:
    merged = Environment()
    for _, level in levels:
        merged = merged.under(level)
    return merged


def _is_own_environment(merged: Environment) -> bool:
    """Whether a venv, a conda environment or an interpreter decides the software alone.

    An interpreter that is only named is looked up among what the modules bring.
    """
    is_place = merged.python == "current" or "/" in (merged.python or "")
    return not merged.container and bool(merged.venv or merged.conda or is_place)


def _rest_of_site(case: Case, node_type: str) -> Environment:
    """Return what a person's own environment gets of the site's: variables and lines of set-up, and no software."""
    general = case.node(node_type).environment or case.site.environment
    return Environment(setup=general.setup, variables=general.variables)


def _add_needed_modules(case: Case, node_type: str, merged: Environment, decisions: Decisions) -> Environment:
    """Return a person's own environment with the modules that every environment needs at the site, before its own."""
    needed = case.node(node_type).needed_modules or case.site.needed_modules
    further = tuple(name for name in needed if name not in merged.modules)
    if further:
        decisions.pick("modules", (f"site {case.site.name}, for every environment", " ".join(further)))
    return replace(merged, modules=(*further, *merged.modules))


def _add_modules_of_runtime(site: Site, merged: Environment, decisions: Decisions) -> Environment:
    """Return the environment with the modules that bring the container's runtime, if it has a container."""
    needed = site.container.load if merged.container and site.container else ()
    further = tuple(name for name in needed if name not in merged.modules)
    if not further:
        return merged
    decisions.pick("modules", (f"site {site.name}, for its containers", " ".join(further)))
    return replace(merged, modules=(*further, *merged.modules))


def _folder_of(merged: Environment, python: str, context: Context) -> str:
    """Return the folder of the environment whose Python the ranks run, above its ``bin``; empty if none is known."""
    if merged.container:
        return ""
    if merged.venv:
        return expanded(merged.venv, context)
    if merged.conda:
        conda = expanded(merged.conda, context)
        return conda if "/" in conda else CONDA_PREFIX
    path = PurePosixPath(python)
    return str(path.parent.parent) if path.is_absolute() and path.parent.name == "bin" else ""


def _python_of(merged: Environment, context: Context) -> str:
    """Return the interpreter's name or path: a venv, a conda environment or an image has one that is called python."""
    if merged.python == "current":
        return context.python
    has_its_own = merged.venv or merged.conda or merged.container
    return merged.python or ("python" if has_its_own else "python3")


def _steps_of(merged: Environment, case: Case) -> tuple[Step, ...]:
    """Return the lines of set-up, in the order in which each finds what those before it have set."""
    context = case.context
    steps = [Step(line=f"module load {shlex.quote(name)}", failure=f"module load {name}") for name in merged.modules]
    steps += _activation(merged.venv, merged.conda, _conda_program(merged, case.request, context), context)
    if merged.python == "current":
        bin_folder = str(PurePosixPath(context.python).parent)
        steps.append(Step(line=f'export PATH={shlex.quote(bin_folder)}:"$PATH"', failure="setting PATH"))
    typed = case.request.setup  # of a batch script, which goes on after a line that fails
    return (*steps, *(Step(line=line, failure="" if line in typed else line) for line in merged.setup))


def _levels(case: Case, node_type: str, framework: str) -> list[tuple[str, Environment]]:
    """Return (origin, environment) of site, settings, job and request; later ones override earlier ones."""
    site, node = case.site, case.node(node_type)
    general, of_frameworks = node.environment or site.environment, node.frameworks or site.frameworks
    return [
        (f"site {site.name}", general.under(of_frameworks.get(framework, Environment()))),
        ("settings", case.settings.environment_at(site.name)),
        ("job", case.job.environment),
        _typed_level(case.request, case.context, case.made or Environment()),
    ]


def _typed_level(request: Request, context: Context, made: Environment) -> tuple[str, Environment]:
    """Return what was typed, or is active in the submitting shell, with absolute paths: the script starts elsewhere.

    Typed modules and variables count more than those of an environment that hpclaunch ``made``.
    """
    typed = [("--python", request.python), ("--venv", request.venv), ("--conda", request.conda)]
    typed.append(("--environment", request.environment))
    origin = next((f"{flag} {value}" for flag, value in typed if value), "--module and --env")
    environment = Environment(
        modules=request.modules,
        venv=normpath(join(context.cwd, expanded(request.venv, context))) if request.venv else None,
        conda=_absolute_path(request.conda, context),
        python=_absolute_path(request.python, context),
        variables=dict(request.variables),
        setup=(f"cd {shlex.quote(context.cwd)}", *request.setup) if request.setup else (),
    )
    return context.active or origin, made.under(environment)


def _absolute_path(name: str | None, context: Context) -> str | None:
    """Return a path as an absolute one, and a name as it is."""
    return normpath(join(context.cwd, expanded(name, context))) if name and "/" in name else name


def _variables(case: Case, merged: Environment, layout: Layout) -> dict[str, str]:
    variables = dict(merged.variables)
    if merged.container:  # where the container sees the home folder, ~/.local would hide packages of the image
        variables.setdefault("PYTHONNOUSERSITE", "1")
    if not case.site.scheduler_row.assigns_gpus:
        variables = {**_order_of_gpus(case, layout), **_shown_gpus(case, layout), **variables}
    return variables


def _order_of_gpus(case: Case, layout: Layout) -> dict[str, str]:
    """Return the variable by which ranks count this machine's GPUs as hpclaunch does; none where they do."""
    hardware, is_here = case.context.hardware, case.request.hosts_file is None
    return cuda_order(hardware, case.context.environment) if hardware and is_here and layout.gpus_per_node else {}


def _shown_gpus(case: Case, layout: Layout) -> dict[str, str]:
    """Return the variables that leave the ranks so many GPUs as were asked for, where no scheduler assigns any.

    The shell's own variables reach the ranks as they are, and stay a limit. A run without a number of GPUs of its own
    sees all that the shell sees. A site file that gives a number has it for the machine. Where the GPUs are divided,
    each rank sets its own (resolve.ranks.launch).
    """
    gpus = min(layout.gpus_per_node, layout.node_gpus)  # _check_gpus of resolve.nodes.layout refuses more
    asked = (case.request.gpus_per_node, case.job.resources.gpus_per_node) != (None, None)
    hardware, is_here = case.context.hardware, case.request.hosts_file is None
    if not asked and (hardware is not None or not gpus):
        return {}
    if hardware is not None and is_here:
        divided = layout.tasks_per_node > 1 and any(gpu.parent for gpu in hardware.gpus[:gpus])
        return {} if divided else first_gpus(hardware, gpus, case.context.environment)
    limit = case.context.environment.get("CUDA_VISIBLE_DEVICES") if is_here else None
    if limit is not None and not limit.strip():
        return {}  # the shell hides all
    named = [word.strip() for word in limit.split(",")] if limit else [str(number) for number in range(gpus)]
    return {"CUDA_VISIBLE_DEVICES": ",".join(named[:gpus]) or NO_GPU}


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


_TITLES = {TENSORFLOW: "TensorFlow with Horovod", PYTORCH: "PyTorch", JAX: "JAX", MPI: "Python with mpi4py"}


def _way_on(case: Case, node_type: str, framework: str) -> str:
    """Return what to do where a site has no software for a framework: the ways that there are, in one line."""
    if framework == MPI:
        return "--venv or --conda names an environment that has it"
    others = "--venv, --conda and --module name software that you have"
    if case.job.name == _CIFAR and _has_software(case, node_type, PYTORCH):
        others = "hpclaunch submit ddp trains the same network with PyTorch"
    return f"{_make_environment(case, node_type, framework)}; {others}"


def _make_environment(case: Case, node_type: str, framework: str) -> str:
    """Return the command that makes an environment with a framework here, and the flag that uses it."""
    site, recipe = case.site, recipe_of(case.site, framework)
    name = f"{site.name}-{framework}"
    words = ["hpclaunch environment make", name, "--framework", framework, "--site", site.name]
    if node_type != site.defaults.node_type:
        words += ["--node-type", node_type]
    if recipe.kind == "container" and framework == TENSORFLOW and uses_horovod(case):
        words.append("--horovod")
    if recipe.kind == "none":
        return f"{recipe.note}: {' '.join(words)} --make-with container --image IMAGE, then --environment {name}"
    variant = wheels_apart(recipe, framework, maker_of_gpus(case.node(node_type)) or "")
    if variant:
        words += ["--index-url", f"URL (PyTorch's page Start Locally has that for {variant})"]
    return f"{' '.join(words)}, then --environment {name}"


_CIFAR = "cifar"
"""The bundled job whose network another one, ddp, has in PyTorch."""


def _has_software(case: Case, node_type: str, framework: str) -> bool:
    return framework in (case.node(node_type).frameworks or case.site.frameworks)


def _unknown_software(case: Case, node_type: str, framework: str) -> str:
    """Return what a Python job may need and the site's own Python is not known to have; empty if nothing."""
    wanted = case.job.script is not None and case.site.scheduler_row.has_queue and framework != NO_FRAMEWORK
    known = _has_software(case, node_type, framework)
    if framework == TENSORFLOW:
        known = "horovod" in case.site.provides or (known and not uses_horovod(case))
    if not wanted or known:
        return ""
    return "TensorFlow" if framework == TENSORFLOW and not uses_horovod(case) else _TITLES[framework]


def _conda_program(merged: Environment, request: Request, context: Context) -> str:
    """Return the program that activates a conda environment: for a typed one that of the submitting shell, by its path.

    The job may not find it by its name. Where modules are loaded, one of them may bring another conda.
    """
    program = context.environment.get("CONDA_EXE", "")
    return program if request.conda and not merged.modules and program.startswith("/") else "conda"


def _activation(venv: str | None, conda: str | None, program: str, context: Context) -> list[Step]:
    if venv:
        script = f"{expanded(venv, context)}/bin/activate"
        return [Step(line=f"source {shlex.quote(script)}", failure=f"activating the venv {venv}")]
    if conda:
        return [
            Step(
                line=f'eval "$({shlex.quote(program)} shell.bash hook)"',
                failure="finding conda (is its module loaded?)",
            ),
            Step(line=f"conda activate {shlex.quote(expanded(conda, context))}", failure=f"conda activate {conda}"),
        ]
    return []


def _check_values(variables: dict[str, str], decisions: Decisions) -> None:
    for name, value in variables.items():
        if "\0" in value:
            decisions.fault("a variable cannot hold a NUL character", where=f"environment.variables.{name}")
