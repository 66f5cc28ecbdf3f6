"""Whether an ended run may be started again, and without which nodes. Pure; it starts nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hpclaunch.core.records import record

_NODE_FAULTS = {
    "NODE_FAIL": "a node failed",
    "BOOT_FAIL": "a node did not boot",
}
_PREEMPTED = {"PREEMPTED": "it was preempted"}
_NO_RETRY = {
    "COMPLETED": "it completed",
    "CANCELLED": "it was cancelled",
    "TIMEOUT": "it reached its walltime",
    "DEADLINE": "it reached its deadline",
    "OUT_OF_MEMORY": "it ran out of memory",
}
_CONFIGURATION = 78
"""The script's exit code where something that it needs is missing (EX_CONFIG of sysexits.h)."""
_KILLED_BY_SRUN = ("137", "143")
"""Exit codes of ranks that srun ended with SIGTERM or SIGKILL because it could not launch the others."""
_NODE = r"(?P<node>[A-Za-z0-9][A-Za-z0-9._-]*)"
_TEMPORARY_CAUSE = (
    r"(Communication connection failure|Socket timed out|Job credential (expired|revoked|replayed)"
    r"|Unable to contact|I/O error|Connection (refused|timed out|reset))"
)
_LAUNCHER_FAILURES = tuple(
    re.compile(form)
    for form in (
        rf"srun: error: Task launch for StepId=\S+ failed on node {_NODE}: {_TEMPORARY_CAUSE}",
        # No cause given: slurmstepd could not set up the step, for example because an earlier start left its sockets.
        r"srun: error: tasks? [\d,-]+ launch failed: Unspecified error",
        r"srun: error: Unable to (create|confirm|start) .*: (Socket timed out|Unable to contact|Zero Bytes)",
        r"srun: error: Unable to allocate resources: (Socket timed out|Unable to contact|Zero Bytes)",
    )
)
"""Lines of a log after which a new start can help: srun failed before any step began (Slurm's src/srun)."""


@record
class Ending:
    """How a run ended.

    - ``exit_code``: CODE:SIGNAL. ``log``: the end of the log.
    - ``ranks_failed``: whether a rank of the last start left an exit code.
    - ``nodes``: 1 if the last start had one node, whose name is ``only_node``; else 0.
    - ``unwell``: the nodes that the scheduler reports as broken.
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
    """Whether to start a run again, why, and the nodes to exclude."""

    again: bool
    reason: str
    exclude: tuple[str, ...] = ()


def decide(ending: Ending) -> RetryDecision:
    """Return whether a new start can help: after a fault of the machine, never after a fault of the program.

    A node is excluded if the scheduler reports it as broken, if the log names it, or if it was the only node of a run
    that a node failure ended.
    """
    state = ending.state
    if state in _NODE_FAULTS:
        blamed = tuple(ending.unwell) or ((ending.only_node,) if ending.nodes == 1 and ending.only_node else ())
        return RetryDecision(again=True, reason=_NODE_FAULTS[state], exclude=blamed)
    if state in _PREEMPTED:
        return RetryDecision(again=True, reason=_PREEMPTED[state])
    if state == "NOT_SUBMITTED":
        return RetryDecision(again=True, reason="it was never queued")
    if state == "FAILED":
        return _decide_on_failure(ending)
    if state in _NO_RETRY:
        return RetryDecision(again=False, reason=_NO_RETRY[state])
    return RetryDecision(again=False, reason=f"it has not ended: its state is {state}")


def _decide_on_failure(ending: Ending) -> RetryDecision:
    code = ending.exit_code.partition(":")[0]
    reason = f"it failed with exit code {code or 'unknown'}, and no fault of the machine is known"
    own = RetryDecision(again=False, reason=reason)
    if (ending.ranks_failed and code not in _KILLED_BY_SRUN) or code == str(_CONFIGURATION):
        return own
    for form in _LAUNCHER_FAILURES:
        if found := form.search(ending.log):
            node = found.groupdict().get("node")
            blamed = tuple(dict.fromkeys([*ending.unwell, *([node] if node else [])]))
            return RetryDecision(again=True, reason=f"its launcher failed: {found[0]}", exclude=blamed)
    return own


def merged(excluded: str, more: Sequence[str]) -> str:
    """Return a value for sbatch's --exclude: the nodes excluded before (Slurm's notation) and ``more``."""
    return ",".join(dict.fromkeys([*([excluded] if excluded else []), *(name for name in more if name)]))
