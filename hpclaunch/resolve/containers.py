"""How a rank's command is put into a container: srun outside, container inside. A table of small pure functions."""

from __future__ import annotations

from collections.abc import Callable

from hpclaunch.config.site import Container, NodeType, Site
from hpclaunch.core.records import record
from hpclaunch.core.spec import Pairs
from hpclaunch.resolve.decisions import Ledger


@record
class Box:
    """What a container adds: directives, options of srun, and the words before the rank's command."""

    directives: Pairs = ()
    srun: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()


@record
class Inside:
    """What is known of a container: its image, the folders that it must see, and the maker of its GPUs, if any.

    ``workdir`` is the folder to begin in, one of ``folders`` (empty: the image's own). ``variables`` are the names of
    those that the script exports.
    """

    image: str
    folders: tuple[str, ...]
    gpus: str
    workdir: str = ""
    variables: tuple[str, ...] = ()


def _shifter(site: Container, inside: Inside) -> Box:
    """NERSC's: image and modules are directives; the site's own file systems are visible inside."""
    modules = (("module", ",".join(site.modules)),) if site.modules else ()
    return Box(directives=(("image", inside.image), *modules), prefix=("shifter", *site.options))


def _podman_hpc(site: Container, inside: Inside) -> Box:
    """NERSC's wrapper of podman: one container a rank, unless a module shares it among a node's ranks (its README).

    podman lets no variable in by itself; ``NAME*`` stands for all that begin so (podman-run's manual).
    """
    gpu = ("gpu",) if inside.gpus == "nvidia" and "gpu" not in site.modules else ()
    modules = tuple(f"--{name}" for name in (*gpu, *site.modules))
    volumes = tuple(word for folder in inside.folders for word in ("--volume", f"{folder}:{folder}"))
    names = dict.fromkeys([*_LAUNCHERS_OWN, "HPCLAUNCH_*", *_named(inside)])
    variables = tuple(word for name in names for word in ("--env", name))
    workdir = ("--workdir", inside.workdir) if inside.workdir else ()
    return Box(
        prefix=("podman-hpc", "run", "--rm", *modules, *volumes, *workdir, *variables, *site.options, inside.image)
    )


def _named(inside: Inside) -> list[str]:
    """Variables that an image may set as well; hpclaunch's own are in none."""
    return [name for name in inside.variables if not name.startswith("HPCLAUNCH_")]


_LAUNCHERS_OWN = ("SLURM_*", "PMI_*", "PMIX_*", "OMPI_*", "CUDA_VISIBLE_DEVICES")
"""What a rank learns from srun: who it is, and which GPUs are its own."""


def _apptainer(site: Container, inside: Inside) -> Box:
    """Apptainer and Singularity: ``--nv`` and ``--rocm`` bring the host's GPU libraries in (their user guides)."""
    gpu = {"amd": ("--rocm",), "nvidia": ("--nv",)}.get(inside.gpus, ())
    binds = tuple(word for folder in inside.folders for word in ("--bind", folder))
    return Box(prefix=(site.runtime, "exec", *gpu, *binds, *site.options, inside.image))


def _pyxis(site: Container, inside: Inside) -> Box:
    """A plug-in of srun: the container is an option of the step (pyxis' README).

    Without ``--container-env`` the image's own value of a variable wins over the script's (pyxis' wiki, Usage).
    """
    mounts = ",".join(f"{folder}:{folder}" for folder in inside.folders)
    workdir = (f"--container-workdir={inside.workdir}",) if inside.workdir else ()
    names = _named(inside)
    variables = (f"--container-env={','.join(names)}",) if names else ()
    image = (f"--container-image={inside.image}", f"--container-mounts={mounts}")
    return Box(srun=(*image, *workdir, *variables, *site.options))


RUNTIMES: dict[str, Callable[[Container, Inside], Box]] = {
    "shifter": _shifter,
    "podman-hpc": _podman_hpc,
    "apptainer": _apptainer,
    "singularity": _apptainer,
    "pyxis": _pyxis,
}


def box_of(
    site: Site,
    node: NodeType,
    image: str | None,
    folders: tuple[str, ...],
    launcher: str,
    ledger: Ledger,
    workdir: str = "",
    variables: tuple[str, ...] = (),
) -> Box:
    """Return what the container adds; an empty box where no image is asked for.

    It must see the ``folders`` and the ``workdir``; ``variables`` are the names of those that the script exports.
    """
    if not image:
        return Box()
    if site.container is None:
        ledger.fault(
            f"how {site.name} runs containers is not known",
            where="environment.container",
            next="'container: {runtime: …}' in a site file of your own (docs/site-files.md)",
        )
        return Box()
    if site.container.runtime == "pyxis" and launcher != "srun":
        ledger.fault(
            f"at {site.name} containers are an option of srun, and the launcher is {launcher}", next="--launcher srun"
        )
    folders = tuple(dict.fromkeys([*folders, *([workdir] if workdir else [])]))
    for folder in folders if site.container.runtime != "shifter" else ():
        if "," in folder or ":" in folder:
            ledger.fault(
                f"{site.container.runtime} would take {folder!r} apart at a comma or a colon",
                next="choose another folder with --runs-dir or --data-dir",
            )
    if image.startswith("-"):
        ledger.fault(f"the image {image!r} would be taken for an option", where="environment.container")
    maker = (
        "" if not node.gpus_per_node or node.stand_in_gpus else "amd" if "AMD" in (node.gpu_model or "") else "nvidia"
    )
    inside = Inside(image=image, folders=folders, gpus=maker, workdir=workdir, variables=variables)
    return RUNTIMES[site.container.runtime](site.container, inside)
