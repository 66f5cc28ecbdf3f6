"""What ``scontrol show node`` says about the health of nodes; pure.

``sinfo --states=`` accepts other states in each version (22.05 and 24.11 refuse "failing"), and one unknown state is an
error. So no state is named in a question: this table reads those that Slurm prints, of 20.11 to 24.11.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable

from hpclaunch.sites.slurm_text import Fields, records

_NODE = re.compile("[A-Za-z0-9][A-Za-z0-9._-]*")
_FLAGS = "*~#!%$@^-+"
"""Signs that Slurm appends to a state, such as * for a node that does not respond (scontrol's manual)."""
_TROUBLES = {
    "DOWN": "down",
    "DRAIN": "drained",
    "DRAINED": "drained",
    "DRAINING": "drained",
    "ERROR": "in error",
    "FAIL": "failing",
    "FAILING": "failing",
    "INVAL": "registered with an invalid configuration",
    "INVALID_REG": "registered with an invalid configuration",
    "NOT_RESPONDING": "not responding",
    "NO_RESPOND": "not responding",
    "REBOOT_ISSUED": "rebooting",
    "UNKNOWN": "in an unknown state",
}
"""State of a node, or one of its flags -> the words for it."""
_SWITCHED = frozenset({"POWER_DOWN", "POWER_UP", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP"})
"""Flags of a node that Slurm itself switches off or on (slurm.schedmd.com/power_save.html): it answers nothing then."""
_OFF = ("not responding", "in an unknown state")


def troubles(answer: str, since: float | None = None) -> dict[str, str]:
    """Return node -> why a run should avoid it, from ``scontrol --oneliner show node``.

    The text is empty for a node of a cloud (CLOUD): its name gets a new machine, so no failure is held against it.
    ``since`` (seconds of the epoch): a node that booted, or whose slurmd started, after that was down in between. If
    all of several nodes were, that was maintenance and blames none.
    """
    found: dict[str, str] = {}
    restarted: dict[str, str] = {}
    nodes = 0
    for fields in records(answer, "NodeName"):
        node = fields["NodeName"]
        if not _NODE.fullmatch(node):
            continue
        nodes += 1
        flags = _flags_of(fields.get("State", ""))
        words = _words(fields.get("State", ""))
        if "CLOUD" in flags:
            found[node] = ""
        elif words:
            found[node] = f"Slurm reports it as {' and '.join(words)}"
        elif since is not None and _is_after(fields, since) and not flags & _SWITCHED:
            restarted[node] = "it was started again during the run"
    return found if nodes > 1 and len(restarted) == nodes else {**found, **restarted}


def _words(state: str) -> Iterable[str]:
    """Return the troubles in a state such as ``DOWN*+DRAIN+NOT_RESPONDING``, each once."""
    parts = state.split("+")
    names = [_TROUBLES[name] for part in parts if (name := part.rstrip(_FLAGS)) in _TROUBLES]
    silent = ["not responding"] if any(part.endswith("*") for part in parts) else []
    is_off = _flags_of(state) & _SWITCHED
    return [words for words in dict.fromkeys([*names, *silent]) if not (is_off and words in _OFF)]


def _flags_of(state: str) -> set[str]:
    return {part.rstrip(_FLAGS) for part in state.split("+")}


def _is_after(fields: Fields, since: float) -> bool:
    return any(_epoch(fields.get(name, "")) > since for name in ("BootTime", "SlurmdStartTime"))


def _epoch(text: str) -> float:
    """Return a time of Slurm (local, without a zone) in seconds of the epoch; 0 for None and Unknown."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return 0.0
