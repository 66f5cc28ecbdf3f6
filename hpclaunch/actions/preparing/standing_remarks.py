"""Remarks that stay true from one submission of a folder to the next, and are shown at its first one only."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from hpclaunch.actions.system import System
from hpclaunch.core.folders import state_folder

_MOST_BYTES = 2**20
"""What is read of the list; whoever has more sees a remark twice."""


def not_shown_yet(system: System, remarks: Iterable[str]) -> list[str]:
    """Return the remarks that no submission of this folder has shown."""
    try:
        with _list_of(system).open("rb") as file:
            shown = set(file.read(_MOST_BYTES).decode("ascii", errors="replace").split())
    except OSError:
        shown = set()
    return [remark for remark in remarks if _key_of(system, remark) not in shown]


def remember_shown(system: System, remarks: Iterable[str]) -> None:
    """List the remarks as shown. If that fails, they are shown again, which is no error."""
    keys = "".join(_key_of(system, remark) + "\n" for remark in remarks)
    if not keys:
        return
    try:
        _list_of(system).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _list_of(system).open("ab") as file:
            file.write(keys.encode())
    except OSError:
        return


def _list_of(system: System) -> Path:
    return state_folder(system.environment) / "shown-remarks"


def _key_of(system: System, remark: str) -> str:
    return hashlib.sha256(f"{system.cwd}\0{remark}".encode("utf-8", "surrogateescape")).hexdigest()[:32]
