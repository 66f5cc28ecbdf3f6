"""Slurm: sbatch through submitit; states from squeue, then sacct, then the run directory; it never guesses."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpclaunch.errors import Fault, SchedulerError
from hpclaunch.runs import FINAL, Run, write_text
from hpclaunch.schedulers import Status
from hpclaunch.spec import JobSpec

if TYPE_CHECKING:
    from submitit import SlurmExecutor

_LEAKING = ("SLURM_", "SBATCH_", "SRUN_", "PMI", "OMPI_")
_KEPT = frozenset({"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT"})
_SECONDS = 60
_STATE = re.compile("[A-Z_]+")


def leaking(environment: Mapping[str, str]) -> list[str]:
    """Return the variables that sbatch must not see: they would override the script, or come from another job."""
    return sorted(name for name in environment if name.startswith(_LEAKING) and name not in _KEPT)


def objections(spec: JobSpec) -> list[Fault]:
    """Return why Slurm would let this job wait for ever; nothing where there is no Slurm to ask."""
    from hpclaunch.schedulers.slurm_limits import objections as found

    return found(spec)


def estimate(text: str) -> str:
    """Return what ``sbatch --test-only`` says of the script; nothing is queued. Raises SchedulerError if it refuses."""
    kept = {name: value for name, value in os.environ.items() if name not in leaking(os.environ)}
    command = ["sbatch", "--test-only"]
    try:
        done = subprocess.run(
            command, input=text.encode("utf-8"), capture_output=True, timeout=_SECONDS, check=False, env=kept
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SchedulerError(Fault(where="sbatch --test-only", what=str(error))) from None
    said = (done.stderr + done.stdout).decode("utf-8", errors="replace")
    words = " ".join(said.replace("sbatch: error:", "").replace("sbatch:", "").split())
    if done.returncode:
        raise SchedulerError(Fault(where="sbatch --test-only", what=words or "refused without a word"))
    return words


def submit(run: Run, text: str, walltime: int) -> str:
    """Hand the script to sbatch and return the job id. Raises SchedulerError with Slurm's own words."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):  # submitit prints what it also raises
            job = _executor(run, text)._submit_command("")
    except SchedulerError:
        raise
    except Exception as error:
        words = " ".join((str(error) or said.getvalue()).replace("sbatch: error:", "").split())
        raise SchedulerError(
            Fault(where="sbatch", what=words or "failed without a word", next=f"the script is {run.script}")
        ) from None
    return str(job.job_id)


def _executor(run: Run, text: str) -> SlurmExecutor:
    import submitit

    class ScriptExecutor(submitit.SlurmExecutor):
        """submitit's executor, submitting the rendered script in place of one that it would write."""

        def _make_submission_file_text(self, command: str, uid: str) -> str:
            return ""  # submitit would write it in the locale's encoding, which not every script survives

        def _make_submission_command(self, submission_file_path: Path) -> list[str]:
            write_text(submission_file_path, text)
            unset = [word for name in leaking(os.environ) for word in ("-u", name)]
            return ["env", *unset, *super()._make_submission_command(submission_file_path)]

    if shutil.which("sbatch") is None:
        raise SchedulerError(Fault(what="there is no sbatch on this machine", next="log in to the site, or --dry-run"))
    folder = run.path / "submitit"
    folder.mkdir(exist_ok=True)
    return ScriptExecutor(folder=folder)


def states(runs: Sequence[Run]) -> dict[str, Status]:
    """Return job id -> status for all runs: one squeue, one sacct for those that squeue no longer knows."""
    wanted = {run.job_id: run for run in runs if run.job_id}
    found = _squeue(list(wanted)) if wanted else {}
    gone = [job_id for job_id in wanted if job_id not in found or found[job_id].state in FINAL]
    found.update(_sacct(gone) if gone else {})
    for job_id, run in wanted.items():
        if job_id not in found:
            found[job_id] = _marks(run)
    return found


def _squeue(job_ids: list[str]) -> dict[str, Status]:
    """Ask once. The format is fixed: squeue --json differs from version to version."""
    text = _ask(["squeue", "--noheader", "--states=all", "--format=%i|%T|%r", f"--jobs={','.join(job_ids)}"])
    found = {}
    for line in text.splitlines():
        job_id, state, reason = [*line.split("|", 2), "", ""][:3]
        waiting = state == "PENDING" and reason not in ("None", "")
        if job_id in job_ids and _STATE.fullmatch(state):
            found[job_id] = Status(state=state, reason=reason if waiting else "")
    return found


def _sacct(job_ids: list[str]) -> dict[str, Status]:
    """Ask once; without accounting sacct answers nothing, and nobody is surprised."""
    options = ["--noheader", "--parsable2", "--allocations", "--format=JobIDRaw,State,ExitCode"]
    text = _ask(["sacct", *options, f"--jobs={','.join(job_ids)}", "--starttime=now-365days"])
    found = {}
    for line in text.splitlines():
        job_id, state, code = [*line.split("|"), "", ""][:3]
        word = state.split(" ")[0].rstrip("+")
        if job_id in job_ids and _STATE.fullmatch(word):
            found[job_id] = Status(state=word, exit_code=code)
    return found


def _marks(run: Run) -> Status:
    """Fall back on what the script itself left behind."""
    codes = {name: code for name, code in run.exit_codes().items() if name.split(".")[0] == run.job_id}
    if not codes:
        return Status(state=run.state if run.final else "UNKNOWN")
    code = list(codes.values())[-1]
    return Status(state="COMPLETED" if code == 0 else "FAILED", exit_code=f"{code}:0")


def _ask(command: list[str]) -> str:
    """Return the program's answer, or nothing where it is missing, refuses (unknown job) or does not answer."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SQUEUE_", "SACCT_"))}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False, env=environment, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def cancel(run: Run) -> bool:
    """Cancel the job and return that it was asked to end. Raises SchedulerError with Slurm's own words."""
    command = ["scancel", run.job_id]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False, errors="replace")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SchedulerError(Fault(where="scancel", what=str(error))) from None
    if done.returncode:
        raise SchedulerError(Fault(where="scancel", what=" ".join(done.stderr.split()) or "failed without a word"))
    return True


def cancel_command(run: Run) -> str:
    """Return what a person would type."""
    return f"hpclaunch cancel {run.path.name} (or: scancel {run.job_id})"
