"""Handing a script to sbatch so that it is queued once: whoever got no answer looks the run up before trying again."""

from __future__ import annotations

import contextlib
import datetime
import io
import os
import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hpclaunch.core.errors import Fault, SchedulerError, Unanswered
from hpclaunch.runs import JOB_ID, Run, write_text
from hpclaunch.schedulers import Search
from hpclaunch.schedulers.slurm.programs import ask, leaking
from hpclaunch.schedulers.slurm.reasons import subject_of

if TYPE_CHECKING:
    from submitit import SlurmExecutor

_PAUSES = (1.0, 2.0, 4.0)
"""Seconds before the run is looked up after a failure; then sbatch is tried again, but for the last."""
_SBATCH_SECONDS = 120
"""sbatch itself waits for the controller for MessageTimeout (10 to 100 s at most sites) before it gives up."""
_KILLED = 124
_NEVER_ARRIVED = re.compile(
    r"connect failure|Connection refused|Unable to establish configuration source|Slurm backup controller in standby",
)
"""Words after which the request cannot have reached the controller (slurm_errno.c)."""
_DOUBTFUL = re.compile(
    r"timed out|Zero Bytes were transmitted|Unable to contact slurm controller|Communication (connection|shutdown)"
    r"|(send|receive|shutdown) failure|temporarily unable|temporarily unavailable|Unexpected message received",
    re.IGNORECASE,
)
"""Words after which the controller may have queued the job all the same (slurm_errno.c)."""


@dataclass
class _Failure(Exception):
    """Why sbatch gave no job id. ``arrived``: the request may have been obeyed; ``again``: trying again can help."""

    words: str
    arrived: bool
    again: bool


def submit(run: Run, text: str, walltime: int, options: Sequence[str] = ()) -> str:
    """Hand the script to sbatch, with further ``options``, and return the job id.

    Raises Unanswered where nobody knows whether it was queued, and SchedulerError, in Slurm's words, where it was not.
    """
    if shutil.which("sbatch") is None:
        what, next_step = "there is no sbatch on this machine", "log in to the site, or --dry-run"
        raise SchedulerError(Fault(what=what, next=next_step, subject="scheduler"))
    doubt = False
    for pause in _PAUSES:
        try:
            job_id = _sbatch(run, text, options)
        except _Failure as failure:
            last = failure
        else:
            return _only_one(run, job_id) if doubt else job_id
        doubt = doubt or last.arrived
        if not doubt and not last.again:
            break
        time.sleep(pause)
        if doubt and (queued := _queued(run, text, last.words)):
            return _only_one(run, queued)
        if not last.again:
            break
    raise _unanswered(run, last.words) if doubt else _refused(run, last.words)


def _sbatch(run: Run, text: str, options: Sequence[str]) -> str:
    """Call sbatch once through submitit. Raises _Failure."""
    from submitit.core.utils import FailedJobError

    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):  # submitit prints what it also raises
            return str(_executor(run, text, options)._submit_command("").job_id)
    except FailedJobError as error:
        cause = error.__cause__
        code = getattr(cause, "returncode", 1)
        words = " ".join((str(error) or said.getvalue()).replace("sbatch: error:", "").split())
        if code == _KILLED or code < 0:
            raise _Failure(words or "sbatch did not answer", arrived=True, again=True) from None
        never, doubtful = _NEVER_ARRIVED.search(words), _DOUBTFUL.search(words)
        raise _Failure(
            words or "failed without a word", arrived=bool(doubtful and not never), again=bool(never or doubtful)
        ) from None
    except Exception as error:  # an answer without a job id, or a full disk after a good one: it may be queued
        raise _Failure(" ".join(str(error).split()), arrived=True, again=False) from None


def _executor(run: Run, text: str, options: Sequence[str]) -> SlurmExecutor:
    import submitit

    class ScriptExecutor(submitit.SlurmExecutor):
        """submitit's executor, submitting the rendered script in place of one that it would write."""

        def _make_submission_file_text(self, command: str, uid: str) -> str:
            return ""  # submitit would write it in the locale's encoding, which not every script survives

        def _make_submission_command(self, submission_file_path: Path) -> list[str]:
            write_text(submission_file_path, text)
            unset = [word for name in leaking(os.environ) for word in ("-u", name)]
            patience = ["timeout", "--kill-after=5", str(_SBATCH_SECONDS)] if shutil.which("timeout") else []
            sbatch, *rest = super()._make_submission_command(submission_file_path)
            return ["env", *unset, *patience, sbatch, *options, *rest]

    folder = run.path / "submitit"
    folder.mkdir(exist_ok=True)
    return ScriptExecutor(folder=folder)


def _queued(run: Run, text: str, words: str) -> str:
    """Return the oldest job of this run that is new, or nothing. Raises Unanswered where Slurm cannot be asked."""
    found = search([run])
    if not found.answered or "\n#SBATCH --chdir=" not in text:
        raise _unanswered(run, words)
    fresh = [job_id for job_id in found.jobs.get(run.path, ()) if job_id not in run.earlier]
    return fresh[0] if fresh else ""


def _only_one(run: Run, job_id: str) -> str:
    """After a try whose answer was lost, keep the oldest job of the run and cancel what a later try queued as well."""
    fresh = [found for found in search([run]).jobs.get(run.path, ()) if found not in run.earlier] or [job_id]
    if fresh[1:]:
        ask(["scancel", *fresh[1:]])
    return fresh[0]


def search(runs: Sequence[Run]) -> Search:
    """Return the jobs of these runs, known by their working folder: every script's --chdir is its run directory."""
    wanted = {str(run.path): run.path for run in runs}
    me = f"--user={os.getuid()}"
    queue = ask(["squeue", "--noheader", "--states=all", me, "--format=%i|%Z"])
    since = min(filter(None, (_day_before(run.created) for run in runs)), default="now-7days")
    options = ["--noheader", "--parsable2", "--allocations", "--format=JobID,WorkDir"]
    past = ask(["sacct", *options, me, f"--starttime={since}"])
    jobs: dict[Path, list[str]] = {}
    for line in (queue.text + past.text).splitlines():
        named, _, folder = line.partition("|")
        job_id = named.partition("_")[0]  # of an array all tasks have the folder
        if folder in wanted and JOB_ID.fullmatch(job_id):
            jobs.setdefault(wanted[folder], []).append(job_id)
    ordered = {path: tuple(sorted(dict.fromkeys(ids), key=_number)) for path, ids in jobs.items()}
    words = "" if queue.ok else f"squeue: {queue.words}"
    return Search(jobs=ordered, answered=queue.ok, certain=queue.ok and past.ok, words=words)


def _day_before(created: str) -> str:
    """Return the day before a run was made: records are in UTC, sacct reads local time and refuses what is to come."""
    try:
        return (datetime.date.fromisoformat(created[:10]) - datetime.timedelta(days=1)).isoformat()
    except (ValueError, OverflowError):
        return ""


def _number(job_id: str) -> int:
    return int(job_id.partition("_")[0]) if job_id[0].isdigit() else 0


def _refused(run: Run, words: str) -> SchedulerError:
    fault = Fault(where="sbatch", what=words, next=f"the script is {run.script}", subject=subject_of(words))
    return SchedulerError(fault)


def _unanswered(run: Run, words: str) -> Unanswered:
    what = f"nobody knows yet whether {run.label} was queued: {words}"
    next_step = f"hpclaunch status {run.label} asks Slurm again"
    return Unanswered(Fault(where="sbatch", what=what, next=next_step, subject=subject_of(words)))
