"""Makes a request of a batch script (``submit --from-script``), below what is typed; nothing of it is executed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hpclaunch.actions.system import System
from hpclaunch.config.batch_taking import is_run_name, take
from hpclaunch.config.job import read_script
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.spec import Request

_MERGED = ("sbatch", "variables", "setup")
"""Fields in which the typed values follow those of the script; in all others they replace them."""


def request_from_script(system: System, typed: Request, script: str) -> Request:
    """Return the typed request with what a batch script asks for, where nothing else is typed.

    Each directive and line is told, with what became of it. Raises Refused with all that cannot be taken.
    """
    path = system.cwd / script
    try:
        text = read_script(path).decode("utf-8", "replace")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Refused(Fault(where=script, what=f"the batch script cannot be read: {reason}")) from None
    fields = frozenset(name for name, value in vars(typed).items() if value is not None and name not in _MERGED)
    found = take(text, script, fields, typed.arguments)
    system.tell(f"from {script}:")
    for there, became in found.shown:
        system.tell(f"  {there:<34} {became}")
    for remark in found.remarks:
        system.warn(remark)
    if found.gpu_type:
        system.warn(f"{script} asks for GPUs of the type {found.gpu_type}; a run gets those of its --node-type")
    if found.faults:
        raise Refused([fault for _, fault in found.faults])
    values: dict[str, Any] = {name: value for name, value in found.values.items() if name not in fields}
    values |= {name: found.values[name] for name in ("target", "arguments", "is_command")}
    values |= {name: (*found.values.get(name, ()), *getattr(typed, name)) for name in _MERGED}
    values.setdefault("name", typed.name or (path.stem if is_run_name(path.stem) else None))
    return replace(typed, **values)
