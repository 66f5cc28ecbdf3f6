"""Starts the test cluster's daemons in the foreground and remembers them by process id; knows no options."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from cluster_config import ClusterError

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def spawn(root: Path, name: str, command: list[str]) -> None:
    """Start a daemon in a session of its own, its output to ROOT/log/NAME.out, its identity to ROOT/run/NAME.pid.

    Its environment is bare, so that nothing of the caller's shell reaches the jobs.
    """
    environment = {
        "PATH": PATH,
        "LANG": "C.UTF-8",
        "SLURM_CONF": str(root / "etc" / "slurm.conf"),
        "MYSQL_UNIX_PORT": str(root / "run" / "mariadb.socket"),
    }
    with (root / "log" / f"{name}.out").open("ab") as output:
        started = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
    (root / "run" / f"{name}.pid").write_text(f"{started.pid} {_birth(started.pid)}\n", encoding="utf-8")


def running(root: Path) -> dict[str, int]:
    """Daemon name -> process id, of those that are alive."""
    found = {}
    for record in sorted((root / "run").glob("*.pid")):
        # Slurm's daemons keep *.slurm.pid files here too and remove them as they end, so a listed one may be gone.
        try:
            words = record.read_text(encoding="utf-8").split()
        except (FileNotFoundError, PermissionError):
            continue
        if len(words) == 2 and _birth(int(words[0])) == words[1]:
            found[record.stem] = int(words[0])
    return found


def kill(pids: Iterable[int]) -> None:
    """SIGKILL: all of a cluster's state goes with it, so nothing is worth a slower end."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def wait_for(what: str, ready: Callable[[], bool], seconds: float, watched: Callable[[], list[str]] = list) -> None:
    """Poll until `ready`; ClusterError after `seconds`, or once `watched` names daemons that died."""
    deadline = time.monotonic() + seconds
    while not ready():
        if dead := watched():
            raise ClusterError(f"{', '.join(dead)} ended while waiting for {what}")
        if time.monotonic() > deadline:
            raise ClusterError(f"no {what} after {seconds:.0f} s")
        time.sleep(0.1)


def log_tails(root: Path, lines: int = 15) -> str:
    """The last lines of every daemon's log, for a failed start."""
    parts = []
    for log in sorted((root / "log").glob("*")):
        text = log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
        if text:
            parts.append(f"==> {log} <==\n" + "\n".join(text))
    return "\n\n".join(parts)


def _birth(pid: int) -> str | None:
    """The process's start time in clock ticks; None if gone or a zombie. It tells a reused id apart."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]
