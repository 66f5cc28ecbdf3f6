"""The states of jobs that hpclaunch has no run of: squeue, then sacct."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from hpclaunch.core.run_states import FINAL
from hpclaunch.schedulers.slurm.arrays import ids_in
from hpclaunch.schedulers.slurm.programs import Answer, ask

_STATE = re.compile("[A-Z_]+")


def job_states(numbers: Sequence[str]) -> dict[str, str]:
    """Return job -> its state; empty if neither squeue nor sacct knows the job. Of an array: that of its tasks.

    Nothing is returned if squeue does not answer.
    """
    jobs = ",".join(numbers)
    queue = ask(["squeue", "--noheader", "--array", "--states=all", "--format=%i|%T", f"--jobs={jobs}"])
    if not queue.ok and "Invalid job id" not in queue.messages:
        return {}
    found = _states_in(queue, numbers)
    missing = [number for number in numbers if number not in found]
    if not missing:
        return found
    fields = "JobID,State"
    options = ["--noheader", "--parsable2", "--allocations", f"--format={fields}", "--starttime=now-365days"]
    past = ask(["sacct", *options, f"--jobs={','.join(missing)}"])
    return {**found, **dict.fromkeys(missing, ""), **_states_in(past, missing)}


def _states_in(answer: Answer, numbers: Sequence[str]) -> dict[str, str]:
    """Return job -> the state of its tasks that is the least final, then one that is not COMPLETED."""
    states: dict[str, list[str]] = defaultdict(list)
    for line in answer.text.split("\n"):
        named, state = [*line.split("|"), ""][:2]
        word = state.split(" ")[0].rstrip("+")
        if not _STATE.fullmatch(word):
            continue
        for number in dict.fromkeys([named.partition("_")[0].partition("+")[0], *ids_in(named)]):
            if number in numbers:
                states[number].append(word)
    return {number: min(several, key=_order) for number, several in states.items()}


def _order(state: str) -> tuple[bool, bool]:
    return (state in FINAL, state == "COMPLETED")
