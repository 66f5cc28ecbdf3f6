"""Submits a script with sbatch so that it is queued once: after a doubtful answer it is looked up, not repeated."""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hpclaunch.core import waiting
from hpclaunch.core.errors import Fault, Refused, SchedulerError, Subject, Unanswered
from hpclaunch.core.files import write_new
from hpclaunch.runs import JOB_ID, Run, leases
from hpclaunch.runs.directories import weak_around
from hpclaunch.runs.markers import successor_of
from hpclaunch.schedulers import QueuedJob, Search
from hpclaunch.schedulers.slurm.addresses import address_of
from hpclaunch.schedulers.slurm.components import job_of
from hpclaunch.schedulers.slurm.executor import script_executor
from hpclaunch.schedulers.slurm.programs import NO_NODES, ask, asked_cluster, asking, down_controllers
from hpclaunch.schedulers.slurm.refusals import SbatchAnswer, read_answer

_PAUSES = (1.0, 2.0, 4.0)
"""Seconds before each lookup after a doubtful answer, and before sbatch is tried again if no controller was reached."""
_SBATCH_SECONDS = 120
"""The longest time for a call of sbatch, which itself waits for MessageTimeout (10 to 100 s at most sites)."""
_SECONDS_TO_END = 30
_MOST_WORDS = 4 * 2**20
"""Bytes that are read of sbatch, with a site's banners."""


def submit(run: Run, text: str, walltime: int, options: Sequence[str] = ()) -> QueuedJob:
    """Submit the script with sbatch and further ``options``, to the cluster of the run's record.

    sbatch is called again only if no controller was reached. A request that timed out is usually obeyed later, so a
    second one would queue a second job. Raises Unanswered if it is unknown whether the script was queued, and
    SchedulerError, in Slurm's words, if it was not.
    """
    if shutil.which("sbatch") is None:
        what, next_step = "there is no sbatch on this machine", "log in to the site, or --dry-run"
        raise SchedulerError(Fault(what=what, next=next_step, subject="scheduler"))
    with asking(address_of(run.place) or ""):
        return _submit_at(run, text, options)


def _submit_at(run: Run, text: str, options: Sequence[str]) -> QueuedJob:
    """Submit to the cluster that is asked now, or to several, of which sbatch chooses one."""
    if hosts := down_controllers():
        raise _down_error(run, hosts)
    if found := _queued_earlier(run):
        return found
    for pause in _PAUSES:
        if not leases.renew(run.path):
            raise _taken_over_error(run)
        answer = _call_sbatch(run, text, options)
        if answer.job_id and (answer.cluster or "," not in asked_cluster()):
            return QueuedJob(job_id=answer.job_id, cluster=answer.cluster, printed=answer.printed)
        found = _look_up(run, text, answer)
        if found:
            return replace(found, printed=answer.printed)
        if answer.meaning == "refused":
            break
        time.sleep(pause)
    raise _refusal_error(run, answer.words)


def _queued_earlier(run: Run) -> QueuedJob | None:
    """Return a job of an earlier submission that was called NOT_SUBMITTED; None if there is none.

    So is the successor that the script of the last job asked for without getting an answer. Raises SchedulerError if
    Slurm does not say.
    """
    lease = leases.newest(run.path)
    is_doubtful = lease is not None and lease.before == leases.NOT_SUBMITTED
    if not is_doubtful and (not run.earlier or successor_of(run, run.earlier[-1]) != ""):
        return None
    found = search([run])
    if not found.answered:
        what = f"it is unknown whether an earlier submission of {run.label} queued a job: {found.words}"
        next_step = f"when Slurm answers again: hpclaunch retry {run.label}"
        raise SchedulerError(Fault(what=what, next=next_step, subject="scheduler"))
    return _new_job(run, found)


