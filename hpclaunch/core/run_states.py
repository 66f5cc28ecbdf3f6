"""The states of a run, each once: those that may change, the ends, and whether a new start can help after each end."""

from __future__ import annotations

from typing import NamedTuple

ACTIVE = ("RUNNING", "COMPLETING", "CONFIGURING", "PENDING", "SUBMITTING")
"""States of runs that have, or soon get, a job; the most active first."""
NEVER_QUEUED = ("RENDERED", "INCOMPLETE")
"""States of runs that were never submitted, and so will never end."""


class End(NamedTuple):
    """A state that does not change any more by itself.

    ``words``: why the run ended. ``again``: a new start can help (None: its exit code and its log tell). ``blames``: it
    is a fault of a node. ``own``: hpclaunch alone records it; no scheduler knows such a state.
    """

    words: str
    again: bool | None = False
    blames: bool = False
    own: bool = False


ENDS = {
    "COMPLETED": End("it completed"),
    "FAILED": End("it failed", again=None),
    "TIMEOUT": End("it reached its walltime"),
    "CANCELLED": End("it was cancelled"),
    "PREEMPTED": End("it was preempted", again=True),
    "NODE_FAIL": End("a node failed", again=True, blames=True),
    "OUT_OF_MEMORY": End("it ran out of memory"),
    "BOOT_FAIL": End("a node did not boot", again=True, blames=True),
    "DEADLINE": End("it reached its deadline"),
    "NOT_SUBMITTED": End("it was never queued", again=True, own=True),
    "FORGOTTEN": End("it was closed with hpclaunch runs forget", own=True),
}
"""The library of a script (``may_follow`` in templates/library/run.sh) has those of the scheduler:
``python tools/generated.py --write``."""
FINAL = frozenset(ENDS)
OF_SCHEDULER = frozenset(state for state, end in ENDS.items() if not end.own)
