"""An array that is larger than Slurm allows: however its submission ends, no run is lost and none is queued twice."""

from __future__ import annotations

import os
import time
from collections import Counter

import pytest

from hpclaunch import runs
from hpclaunch.actions.following.states import refreshed
from hpclaunch.actions.queueing.array_parts import submit_array
from hpclaunch.actions.queueing.retry import retry
from hpclaunch.core.errors import Interrupted, Refused, SchedulerError, Unanswered
from hpclaunch.core.job_script import read_job_script
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.runs import Run, leases, numbers
from tests.processes.actions.conftest import FakeSlurm
from tests.processes.actions.test_verbs import spec

RUNS = 10
PARTS = [4, 4, 2]
"""Runs of each part where an array may have four tasks."""
# A queue in the file `jobs`: ID|TASKS|the run that task 0 is. What stands in at-N happens at the Nth call of sbatch,
# before and after the job is queued.
SBATCH = """for script; do :; done
number=$(grep -c '^sbatch' calls)
when=before; [ ! -e at-$number ] || . ./at-$number
tasks=$(sed -n 's/^#SBATCH --array=//p' "$script")
echo "$((90 + number))|$tasks|$(sed -n 's/^array_task 4 SLURM_ARRAY_TASK_ID *//p' "$script")" >> jobs
when=after; [ ! -e at-$number ] || . ./at-$number
echo Submitted batch job $((90 + number))
"""
SQUEUE = """[ ! -e squeue.silent ] || { echo 'Unable to contact slurm controller' >&2; exit 1; }
[ ! -e jobs ] || while IFS='|' read -r id tasks offset; do
  case "$*" in
    *'%i|%T|%r|%N|%V|%Z'*) echo "${id}_[$tasks]|PENDING|Priority||$(date +%s)|HOME" ;;
    *'%i|%V|%Z'*) echo "${id}_[$tasks]|$(date +%s)|HOME" ;;
    *) echo "${id}_[$tasks]|PENDING|Priority||HOME" ;;
  esac
done < jobs
"""
SCONTROL = "echo 'ClusterName = lab'; echo 'SlurmctldHost[0] = ctl'; echo 'MaxArraySize = 4'\n"
REFUSED = "[ $when = after ] || { echo 'sbatch: error: Invalid qos specification' >&2; exit 1; }\n"
LOST = "[ $when = before ] || { echo 'sbatch: error: Batch job submission failed: Socket timed out' >&2; exit 1; }\n"
SILENT = f": > squeue.silent\n{LOST}"
INTERRUPTED = "[ $when = WHEN ] || return 0\nkill -INT $(cat process)\nexit 1\n"
ENDS = {
    "refused": (REFUSED, SchedulerError, 0),
    "no answer, and found": (LOST, None, 1),
    "no answer, and the queue is silent": (SILENT, Unanswered, 1),
    "interrupted before it is queued": (INTERRUPTED.replace("WHEN", "before"), Interrupted, 0),
    "interrupted after it is queued": (INTERRUPTED.replace("WHEN", "after"), Interrupted, 1),
}


@pytest.fixture
def array(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> Run:
    """An array that was never queued, on a cluster whose arrays have at most four tasks."""
    sleep = time.sleep
    monkeypatch.setattr("time.sleep", lambda seconds: None if seconds >= 1 else sleep(seconds))
    made = slurm.run("", "NOT_SUBMITTED", tasks=RUNS)
    spec(made, array_index="SLURM_ARRAY_TASK_ID")
    text = f"#!/bin/bash\n#SBATCH --chdir={made.path}\n#SBATCH --array=0-{RUNS - 1}\narray_task 4 SLURM_ARRAY_TASK_ID\n"
    made.script.write_text(text)
    slurm.put("sbatch", SBATCH)
    (slurm.folder / "process").write_text(str(os.getpid()))
    slurm.put("squeue", SQUEUE.replace("HOME", str(made.path)))
    slurm.put("scontrol", SCONTROL)
    return made


def queued(slurm: FakeSlurm) -> Counter[int]:
    """How often each run is in the queue."""
    jobs = slurm.folder / "jobs"
    lines = [line.split("|") for line in jobs.read_text().splitlines()] if jobs.exists() else []
    found = Counter[int]()
    for _, tasks, offset in lines:
        found.update(int(offset or 0) + number for number in numbers(tasks, RUNS))
    return found


def submit(array: Run) -> Run:
    return submit_array(array, read_job_script(array.script.read_text(), scheduler_row(array.scheduler)), range(RUNS))


def process_ended(array: Run) -> None:
    """Let the process of the newest submission have ended, longer ago than any answer of sbatch takes."""
    lease = leases.newest(array.path)
    assert lease is not None
    fields = lease.text.split(" ")
    (lease.folder / str(lease.number)).write_text(" ".join([*fields[:3], "1", "7", *fields[5:]]) + "\n")
    renewed = f"{time.monotonic() - leases.PATIENCE_S - 1:.3f}\n"
    (lease.folder / f"{lease.number}.renewed").write_text(renewed)


@pytest.mark.parametrize("part", [1, 2, 3])
@pytest.mark.parametrize("end", ENDS)
def test_however_a_part_ends_retry_queues_exactly_the_other_runs(
    slurm: FakeSlurm, array: Run, end: str, part: int
) -> None:
    text, kind, adds = ENDS[end]
    (slurm.folder / f"at-{part}").write_text(text)
    there = sum(PARTS[: part - 1])
    if kind is None:
        assert submit(array).job_id == "93"
        assert queued(slurm) == dict.fromkeys(range(RUNS), 1)
        return
    with pytest.raises(kind) as caught:
        submit(array)
    told = [fault.what for fault in caught.value.faults]
    names = ", ".join(str(90 + number) for number in range(1, part))
    words = f"{there} of {RUNS} runs of {array.label} are queued (as {names})"
    assert (words in told) == (part > 1), told
    assert queued(slurm) == dict.fromkeys(range(there + adds * PARTS[part - 1]), 1)
    found = runs.load(array.path)
    assert (found.state, found.job_id) == ("NOT_SUBMITTED" if kind is SchedulerError else "SUBMITTING", "")
    assert found.earlier == tuple(str(90 + number) for number in range(1, part))

    (slurm.folder / f"at-{part}").unlink()
    (slurm.folder / "squeue.silent").unlink(missing_ok=True)
    process_ended(array)
    (found,) = refreshed([runs.load(array.path)])
    if found.state != "PENDING" or sum(queued(slurm).values()) < RUNS:
        retry(found, lambda line: None)
    assert queued(slurm) == dict.fromkeys(range(RUNS), 1)
    with pytest.raises(Refused):
        retry(runs.load(array.path), lambda line: None)
    assert queued(slurm) == dict.fromkeys(range(RUNS), 1)
