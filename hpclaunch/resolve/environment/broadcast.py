"""Whether a job copies its environment, or its container's image, and its code to each of its nodes, and where to."""

from __future__ import annotations

import re
import shlex

from hpclaunch.config.site import NodeCopies
from hpclaunch.core.runtime_rows import RUNTIMES
from hpclaunch.core.spec import Layout
from hpclaunch.core.spec_parts import CONDA_PREFIX, Broadcast
from hpclaunch.launchers import LAUNCHERS
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.environment.folders import expanded
from hpclaunch.resolve.environment.software import Software

_PLAIN_FOLDER = r"(/[A-Za-z0-9_.-]+)+"
_OF_EACH_NODE = ("/", "/usr", "/usr/local")
"""Folders that every node has itself: a Python there is no environment."""


def broadcast_of(
    case: Case, layout: Layout, software: Software, launcher: str, decisions: Decisions
) -> Broadcast | None:
    """Return what the job copies to its nodes; None if nothing.

    A large job copies where the site has a folder for that. If it was typed, whatever prevents it becomes a fault.
    """
    if case.context.allocation or case.interactive:  # the end of an allocation may leave no time to remove the copies
        return None
    typed, copies = case.request.broadcast, case.site.broadcast
    is_large = copies is not None and layout.nodes >= copies.from_nodes
    if typed is False or not (typed or is_large) or not case.site.scheduler_row.has_queue:
        return None
    if copies is None:
        _refuse_without_folder(case, decisions)
        return None
    source, reason = _source_of(case, software)
    if software.image and LAUNCHERS[launcher].is_in_image:
        reason = f"{launcher} starts in the image itself, before a rank could take a copy"
    if layout.further:
        reason = "the step that unpacks a broadcast reaches the nodes of one type alone"
    if reason:
        if typed:
            decisions.fault(reason, where="--broadcast", next="leave --broadcast out")
        return None
    if not source and typed:
        what = "only the code is broadcast: the Python of this run comes from a module or from the system"
        decisions.warnings.append(what)
    folder = _folder_of(case, copies, decisions)
    origin = "--broadcast" if typed else f"site {case.site.name}, from {copies.from_nodes} nodes"
    decisions.pick("broadcast", (origin, folder))
    return Broadcast(source=source, folder=folder, required=bool(typed))


def _refuse_without_folder(case: Case, decisions: Decisions) -> None:
    what, next_step = f"nothing can be copied to nodes at {case.site.name}", "leave --broadcast out"
    if case.site.scheduler_row.broadcasts:
        what = f"the folder of {case.site.name} for copies on the nodes is not known"
        next_step = "write 'broadcast: {to: /dev/shm}' in a site file of your own (hpclaunch docs site-files)"
    decisions.fault(what, where="--broadcast", next=next_step)


def _folder_of(case: Case, copies: NodeCopies, decisions: Decisions) -> str:
    """Return the site's folder; one that a script could not use as it is becomes a fault."""
    folder = expanded(copies.to, case.context)
    if not re.fullmatch(_PLAIN_FOLDER, folder) or ".." in folder.split("/"):
        decisions.fault(
            f"{folder!r} cannot be the folder for copies on the nodes",
            where="broadcast.to in the site file",
            allowed="an absolute path of letters, digits, '_', '.' and '-', without '..'",
            next="--no-broadcast runs without it",
        )
    return folder


def _source_of(case: Case, software: Software) -> tuple[str, str]:
    """Return (the environment's folder or the image's file, why nothing can be copied); an empty text means none."""
    if software.image:
        container = case.site.container
        runtime = container.runtime if container else ""
        if container and container.image_folder:
            return "", f"{case.site.name} runs images from {container.image_folder} alone"
        if not runtime or not RUNTIMES[runtime].runs_files:
            return "", f"{runtime or 'the container runtime'} brings the image to the nodes itself"
        is_file = software.image.startswith("/")
        return (software.image, "") if is_file else ("", f"the image {software.image} is not a file")
    folder = "" if software.folder in _OF_EACH_NODE else software.folder
    has_code = not case.job.in_place
    return folder, "" if folder or has_code else "this run has neither code of its own nor an environment to copy"


def call_of(broadcast: Broadcast) -> str:
    """Return the call of the script's library that makes the copies."""
    words = ["broadcast", "required" if broadcast.required else "optional", shlex.quote(broadcast.folder)]
    source = broadcast.source
    if source == CONDA_PREFIX:
        words.append(f'"{source}"')  # a variable, which only the job knows
    elif source:
        words.append(shlex.quote(source))
    return " ".join(words)
