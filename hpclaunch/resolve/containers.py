"""Runs a rank's command in a container, inside the launcher: one row per container runtime, with a pure function."""

from __future__ import annotations

from collections.abc import Callable

from hpclaunch.config.site import Container, NodeType, Site
from hpclaunch.core.records import record
from hpclaunch.core.spec import Pairs
from hpclaunch.launchers import LAUNCHERS
from hpclaunch.resolve.decisions import Decisions


@record
class ContainerCommand:
    """What a container adds: directives, options of srun, and the words before the rank's command."""

    directives: Pairs = ()
    srun: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()


@record
class ContainerRequest:
    """What a rank needs of its container: the image, the folders that it must see, and the maker of its GPUs, if any.

    ``workdir`` is the working folder, one of ``folders`` (empty: that of the image). ``variables`` are the names of
    the variables that the script exports.
    """

    image: str
    folders: tuple[str, ...]
    gpus: str
    workdir: str = ""
    variables: tuple[str, ...] = ()


def _shifter(site: Container, asked: ContainerRequest) -> ContainerCommand:
    """NERSC's Shifter: image and modules are directives; the site's file systems are visible inside."""
    modules = (("module", ",".join(site.modules)),) if site.modules else ()
    return ContainerCommand(directives=(("image", asked.image), *modules), prefix=("shifter", *site.options))


def _podman_hpc(site: Container, asked: ContainerRequest) -> ContainerCommand:
    """NERSC's wrapper of podman: one container per rank, unless a module shares it among a node's ranks (its README).

    podman passes no variable by itself; ``NAME*`` passes all whose names begin with NAME (manual of podman-run).
    """
    gpu = ("gpu",) if asked.gpus == "nvidia" and "gpu" not in site.modules else ()
    modules = tuple(f"--{name}" for name in (*gpu, *site.modules))
    volumes = tuple(word for folder in asked.folders for word in ("--volume", f"{folder}:{folder}"))
    names = dict.fromkeys([*_LAUNCHERS_OWN, "HPCLAUNCH_*", *_variables_of_the_image(asked)])
    variables = tuple(word for name in names for word in ("--env", name))
    workdir = ("--workdir", asked.workdir) if asked.workdir else ()
    return ContainerCommand(
        prefix=("podman-hpc", "run", "--rm", *modules, *volumes, *workdir, *variables, *site.options, asked.image)
    )


def _variables_of_the_image(asked: ContainerRequest) -> list[str]:
    """Return the variables that an image may set as well, which hpclaunch's own never are."""
    return [name for name in asked.variables if not name.startswith("HPCLAUNCH_")]


_LAUNCHERS_OWN = ("SLURM_*", "PMI_*", "PMIX_*", "OMPI_*", "CUDA_VISIBLE_DEVICES")
"""What a rank learns from srun: who it is, and which GPUs are its own."""


def _apptainer(site: Container, asked: ContainerRequest) -> ContainerCommand:
    """Apptainer and Singularity: ``--nv`` and ``--rocm`` add the host's GPU libraries (their user guides)."""
    gpu = {"amd": ("--rocm",), "nvidia": ("--nv",)}.get(asked.gpus, ())
    binds = tuple(word for folder in asked.folders for word in ("--bind", folder))
    return ContainerCommand(prefix=(site.runtime, "exec", *gpu, *binds, *site.options, asked.image))


def _pyxis(site: Container, asked: ContainerRequest) -> ContainerCommand:
    """A plug-in of srun: the container is an option of the step (pyxis' README).

    Without ``--container-env`` the image's value of a variable overrides that of the script (pyxis' wiki, Usage).
    """
    mounts = ",".join(f"{folder}:{folder}" for folder in asked.folders)
    workdir = (f"--container-workdir={asked.workdir}",) if asked.workdir else ()
    names = _variables_of_the_image(asked)
    variables = (f"--container-env={','.join(names)}",) if names else ()
    image = (f"--container-image={asked.image}", f"--container-mounts={mounts}")
    return ContainerCommand(srun=(*image, *workdir, *variables, *site.options))


@record
class RuntimeRow:
    """One container runtime: what it adds to a script, and everything else that differs between runtimes."""

    command: Callable[[Container, ContainerRequest], ContainerCommand]
    needs_tasks: bool = False
    """The container is an option of a Slurm step, so every rank must be a task of that step."""
    splits_paths: bool = True
    """Its option for folders separates paths by commas or colons."""


RUNTIMES: dict[str, RuntimeRow] = {
    "shifter": RuntimeRow(command=_shifter, splits_paths=False),
    "podman-hpc": RuntimeRow(command=_podman_hpc),
    "apptainer": RuntimeRow(command=_apptainer),
    "singularity": RuntimeRow(command=_apptainer),
    "pyxis": RuntimeRow(command=_pyxis, needs_tasks=True),
}

_TASK_LAUNCHER = next(name for name, row in LAUNCHERS.items() if row.ranks_are_tasks)


def container_request(
    image: str, folders: tuple[str, ...], node: NodeType, workdir: str = "", variables: tuple[str, ...] = ()
) -> ContainerRequest:
    """Return what a rank needs of its container; it sees the ``workdir`` as well as the ``folders``."""
    seen = tuple(dict.fromkeys([*folders, *([workdir] if workdir else [])]))
    maker = "amd" if "AMD" in (node.gpu_model or "") else "nvidia"
    gpus = maker if node.gpus_per_node and not node.stand_in_gpus else ""
    return ContainerRequest(image=image, folders=seen, gpus=gpus, workdir=workdir, variables=variables)


def container_of(site: Site, launcher: str, asked: ContainerRequest | None, decisions: Decisions) -> ContainerCommand:
    """Return what the container adds to the script; nothing where no image is requested."""
    if asked is None:
        return ContainerCommand()
    if site.container is None:
        decisions.fault(
            f"the container runtime of {site.name} is not known",
            where="environment.container",
            next="write 'container: {runtime: …}' in a site file of your own (docs/site-files.md)",
        )
        return ContainerCommand()
    row = RUNTIMES[site.container.runtime]
    if row.needs_tasks and not LAUNCHERS[launcher].ranks_are_tasks:
        decisions.fault(
            f"at {site.name} containers are an option of {_TASK_LAUNCHER}, but the launcher is {launcher}",
            next=f"--launcher {_TASK_LAUNCHER}",
        )
    for folder in asked.folders if row.splits_paths else ():
        if "," in folder or ":" in folder:
            decisions.fault(
                f"{site.container.runtime} would split {folder!r} at a comma or a colon",
                next="choose another folder with --runs-dir or --data-dir",
            )
    if asked.image.startswith("-"):
        decisions.fault(f"the image {asked.image!r} would be read as an option", where="environment.container")
    return row.command(site.container, asked)
