"""``runs repair``: a person changes the recorded end of a run, with a reason; nothing else ever does."""

from __future__ import annotations

import os
from dataclasses import replace

from hpclaunch import runs
from hpclaunch.actions.following.identity import other_users
from hpclaunch.actions.following.states import is_lost, unsubmitted_fault
from hpclaunch.core.errors import Fault, InvalidRequest, Refused, unwritable
from hpclaunch.core.folders import state_folder
from hpclaunch.core.run_states import OF_SCHEDULER
from hpclaunch.core.units import CONTROL
from hpclaunch.core.users import user_name
from hpclaunch.runs import Run

STATES = tuple(sorted(OF_SCHEDULER))
"""The states that a repaired run may have; the others say that no job was queued, or that nobody knows the state."""
_LONGEST_REASON = 500


def wanted_state(text: str) -> str:
    """Return the state that is typed, in capitals. Raises InvalidRequest for one that a run cannot be given."""
    state = text.strip().upper()
    if state not in STATES:
        what = f"a run cannot be given the state {text[:40]!r}"
        raise InvalidRequest(Fault(where="--state", what=what, allowed=", ".join(STATES)))
    return state


def wanted_reason(text: str) -> str:
    """Return the reason that is typed. Raises InvalidRequest if there is none, or if it is no single line of text."""
    reason = text.strip()
    allowed = f"one line of at most {_LONGEST_REASON} characters"
    if not reason:
        raise InvalidRequest(
            Fault(where="--reason", what="is empty", allowed=allowed, next="say why the record is wrong")
        )
    if len(reason) > _LONGEST_REASON or CONTROL.search(reason):
        raise InvalidRequest(Fault(where="--reason", what="is too long, or has a control character", allowed=allowed))
    return reason


def repair(run: Run, state: str, reason: str) -> Run:
    """Record another end of an ended run, with who said so, when, why, and what the record said before.

    No scheduler is asked, and none changes the record afterwards. Raises Refused for a run that has not ended or that
    cannot have this end, and if the record cannot be written.
    """
    fault = _refusal(run, state)
    if fault:
        raise Refused(fault)
    now, before = runs.utc_now(), f"{run.state} {run.exit_code}".strip()
    words = f"{reason} (repaired by {user_name()}, uid {os.getuid()}, on {now}; it was {before})"
    code = run.exit_code
    if state == "COMPLETED":
        code = "0:0"
    elif code == "0:0":
        code = ""  # that of a success would contradict the new end
    runs.drop_ended(state_folder(os.environ), run.home)
    try:
        changed = _change_task(run, state, code, words) if run.index >= 0 else _change_run(run, state, code, words, now)
    except OSError as error:
        raise unwritable(run.home, error) from None
    if changed is None:
        what = f"{run.label} was changed by another process at this moment"
        raise Refused(Fault(what=what, next=f"hpclaunch status {run.label}"))
    return changed


def _change_run(run: Run, state: str, code: str, words: str, now: str) -> Run | None:
    return runs.claim(run, state=state, exit_code=code, reason=words, repaired=now)


def _change_task(task: Run, state: str, code: str, words: str) -> Run | None:
    """Change the end of one run of an array. The array's history keeps it, as states.json has only the last state."""
    array = runs.whole_of(task)
    runs.add_note(array, task=task.path.name, repaired=f"{state}: {words}")
    changed = replace(task, state=state, exit_code=code, reason=words)
    runs.record_tasks(array, {task.index: changed}, any_state=True)
    now = runs.task_of(runs.load(array.path), task.index)
    return now if now.state == state else None


def _refusal(run: Run, state: str) -> Fault | None:
    """Return why the run cannot be given this end, and what to do instead; None if it can."""
    theirs = other_users(run)
    if theirs:
        return theirs
    if run.tasks:
        what = f"{run.label} is a job array, whose state follows from those of its runs"
        return Fault(what=what, next=f"name one of them: hpclaunch status {run.label} --all")
    return _end_fault(run, state) if run.final else _unended_fault(run)


def _end_fault(run: Run, state: str) -> Fault | None:
    if run.state == state:
        return Fault(what=f"{run.label} is {state} already", next=f"hpclaunch runs show {run.label}")
    if not run.job_id:
        what = f"{run.label} cannot be {state}: it was never queued"
        return Fault(what=what, next=f"to start it: hpclaunch retry {run.label}")
    if state == "COMPLETED" and not run.attempts():
        what = f"{run.label} cannot be COMPLETED: no start of its script has left a mark in its directory"
        return Fault(what=what, next=f"hpclaunch logs {run.label}; to run it: hpclaunch retry {run.label}")
    return None


def _unended_fault(run: Run) -> Fault:
    what = f"{run.label} has not ended: it is {run.state}"
    if is_lost(run):
        return Fault(what=what, next=f"if its state cannot be known: hpclaunch runs forget {run.label}")
    if run.state in ("RENDERED", "INCOMPLETE", "SUBMITTING"):
        return unsubmitted_fault(run)
    return Fault(what=what, next=f"hpclaunch wait {run.label}, or hpclaunch cancel {run.label}")