def _look_up(run: Run, text: str, answer: SbatchAnswer) -> QueuedJob | None:
    """Return the job of this run that sbatch did not report; None if nothing was queued.

    After a refusal the queue is asked once, as a site's own sbatch may say anything and exit with any code. The answer
    also shows that the controller hears us. Raises Unanswered while a job that is not found may still appear.
    """
    if answer.unsent and asked_cluster():
        return None  # there is no way to that queue either
    can_be_found = "\n#SBATCH --chdir=" in text
    if answer.meaning == "unreachable" or (answer.meaning == "refused" and (can_be_found or answer.own_words)):
        found = search([run])
        job = _new_job(run, found)
        if job or found.answered or answer.meaning == "unreachable":
            return job
    if not can_be_found:
        raise _unanswered_error(run, answer.words)
    for pause in _PAUSES:
        time.sleep(pause)
        leases.renew(run.path)
        found = search([run])
        if job := _new_job(run, found):
            return job
        if not found.answered:
            break
    raise _unanswered_error(run, answer.words)


def _new_job(run: Run, found: Search) -> QueuedJob | None:
    """Return the oldest job that the record of the run does not name; None if there is none."""
    job_id = next((job_id for job_id in found.jobs.get(run.path, ()) if job_id not in run.earlier), "")
    return QueuedJob(job_id=job_id, cluster=found.clusters.get((run.path, job_id), "")) if job_id else None


def _call_sbatch(run: Run, text: str, options: Sequence[str]) -> SbatchAnswer:
    """Call sbatch once, with the command of submitit's executor, and read its answer as bytes in any encoding.

    submitit's own call kills sbatch at the first byte that is not UTF-8, when the job may be queued already. Raises
    SchedulerError if sbatch could not be started.
    """
    try:
        script = _submission_file(run, text)
        command = script_executor(run.path / "submitit", options, _SBATCH_SECONDS)._make_submission_command(script)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except (OSError, RuntimeError) as error:  # a full disk, or submitit finds no srun
        raise _refusal_error(run, f"sbatch was not called: {error}") from None
    with process:
        answer = _read_output(process)
    with contextlib.suppress(OSError):
        if script.parent.parent != run.path:
            shutil.rmtree(script.parent)
        elif answer.job_id:
            script.rename(script.with_name(f"{answer.job_id}_submission.sh"))
    return answer


def _submission_file(run: Run, text: str) -> Path:
    """Write the script that sbatch gets. ``job.sh`` may be written again while sbatch reads.

    sbatch reads it at once, and ``job.sh`` has the same text on disk: so this copy waits for no disk. Where others can
    exchange the run directory, sbatch reads a copy in a folder that they cannot exchange.
    """
    folder = run.path / "submitit"
    if weak_around(run.path):
        folder = Path(tempfile.mkdtemp(prefix="hpclaunch-"))
    folder.mkdir(exist_ok=True)
    script = folder / f".submission_file_{uuid.uuid4().hex}.sh"
    write_new(script, text, send=False)
    return script


def _read_output(process: subprocess.Popen[bytes]) -> SbatchAnswer:
    """Return the answer of sbatch. A process that it left behind, and that keeps its output open, is not waited for."""
    try:
        out, err = waiting.communicate(process, "sbatch", _SBATCH_SECONDS + _SECONDS_TO_END, most=_MOST_WORDS)
    except subprocess.TimeoutExpired as error:
        process.kill()
        return read_answer(None, error.output or b"", error.stderr or b"")
    except waiting.TooLong as error:
        process.kill()
        return read_answer(None, error.output, error.messages)
    return read_answer(process.returncode, out, err)


def search(runs: Sequence[Run]) -> Search:
    """Return the jobs of these runs, found by their working folder: every script's --chdir is its run directory.

    Each cluster to which one of them was sent, or may have been, is asked. It has answered only if all of them have.
    """
    there: dict[str, list[Run]] = {}
    for run in runs:
        for one in (address_of(run.place) or "").split(","):
            there.setdefault(one, []).append(run)
    answers = []
    for address, own in there.items():
        with asking(address):
            answers.append(_search_at(own))
    jobs: dict[Path, tuple[str, ...]] = {}
    for answer in answers:
        for path, ids in answer.jobs.items():
            jobs[path] = tuple(dict.fromkeys((*jobs.get(path, ()), *ids)))
    return Search(
        jobs=jobs,
        clusters={job: name for answer in answers for job, name in answer.clusters.items()},
        answered=all(answer.answered for answer in answers),
        certain=all(answer.certain for answer in answers),
        words="; ".join(answer.words for answer in answers if answer.words),
    )


