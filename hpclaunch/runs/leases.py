"""Which process submits a run: its lease, which lasts until the outcome of the submission is known.

``submissions/1``, ``submissions/2``, … name the process of the first, second, … submission, and ``N.ended`` the
outcome: a job ID, or NOT_SUBMITTED. Both are made once and never changed. Of several processes that want to make the
same file, one can (link(2), or O_EXCL where there are no links), so this needs no flock and holds on NFS and Lustre.

``N.renewed`` is the last sign of life. No time of one host is ever compared with that of another: a process of this
host is known by its number and start, and of another host's process only the change of its signs counts.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

from hpclaunch.core.files import read_text, write_new, write_text
from hpclaunch.core.records import record
from hpclaunch.runs.record import RECORD, Run

FOLDER = "submissions"
NOT_SUBMITTED = "NOT_SUBMITTED"
PATIENCE_S = 600
"""Slurm acts on no request later than this after the last sign of life: sbatch is ended after two minutes, and a slow
controller then acts within minutes, or has lost the request."""
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.EACCES)
"""What link(2) gives where a file system has no hard links, or forbids them."""


@record
class Lease:
    """The only right to submit a run. ``number`` counts the submissions; ``text`` names the process that has it."""

    folder: Path
    number: int
    text: str

    @property
    def outcome(self) -> str:
        """A job ID or NOT_SUBMITTED; empty while the submission has not ended."""
        return read_text(self.folder / f"{self.number}.ended").strip()

    @property
    def before(self) -> str:
        """The outcome of the submission before this one; empty if there was none."""
        return read_text(self.folder / f"{self.number - 1}.ended").strip()

    @property
    def sign(self) -> str:
        """The last sign of life; empty if the process has given none since it took the lease."""
        return read_text(self.folder / f"{self.number}.renewed").strip()

    @property
    def holder(self) -> str:
        """The process in words."""
        host, _, _, process = (*self.text.split(" "), "", "", "", "")[:4]
        return f"process {process} on {host}"


def take(run: Run) -> Lease | None:
    """Take the lease for the next submission; None if another process has it, or has submitted the run meanwhile.

    Raises OSError if the run directory cannot be written.
    """
    folder = run.path / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    last = newest(run.path)
    if last is not None:
        if not last.outcome and _died_early(last):
            end(last, NOT_SUBMITTED)
        # A job that this record does not know: the record was read before that submission ended.
        if last.outcome not in (NOT_SUBMITTED, *filter(None, (run.job_id, *run.earlier))):
            return None
    number = last.number + 1 if last else 1
    lease = Lease(folder=folder, number=number, text=f"{this_process()} {time.monotonic():.3f} {os.urandom(8).hex()}")
    return lease if make_once(folder / str(number), lease.text, write_new) == lease.text else None


def renew(path: Path) -> bool:
    """Give a sign of life before a program is called. False: this process may not submit the run (any more)."""
    lease = newest(path)
    if lease is None:
        return True
    if lease.outcome or not lease.text.startswith(f"{this_process()} "):
        return False
    with contextlib.suppress(OSError):  # without a sign the submission only looks older than it is
        write_text(lease.folder / f"{lease.number}.renewed", f"{time.monotonic():.3f}\n", durable=False)
    return True


def end(lease: Lease, outcome: str) -> str:
    """Record the outcome of a submission, and return the one that counts: the first that any process recorded.

    If nothing can be recorded, the given outcome is returned.
    """
    try:
        return make_once(lease.folder / f"{lease.number}.ended", outcome, write_new) or outcome
    except OSError:
        return lease.outcome or outcome


def ended_here(run: Run) -> bool:
    """Whether this process made the newest submission of a run, which gave it its present job."""
    lease = newest(run.path)
    if lease is None or not lease.text.startswith(f"{this_process()} "):
        return False
    return lease.outcome == run.job_id != ""


def settle(lease: Lease | None, outcome: str) -> str:
    """Return the outcome of a submission: the recorded one, else this one, which is then recorded.

    ``outcome`` may be empty: then nothing is recorded.
    """
    if lease is None:
        return outcome
    return lease.outcome or (end(lease, outcome) if outcome else "")


def newest(path: Path) -> Lease | None:
    """Return the lease of the newest submission of a run directory; None if hpclaunch has not submitted it."""
    folder = path / FOLDER
    try:
        numbers = [int(name) for name in os.listdir(folder) if name.isascii() and name.isdigit()]
    except OSError:
        return None
    if not numbers:
        return None
    number = max(numbers)
    return Lease(folder=folder, number=number, text=read_text(folder / str(number)).strip())


def silence(path: Path) -> float:
    """Return the seconds since the newest submission gave a sign of life, as far as this host can know; 0: it lives.

    For a process of another host they count from the first time that this host saw its last sign.
    """
    lease = newest(path)
    if lease is None:
        return _seen_for(path, _stamp(path / RECORD))  # a record of an older hpclaunch
    if _lives(lease):
        return 0.0
    if lease.text.split(" ")[:2] == [os.uname().nodename, _boot()]:
        sign = lease.sign or lease.text.split(" ")[-2]
        return max(0.0, time.monotonic() - _seconds(sign))
    return _seen_for(path, f"{lease.number} {lease.sign}")


def _died_early(lease: Lease) -> bool:
    """Whether the process ended before it called a program of the scheduler. An empty lease names none that ended."""
    return not lease.sign and _lives(lease) is False


def _lives(lease: Lease) -> bool | None:
    """Whether the process lives; None if this host cannot know: it is one of another host or container."""
    return process_lives(lease.text)


def process_lives(text: str) -> bool | None:
    """Whether the process that ``this_process`` named lives; None if it is one of another host or container."""
    host, boot, space, process, began = (*text.split(" "), "", "", "", "", "")[:5]
    if (host, boot, space) != (os.uname().nodename, _boot(), process_space()):
        return None
    return bool(began) and began == _began_at(process)


def _seen_for(path: Path, sign: str) -> float:
    """Return for how many seconds this host has seen this sign of life unchanged."""
    file = path / FOLDER / f"seen-from-{os.uname().nodename}"
    boot, since, before = (*read_text(file).rstrip("\n").split(" ", 2), "", "", "")[:3]
    now = time.monotonic()
    if (boot, before) == (_boot(), sign) and _seconds(since) <= now:
        return now - _seconds(since)
    with contextlib.suppress(OSError):
        file.parent.mkdir(mode=0o700, exist_ok=True)
        write_text(file, f"{_boot()} {now:.3f} {sign}\n", durable=False)
    return 0.0


def make_once(file: Path, text: str, write: Callable[[str, str], None] = write_text) -> str:
    """Make a file with this text at once, unless it exists. Returns the text that it has now. Raises OSError.

    ``write`` makes the draft that gets the file's name; it decides how long this waits for the disk.
    """
    draft = f"{file.parent}/.{os.urandom(8).hex()}"
    try:
        write(draft, f"{text}\n")
        os.link(draft, file)
        return text.strip()
    except FileExistsError:
        pass
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        with contextlib.suppress(FileExistsError), open(file, "x", encoding="utf-8") as made:
            made.write(f"{text}\n")
    finally:
        with contextlib.suppress(OSError):
            os.unlink(draft)
    return read_text(file).strip()  # also where NFS lost the answer to a link that it made


def this_process() -> str:
    """Return a name of this process that no other one ever has: host, boot, process space, number and beginning."""
    process = os.getpid()
    return f"{os.uname().nodename} {_boot()} {process_space()} {process} {_began_at(str(process))}"


def _boot() -> str:
    """Return what names this start of this machine: since then its monotonic clock counts."""
    return read_text("/proc/sys/kernel/random/boot_id").strip()


def process_space() -> str:
    """Return what names the space of process numbers, which containers have of their own."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return "unknown"


def _began_at(process: str) -> str:
    """Return when a process began, in clock ticks (proc(5), field 22 of stat); empty if it has ended."""
    fields = read_text(f"/proc/{process}/stat").rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] not in "ZX" else ""


def _stamp(file: Path) -> str:
    try:
        return str(file.stat().st_mtime_ns)
    except OSError:
        return ""


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
