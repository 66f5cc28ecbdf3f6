"""The processes of trials on this node: each with its own process group, CPUs, GPUs, folder and log."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from hpclaunch.search.events import TrialBegin
from hpclaunch.search.folder import LOG, METRICS
from hpclaunch.search.objective import Reports
from hpclaunch.search.slots import Slot

WORKER_VARIABLE = "HPCLAUNCH_SEARCH_WORKER"
"""Names the worker in the environment of every process of its trials: ``RUN_DIR:NUMBER``."""
_LEFT_OUT = ("SLURM_", "PMI_", "PMIX_", "PALS_", "OMPI_COMM_", "PRTE_", "HYDI_")
"""Beginnings of variables that describe the worker's own task: an MPI library in a trial would take it for its own."""
_KEPT = ("SLURM_CONF", "SLURM_TMPDIR")
_END_OF_LOG = 16384


class TrialProcess:
    """A trial that runs. ``asked``: why it was asked to end; empty if it was not."""

    def __init__(self, begin: TrialBegin, slot: Slot, folder: Path, metric: str) -> None:
        self.begin, self.slot, self.folder = begin, slot, folder
        self.asked = ""
        self.reports = Reports(folder / METRICS, metric) if metric else None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, program: Path, environment: Mapping[str, str]) -> None:
        """Start the program of a trial, a file of bash, in the trial's folder. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        failure = self.folder / "first-failure"
        if self.begin.attempt > 1:
            failure.unlink(missing_ok=True)  # of the start before
        here = {**environment, **self._variables(failure)}
        own_folder = environment.get("HPCLAUNCH_RUN_DIR") == os.getcwd()  # else the program begins where it was typed
        before = os.sched_getaffinity(0)
        with open(self.folder / LOG, "ab") as log:
            try:
                if self.slot.is_bound and self.slot.cpus:
                    os.sched_setaffinity(0, self.slot.cpus)  # the child inherits it, and has no moment without it
                self._process = subprocess.Popen(
                    ("bash", str(program)),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.folder if own_folder else None,
                    env=here,
                    start_new_session=True,
                )
            finally:
                os.sched_setaffinity(0, before)

    def _variables(self, failure: Path) -> dict[str, str]:
        variables = {
            "HPCLAUNCH_RUN_DIR": str(self.folder),
            "HPCLAUNCH_CHECKPOINT_DIR": str(self.folder / "checkpoints"),
            "HPCLAUNCH_EXIT_FILE": str(failure),
            "HPCLAUNCH_RESTART_COUNT": str(self.begin.attempt - 1),
            "HPCLAUNCH_TRIAL": str(self.begin.number),
        }
        if self.slot.gpus:
            variables[self.slot.gpu_variable] = ",".join(self.slot.gpus)
        return variables

    def ended(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        return self._process.poll() if self._process else 1

    def ask_to_end(self, why: str, number: int) -> None:
        """Send a signal to all processes of the trial."""
        self.asked = self.asked or why
        if self._process and self._process.poll() is None:
            try:
                os.killpg(self._process.pid, number)
            except ProcessLookupError:
                pass

    def end_of_log(self) -> str:
        """Return the end of the trial's log."""
        try:
            with open(self.folder / LOG, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _END_OF_LOG))
                return file.read().decode(errors="replace")
        except OSError:
            return ""


def environment_of_trials(environment: Mapping[str, str], worker: str) -> dict[str, str]:
    """Return the variables of the script for trials, without those of the worker's own task."""
    kept = {name: text for name, text in environment.items() if name in _KEPT or not name.startswith(_LEFT_OUT)}
    array = kept.pop("HPCLAUNCH_ARRAY_DIR", "")  # the trial is no run of that array
    for name in ("HPCLAUNCH_START_DIR", "HPCLAUNCH_SEARCH_GPUS"):  # of all trials together
        kept.pop(name, None)
    for name, hidden in (("PYTHONPATH", "HPCLAUNCH_SEARCH_PATH"), ("PYTHONHOME", "HPCLAUNCH_SEARCH_HOME")):
        text = kept.pop(hidden, "")  # the worker's own Python must not see them
        kept |= {name: text} if text else {}
    return {**kept, "HPCLAUNCH_SEARCH": array or environment.get("HPCLAUNCH_RUN_DIR", ""), WORKER_VARIABLE: worker}


def with_port(environment: Mapping[str, str], slot: Slot) -> dict[str, str]:
    """Return the variables with a port of the slot's own: trials on one node may listen at the same time."""
    port = environment.get("MASTER_PORT", "")
    own = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(int(port) + slot.number)} if port.isdigit() else {}
    return {**environment, **own}


def end_leftovers(workers: Iterable[str]) -> int:
    """Kill what workers of this host left, which ended without a word; return how many processes that were."""
    wanted = {f"{WORKER_VARIABLE}={worker}".encode() for worker in workers}
    ended = 0
    for name in os.listdir("/proc") if wanted else ():
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                is_left = not wanted.isdisjoint(file.read().split(b"\0"))
            if is_left:
                os.kill(int(name), signal.SIGKILL)
                ended += 1
        except OSError:
            continue
    return ended
