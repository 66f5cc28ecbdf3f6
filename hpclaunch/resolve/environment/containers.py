"""The container of a rank: what it needs, and whether the site's runtime can give it under the chosen launcher."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath

from hpclaunch.config.environment_recipes import NVIDIA, maker_of_gpus
from hpclaunch.config.site import NodeType, Site
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.runtime_rows import RUNTIMES, ContainerCommand, ContainerRequest
from hpclaunch.launchers import LAUNCHERS
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.environment.folders import expanded, has_variables, variables_in

_TASK_LAUNCHER = next(name for name, row in LAUNCHERS.items() if row.ranks_are_tasks)


def container_request(
    image: str, folders: tuple[str, ...], node: NodeType, workdir: str = "", variables: tuple[str, ...] = ()
) -> ContainerRequest:
    """Return what a rank needs of its container; it sees the ``workdir`` as well as the ``folders``.

    The caller adds the run directory and the values of variables, which a program that is no rank does not have.
    """
    seen = tuple(dict.fromkeys([*folders, *([workdir] if workdir else [])]))
    maker = maker_of_gpus(node)
    gpus = NVIDIA if maker is None else maker  # where none is known, --nv adds nothing and says so
    return ContainerRequest(image=image, folders=seen, gpus=gpus, workdir=workdir, variables=variables)


def check_image(case: Case, image: str | None, decisions: Decisions) -> None:
    """Refuse an image whose path is not known, or from whose folder the site runs none."""
    container, where = case.site.container, "environment.container"
    if image is None or container is None:
        return
    load = f"module load {' '.join(container.load)}; " if container.load else ""
    if unset := variables_in(image):
        what = f"the image {image!r} contains ${unset[0]}, which is not set in this shell"
        decisions.fault(what, where=where, next=f"{load}or name the image without it")
        return
    is_made_here = case.made is not None and image == case.made.container  # `environment make` has put it there
    if container.image_folder is None or is_made_here:
        return
    folder = expanded(container.image_folder, case.context)
    told = f"{case.site.name} runs images from {container.image_folder} alone"
    if not image.startswith("/"):
        make = f"hpclaunch environment make NAME --framework FRAMEWORK --image {shell_word(image)}"
        decisions.fault(f"{told}, and {image!r} is no file", where=where, next=f"{make}, then --environment NAME")
    elif has_variables(folder):
        decisions.warnings.append(f"{told}; it is not set in this shell, so {image} was not looked for there")
    elif not image.startswith(f"{folder.rstrip('/')}/"):
        copied = f"{container.image_folder}/{PurePosixPath(image).name}"
        command = f"{load}{container.register} {shell_word(image)}"
        decisions.fault(f"{told}, and {image} is elsewhere", where=where, next=f"{command}; then 'container: {copied}'")


def container_of(site: Site, launcher: str, asked: ContainerRequest | None, decisions: Decisions) -> ContainerCommand:
    """Return what the container adds to the script; nothing where no image is requested."""
    if asked is None:
        return ContainerCommand()
    if site.container is None:
        decisions.fault(
            f"the container runtime of {site.name} is not known",
            where="environment.container",
            next="write 'container: {runtime: …}' in a site file of your own (hpclaunch docs site-files)",
        )
        return ContainerCommand()
    container, row = site.container, RUNTIMES[site.container.runtime]
    in_image = LAUNCHERS[launcher].is_in_image
    starter = LAUNCHERS[launcher].started_by.get(site.scheduler, launcher) if in_image else launcher
    if row.step_option and not LAUNCHERS[starter].ranks_are_tasks:
        decisions.fault(
            f"at {site.name} containers are an option of {_TASK_LAUNCHER}, but the launcher is {launcher}",
            next=f"--launcher {_TASK_LAUNCHER}",
        )
    if in_image and row.no_rendezvous:
        decisions.fault(
            f"{launcher} cannot start in containers of {container.runtime}: {row.no_rendezvous}",
            next=f"--launcher {_TASK_LAUNCHER}, which starts every rank in a container, with the same variables",
        )
    for folder in asked.folders if row.splits_paths else ():
        if "," in folder or ":" in folder:
            decisions.fault(
                f"{container.runtime} would split {folder!r} at a comma or a colon",
                next="choose another folder with --runs-dir or --data-dir",
            )
    if asked.image.startswith("-"):
        decisions.fault(f"the image {asked.image!r} would be read as an option", where="environment.container")
    return row.command(
        replace(
            asked,
            runtime=container.runtime,
            modules=container.modules,
            options=container.options,
            annotations=tuple(container.annotations.items()),
        )
    )
