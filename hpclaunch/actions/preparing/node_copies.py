"""How much a job copies to each of its nodes, as far as this machine can tell, and whether a node has room for it."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from hpclaunch.actions.preparing.submit import Prepared
from hpclaunch.core.errors import Fault
from hpclaunch.core.spec import JobSpec
from hpclaunch.core.spec_parts import CONDA_PREFIX

_IN_MEMORY = "/dev/shm"
_UNPACKING = 9 / 4
"""The archive, what is unpacked from it, and the rest of each file's last page, as a multiple of the archive."""
_OTHER_ENVIRONMENTS = ("pkgs", "envs")
"""Folders of a conda installation that are not part of its base environment."""


def copied(spec: JobSpec) -> list[str]:
    """Return in words what is copied to the nodes: the environment or image, and the code."""
    source = spec.broadcast.source if spec.broadcast and not not_copied(spec) else ""
    return list(filter(None, [source, "" if spec.code.in_place else "the code"]))


def copied_bytes(spec: JobSpec) -> int | None:
    """Return the size of the environment or image that is copied to the nodes; None if there is none, or not here.

    A folder that is no environment is not looked through: it may be a home folder.
    """
    source = spec.broadcast.source if spec.broadcast else ""
    if not source or source == CONDA_PREFIX or not os.path.exists(source) or not_copied(spec):
        return None
    return _bytes_in(source)


@lru_cache(maxsize=4)
def _bytes_in(source: str) -> int:
    """Return the size of a file, or of all files in a folder; links are not followed."""
    if os.path.isfile(source):
        return os.path.getsize(source)
    total, is_conda = 0, os.path.isdir(os.path.join(source, "conda-meta"))
    for place, folders, names in os.walk(source):
        if is_conda and place == source:
            folders[:] = [name for name in folders if name not in _OTHER_ENVIRONMENTS]
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except OSError:  # it has just been removed
                continue
    return total


def too_large(prepared: Prepared) -> list[Fault]:
    """Return why the copies have no room in a node's memory: at most half of it may be for them."""
    spec, size = prepared.spec, copied_bytes(prepared.spec)
    memory = prepared.case.node(spec.node_type).memory_gb
    if spec.broadcast is None or size is None or memory is None or not spec.broadcast.folder.startswith(_IN_MEMORY):
        return []
    if size * _UNPACKING <= memory * 2**30 / 2:
        return []
    what = f"it has {size / 2**30:.1f} GB, and each node needs room for it twice while it is unpacked"
    allowed = f"at most half of a node's memory of {memory} GB"
    return [Fault(where=spec.broadcast.source, what=what, allowed=allowed, next="--no-broadcast")]


def nothing_to_copy(spec: JobSpec) -> list[Fault]:
    """Return why a broadcast that was asked for would stop the job: without code, only an environment could be sent."""
    if not not_copied(spec) or not spec.code.in_place:
        return []
    next_step = "leave --broadcast out, or name an environment with --venv or --conda"
    return [Fault(where="--broadcast", what="there is nothing to copy", next=next_step)]


def not_copied(spec: JobSpec) -> str:
    """Return a notice if the folder to copy is here and is no environment; empty if all is well, or not known."""
    source = spec.broadcast.source if spec.broadcast else ""
    if not os.path.isdir(source) or any(Path(source, name).exists() for name in ("pyvenv.cfg", "conda-meta")):
        return ""
    what = f"{source} has no pyvenv.cfg and no conda-meta, so it is not broadcast"
    return what if spec.code.in_place else f"{what}: only the code is"
