"""Remarks on a site's values that stay true, and are shown at the first submission from a folder only."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from hpclaunch.actions.system import System
from hpclaunch.core.folders import state_folder

if TYPE_CHECKING:
    from hpclaunch.actions.preparing.submit import Prepared

_MOST_BYTES = 2**20
"""What is read of the list; whoever has more sees a remark twice."""


def remarks_to_show(system: System, prepared: Prepared) -> tuple[str, ...]:
    """Return the remarks that no submission from this folder to this site has shown.

    With ``--accept-unverified`` they are all, as each submission then relies on a guess.
    """
    if prepared.case.request.accept_unverified:
        return prepared.spec.unverified
    shown = _read_list(system)
    remarks = prepared.spec.unverified
    return tuple(remark for remark in remarks if _key_of(system, prepared, remark) not in shown)


def remember_shown(system: System, prepared: Prepared) -> None:
    """List the remarks as shown. If that fails, they are shown again, which is no error."""
    shown = _read_list(system)
    keys = [_key_of(system, prepared, remark) for remark in prepared.spec.unverified]
    new = "".join(f"{key}\n" for key in keys if key not in shown)
    if not new:
        return
    try:
        _list_of(system).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _list_of(system).open("ab") as file:
            file.write(new.encode())
    except OSError:
        return


def _read_list(system: System) -> set[str]:
    try:
        with _list_of(system).open("rb") as file:
            return set(file.read(_MOST_BYTES).decode("ascii", errors="replace").split())
    except OSError:
        return set()


def _list_of(system: System) -> Path:
    return state_folder(system.environment) / "shown-remarks"


def _key_of(system: System, prepared: Prepared, remark: str) -> str:
    text = f"{system.cwd}\0{prepared.spec.site}\0{remark}"
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]
