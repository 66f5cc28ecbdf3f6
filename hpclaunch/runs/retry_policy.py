"""Pure: whether a run that ended may be started again, and without which nodes; it starts nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hpclaunch.core.records import record

_MACHINES_FAULT = {
    "NODE_FAIL": "a node failed",
    "BOOT_FAIL": "a node did not come up",
}
_OTHERS_TURN = {"PREEMPTED": "it made room for another job"}
_OWN_FAULT = {
    "COMPLETED": "it completed",
    "CANCELLED": "it was cancelled",
    "TIMEOUT": "its walltime was over",
    "DEADLINE": "its deadline was over",
    "OUT_OF_MEMORY": "it needed more memory than it had",
}
_CONFIGURATION = 78
"""The script's word for: something that it needs is not there (sysexits.h)."""
_ENDED_WITH_THE_REST = ("137", "143")
"""Exit codes of ranks that had begun where others could not be launched: srun sends them SIGTERM and SIGKILL."""
_NODE = r"(?P<node>[A-Za-z0-9][A-Za-z0-9._-]*)"
_PASSING = (
    r"(Communication connection failure|Socket timed out|Job credential (expired|revoked|replayed)"
    r"|Unable to contact|I/O error|Connection (refused|timed out|reset))"
)
_TRANSIENT = tuple(
    re.compile(form)
    for form in (
        rf"srun: error: Task launch for StepId=\S+ failed on node {_NODE}: {_PASSING}",
        # Without a cause: slurmstepd could not set the step up, as on a node where a lost start left its sockets.
        r"srun: error: tasks? [\d,-]+ launch failed: Unspecified error",
        r"srun: error: Unable to (create|confirm|start) .*: (Socket timed out|Unable to contact|Zero Bytes)",
        r"srun: error: Unable to allocate resources: (Socket timed out|Unable to contact|Zero Bytes)",
    )
)
"""What a log says where srun, not the program, failed, for a cause that passes: no step began (Slurm, src/srun)."""


@record
class Ending:
    """How a run ended. ``exit_code`` as CODE:SIGNAL; ``log`` the end of its log.

    ``ranks_failed``: a rank of its last start left an exit code. ``nodes`` are all of that start, ``unwell`` those that
    the scheduler calls broken.
    """

    state: str
    exit_code: str = ""
    log: str = ""
    ranks_failed: bool = False
    nodes: int = 0
    only_node: str = ""
    unwell: Sequence[str] = ()


@record
class RetryDecision:
    """Whether to start a run again, why, and the nodes to leave out."""

    again: bool
    reason: str
    exclude: tuple[str, ...] = ()


def decide(ending: Ending) -> RetryDecision:
    """Return whether a new start can help: after a fault of the machine, never after the program's own.

    A node is left out where the scheduler calls it broken, where the log names it, or where it was the only one of a
    run that a fault of a node ended.
    """
    state = ending.state
    if state in _MACHINES_FAULT:
        blamed = tuple(ending.unwell) or ((ending.only_node,) if ending.nodes == 1 and ending.only_node else ())
        return RetryDecision(again=True, reason=_MACHINES_FAULT[state], exclude=blamed)
    if state in _OTHERS_TURN:
        return RetryDecision(again=True, reason=_OTHERS_TURN[state])
    if state == "NOT_SUBMITTED":
        return RetryDecision(again=True, reason="it was never queued")
    if state == "FAILED":
        return _decide_on_failure(ending)
    if state in _OWN_FAULT:
        return RetryDecision(again=False, reason=_OWN_FAULT[state])
    return RetryDecision(again=False, reason=f"it has not ended: its state is {state}")


def _decide_on_failure(ending: Ending) -> RetryDecision:
    code = ending.exit_code.partition(":")[0]
    own = RetryDecision(again=False, reason=f"it failed by itself, with exit code {code or 'unknown'}")
    if (ending.ranks_failed and code not in _ENDED_WITH_THE_REST) or code == str(_CONFIGURATION):
        return own
    for form in _TRANSIENT:
        if found := form.search(ending.log):
            node = found.groupdict().get("node")
            blamed = tuple(dict.fromkeys([*ending.unwell, *([node] if node else [])]))
            return RetryDecision(again=True, reason=f"its launcher failed: {found[0]}", exclude=blamed)
    return own


def merged(excluded: str, more: Sequence[str]) -> str:
    """Return a value for sbatch's --exclude: what was left out before (a list of Slurm's), and more nodes."""
    return ",".join(dict.fromkeys([*([excluded] if excluded else []), *(name for name in more if name)]))
