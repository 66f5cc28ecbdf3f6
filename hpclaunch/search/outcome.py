"""How a trial ended, from its exit code and its value; pure."""

from __future__ import annotations

import signal

from hpclaunch.core.records import record
from hpclaunch.runs.retry_policy import Ending, decide
from hpclaunch.search.events import COMPLETED, FAILED, INTERRUPTED, MACHINE, PRUNED

_SAVED = 75
"""The exit code of a program that has saved its state and asks to be continued (docs/contract.md)."""
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM)
"""Signals that no program gets by an error of its own: the kernel sends SIGKILL when a node's memory is full, and the
scheduler or an administrator both."""


@record
class TrialOutcome:
    """The end of a start of a trial: its state, its exit code as a shell has it, and why it did not complete."""

    state: str
    exit_code: int = 0
    reason: str = ""


def outcome_of(code: int, missing: str, asked: str, log: str = "") -> TrialOutcome:
    """Return how a start ended.

    ``code``: the exit code of its shell, negative for a signal. ``missing``: the metric that it should have reported
    and has not (empty: nothing is missing). ``asked``: why the worker has asked it to end (PRUNED or INTERRUPTED;
    empty: it has not). ``log``: the end of its log. A trial whose program failed is not tried again; it
    is if a signal from outside ended it, or if its launcher failed (`runs.retry_policy`).
    """
    code = 128 - code if code < 0 else code
    if code == 0 and asked != PRUNED:
        if missing:
            what = f"it ended with 0, and its metrics.jsonl has no number named {missing!r}"
            return TrialOutcome(state=FAILED, reason=what)
        return TrialOutcome(state=COMPLETED)
    if asked:
        return TrialOutcome(state=asked, exit_code=code)
    if code == _SAVED:
        return TrialOutcome(state=INTERRUPTED, exit_code=code, reason="it has saved its state")
    number = code - 128
    if number in _FROM_OUTSIDE:
        return TrialOutcome(state=MACHINE, exit_code=code, reason=f"signal {number} from outside ended it")
    decision = decide(Ending(state="FAILED", exit_code=f"{code}:0", log=log))
    return TrialOutcome(state=MACHINE if decision.again else FAILED, exit_code=code, reason=decision.reason)