def _search_at(runs: Sequence[Run]) -> Search:
    """Return the jobs of these runs on the cluster that is asked now.

    A job that the controller refused may stay in its list, FAILED and without nodes. It was never queued, so it is
    left out.
    """
    wanted = {str(run.path): run.path for run in runs}
    me = f"--user={os.getuid()}"
    queue = ask(["squeue", "--noheader", "--states=all", me, "--format=%i|%T|%r|%N|%Z"], undecodable="surrogateescape")
    since = min(filter(None, (_day_before(run.created) for run in runs)), default="now-7days")
    options = ["--noheader", "--parsable2", "--allocations", "--format=JobID,State,ExitCode,NodeList,WorkDir"]
    past = ask(["sacct", *options, me, f"--starttime={since}"], undecodable="surrogateescape")
    jobs: dict[Path, list[str]] = {}
    for line in (queue.text + past.text).split("\n"):  # splitlines would divide some names of folders
        named, state, _, nodes, folder = [*line.split("|", 4), "", "", "", ""][:5]
        if state == "FAILED" and nodes in NO_NODES:
            continue
        job_id = job_of(named).partition("_")[0]  # all tasks of an array have the same folder
        if folder in wanted and JOB_ID.fullmatch(job_id):
            jobs.setdefault(wanted[folder], []).append(job_id)
    ordered = {path: tuple(sorted(dict.fromkeys(ids), key=_number)) for path, ids in jobs.items()}
    words = "" if queue.ok else f"squeue: {queue.words}"
    name = asked_cluster()
    clusters = {(path, job_id): name for path, ids in ordered.items() for job_id in ids} if name else {}
    return Search(jobs=ordered, clusters=clusters, answered=queue.ok, certain=queue.ok and past.ok, words=words)


def _day_before(created: str) -> str:
    """Return the day before a run was created: records are in UTC; sacct reads local time and refuses a future one."""
    try:
        return (datetime.date.fromisoformat(created[:10]) - datetime.timedelta(days=1)).isoformat()
    except (ValueError, OverflowError):
        return ""


def _number(job_id: str) -> int:
    return int(job_id.partition("_")[0]) if job_id[0].isdigit() else 0


def _subject_of(words: str) -> Subject:
    from hpclaunch.schedulers.slurm.reasons import subject_of  # 2 ms, which a submission does not need

    return subject_of(words)


def _refusal_error(run: Run, words: str) -> SchedulerError:
    next_step = f"when Slurm would accept it: hpclaunch retry {run.label}; with other options: hpclaunch submit"
    return SchedulerError(Fault(where="sbatch", what=words, next=next_step, subject=_subject_of(words)))


def _down_error(run: Run, hosts: str) -> SchedulerError:
    what = f"Slurm's controller is down ({hosts}), so {run.label} was not submitted"
    return SchedulerError(
        Fault(what=what, next=f"when it is up again: hpclaunch retry {run.label}", subject="scheduler")
    )


def _unanswered_error(run: Run, words: str) -> Unanswered:
    what = f"it is unknown whether {run.label} was queued: {words}"
    next_step = f"hpclaunch status {run.label} asks Slurm again"
    return Unanswered(Fault(where="sbatch", what=what, next=next_step, subject=_subject_of(words)))


def _taken_over_error(run: Run) -> Refused:
    what = f"this submission of {run.label} was given up for lost by another process, so sbatch was not called"
    return Refused(Fault(what=what, next=f"hpclaunch status {run.label}"))
