"""The container of a rank: what it needs, and whether the site's runtime can give it under the chosen launcher."""

from __future__ import annotations

from dataclasses import replace

from hpclaunch.config.environment_recipes import NVIDIA, maker_of_gpus
from hpclaunch.config.site import NodeType, Site
from hpclaunch.core.runtime_rows import RUNTIMES, ContainerCommand, ContainerRequest
from hpclaunch.launchers import LAUNCHERS
from hpclaunch.resolve.decisions import Decisions

_TASK_LAUNCHER = next(name for name, row in LAUNCHERS.items() if row.ranks_are_tasks)


def container_request(
    image: str, folders: tuple[str, ...], node: NodeType, workdir: str = "", variables: tuple[str, ...] = ()
) -> ContainerRequest:
    """Return what a rank needs of its container; it sees the ``workdir`` as well as the ``folders``."""
    seen = tuple(dict.fromkeys([*folders, *([workdir] if workdir else [])]))
    maker = maker_of_gpus(node)
    gpus = NVIDIA if maker is None else maker  # where none is known, --nv adds nothing and says so
    return ContainerRequest(image=image, folders=seen, gpus=gpus, workdir=workdir, variables=variables)


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
    if row.step_option and not LAUNCHERS[launcher].ranks_are_tasks:
        decisions.fault(
            f"at {site.name} containers are an option of {_TASK_LAUNCHER}, but the launcher is {launcher}",
            next=f"--launcher {_TASK_LAUNCHER}",
        )
    if LAUNCHERS[launcher].usual_framework:  # it comes with that framework, which is in the image
        decisions.warnings.append(
            f"{launcher} starts outside the container, so {site.name} must have one of its own; "
            f"--launcher {_TASK_LAUNCHER} starts every rank inside, with the same variables"
        )
    for folder in asked.folders if row.splits_paths else ():
        if "," in folder or ":" in folder:
            decisions.fault(
                f"{container.runtime} would split {folder!r} at a comma or a colon",
                next="choose another folder with --runs-dir or --data-dir",
            )
    if asked.image.startswith("-"):
        decisions.fault(f"the image {asked.image!r} would be read as an option", where="environment.container")
    return row.command(replace(asked, runtime=container.runtime, modules=container.modules, options=container.options))
