"""The processes of a run on this host, from the process table (proc(5)); a process number alone proves nothing."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hpclaunch.runs.claims import began_by_hand
from hpclaunch.runs.record import Run


def beginning_of(process: str) -> str:
    """Return when a process began: the boot of this machine, and clock ticks since then; empty if it has ended.

    No other process of this boot has the same number and beginning (proc(5): /proc/PID/stat, field 22).
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        fields = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()
        return f"{boot} {int(fields[19])}"
    except (OSError, ValueError, IndexError):
        return ""


def command_lines() -> Iterator[tuple[str, list[bytes]]]:
    """Yield (number, words of the command line) of every process that has one: an ended one has none."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            command = (folder / "cmdline").read_bytes().split(b"\0")
            if command[0]:
                yield folder.name, command


def variables_of(process: str) -> list[bytes]:
    """Return the variables with which a process began; none of another user's."""
    try:
        return Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def is_script_by_hand(run: Run, process: str, command: Sequence[bytes]) -> bool:
    """Whether a process is the run's script, started by hand; its claim of the run directory has its beginning."""
    if run.job_id != f"by-hand-{process}" or b"bash" not in command[0]:
        return False
    began = began_by_hand(run)
    return began == beginning_of(process).partition(" ")[2] if began else os.fsencode(run.script) in command


def is_of_start(run: Run, variables: Iterable[bytes]) -> bool:
    """Whether these are the variables of a process that the script of the run's present start has started."""
    of_start = os.fsencode(f"HPCLAUNCH_EXIT_FILE={run.path}/attempts/{run.job_id}.")
    return any(variable.startswith(of_start) for variable in variables)


def processes_by_hand(run: Run) -> list[int]:
    """Return the processes of a start by hand: its script, and all that this has started."""
    return [
        int(process)
        for process, command in command_lines()
        if is_script_by_hand(run, process, command) or is_of_start(run, variables_of(process))
    ]


def script_by_hand(run: Run) -> list[int]:
    """Return the process of the script of a start by hand; none if it has ended."""
    return [int(process) for process, command in command_lines() if is_script_by_hand(run, process, command)]


def send(processes: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to processes; those that have ended are left out."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)
