"""Submits a script with sbatch so that it is queued once: after a lost answer it looks the run up before it retries."""

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
"""Seconds before the run is looked up after a failure; then sbatch is tried again, except after the last pause."""
_SBATCH_SECONDS = 120
"""The longest time for a call of sbatch, which itself waits for MessageTimeout (10 to 100 s at most sites)."""
_KILLED = 124
_NEVER_ARRIVED = re.compile(
    r"connect failure|Connection refused|Unable to establish configuration source|Slurm backup controller in standby",
)
"""Messages that mean that the request did not reach the controller (slurm_errno.c)."""
_DOUBTFUL = re.compile(
    r"timed out|Zero Bytes were transmitted|Unable to contact slurm controller|Communication (connection|shutdown)"
    r"|(send|receive|shutdown) failure|temporarily unable|temporarily unavailable|Unexpected message received",
    re.IGNORECASE,
)
"""Messages after which the controller may have queued the job anyway (slurm_errno.c)."""


@dataclass
class _Failure(Exception):
    """Why sbatch returned no job ID. ``arrived``: the job may be queued; ``again``: a retry can help."""

    words: str
    arrived: bool
    again: bool


def submit(run: Run, text: str, walltime: int, options: Sequence[str] = ()) -> str:
    """Submit the script with sbatch and further ``options``, and return the job ID.

    Raises Unanswered if it is unknown whether the script was queued, and SchedulerError, in Slurm's words, if it was
    not.
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
            return _keep_oldest(run, job_id) if doubt else job_id
        doubt = doubt or last.arrived
        if not doubt and not last.again:
            break
        time.sleep(pause)
        if doubt and (queued := _find_queued(run, text, last.words)):
            return _keep_oldest(run, queued)
        if not last.again:
            break
    raise _unanswered_error(run, last.words) if doubt else _refusal_error(run, last.words)


def _sbatch(run: Run, text: str, options: Sequence[str]) -> str:
    """Call sbatch once through submitit. Raises _Failure."""
    from submitit.core.utils import FailedJobError

    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):  # submitit prints the error that it raises
            return str(_executor(run, text, options)._submit_command("").job_id)
    except FailedJobError as error:
        cause = error.__cause__
        code = getattr(cause, "returncode", 1)
        words = " ".join((str(error) or printed.getvalue()).replace("sbatch: error:", "").split())
        if code == _KILLED or code < 0:
            raise _Failure(words or "sbatch did not answer", arrived=True, again=True) from None
        never, doubtful = _NEVER_ARRIVED.search(words), _DOUBTFUL.search(words)
        raise _Failure(
            words or "failed without a message", arrived=bool(doubtful and not never), again=bool(never or doubtful)
        ) from None
    except Exception as error:  # an answer without a job ID, or a full disk after a valid one: it may be queued
        raise _Failure(" ".join(str(error).split()), arrived=True, again=False) from None


def _executor(run: Run, text: str, options: Sequence[str]) -> SlurmExecutor:
    import submitit

    class ScriptExecutor(submitit.SlurmExecutor):
        """submitit's executor, which submits the rendered script instead of a script of its own."""

        def _make_submission_file_text(self, command: str, uid: str) -> str:
            return ""  # submitit would write the text in the locale's encoding, which cannot encode every script

        def _make_submission_command(self, submission_file_path: Path) -> list[str]:
            write_text(submission_file_path, text)
            unset = [word for name in leaking(os.environ) for word in ("-u", name)]
            patience = ["timeout", "--kill-after=5", str(_SBATCH_SECONDS)] if shutil.which("timeout") else []
            sbatch, *rest = super()._make_submission_command(submission_file_path)
            return ["env", *unset, *patience, sbatch, *options, *rest]

    folder = run.path / "submitit"
    folder.mkdir(exist_ok=True)
    return ScriptExecutor(folder=folder)


def _find_queued(run: Run, text: str, words: str) -> str:
    """Return the oldest new job of this run, or an empty text. Raises Unanswered if Slurm does not answer."""
    found = search([run])
    if not found.answered or "\n#SBATCH --chdir=" not in text:
        raise _unanswered_error(run, words)
    fresh = [job_id for job_id in found.jobs.get(run.path, ()) if job_id not in run.earlier]
    return fresh[0] if fresh else ""


def _keep_oldest(run: Run, job_id: str) -> str:
    """Return the oldest new job of the run, and cancel the others: a try whose answer was lost may have queued one."""
    fresh = [found for found in search([run]).jobs.get(run.path, ()) if found not in run.earlier] or [job_id]
    if fresh[1:]:
        ask(["scancel", *fresh[1:]])
    return fresh[0]


def search(runs: Sequence[Run]) -> Search:
    """Return the jobs of these runs, found by their working folder: every script's --chdir is its run directory."""
    wanted = {str(run.path): run.path for run in runs}
    me = f"--user={os.getuid()}"
    queue = ask(["squeue", "--noheader", "--states=all", me, "--format=%i|%Z"])
    since = min(filter(None, (_day_before(run.created) for run in runs)), default="now-7days")
    options = ["--noheader", "--parsable2", "--allocations", "--format=JobID,WorkDir"]
    past = ask(["sacct", *options, me, f"--starttime={since}"])
    jobs: dict[Path, list[str]] = {}
    for line in (queue.text + past.text).splitlines():
        named, _, folder = line.partition("|")
        job_id = named.partition("_")[0]  # all tasks of an array have the same folder
        if folder in wanted and JOB_ID.fullmatch(job_id):
            jobs.setdefault(wanted[folder], []).append(job_id)
    ordered = {path: tuple(sorted(dict.fromkeys(ids), key=_number)) for path, ids in jobs.items()}
    words = "" if queue.ok else f"squeue: {queue.words}"
    return Search(jobs=ordered, answered=queue.ok, certain=queue.ok and past.ok, words=words)


def _day_before(created: str) -> str:
    """Return the day before a run was created: records are in UTC; sacct reads local time and refuses a future one."""
    try:
        return (datetime.date.fromisoformat(created[:10]) - datetime.timedelta(days=1)).isoformat()
    except (ValueError, OverflowError):
        return ""


def _number(job_id: str) -> int:
    return int(job_id.partition("_")[0]) if job_id[0].isdigit() else 0


def _refusal_error(run: Run, words: str) -> SchedulerError:
    fault = Fault(where="sbatch", what=words, next=f"the script is {run.script}", subject=subject_of(words))
    return SchedulerError(fault)


def _unanswered_error(run: Run, words: str) -> Unanswered:
    what = f"it is unknown whether {run.label} was queued: {words}"
    next_step = f"hpclaunch status {run.label} asks Slurm again"
    return Unanswered(Fault(where="sbatch", what=what, next=next_step, subject=subject_of(words)))
