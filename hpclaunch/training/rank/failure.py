"""Ends a rank at once when training fails: it records the exit code, prints the reason, and waits for no other rank."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
import traceback
from typing import Any, Callable, Iterator

from hpclaunch.training.rank import fence

EXIT_FILE_VARIABLE = "HPCLAUNCH_EXIT_FILE"
NAME_SUFFIX = ".rank"  # of the file beside the exit file, with the name of the rank that failed first
MOST_TEXT = 300  # characters of another rank's name, and of an error that is not the first

FINALIZE_S = 10.0  # the longest wait for Horovod to end on all ranks

# The launcher ends all ranks as soon as one has ended. So the others wait, until the rank with the message has printed.
HEAD_START_S = 1.5


class TrainingError(Exception):
    """A failure that a person can correct: its text says what is wrong, where, what is allowed and what to do."""

    exit_code = 1


class AgreedError(TrainingError):
    """The same failure on every rank at the same time; only the rank with `speaks` prints it."""

    prefix = "error: "

    def __init__(self, message: str, speaks: bool) -> None:
        super().__init__(message)
        self.speaks = speaks


class RunAgain(AgreedError):
    """All ranks were asked to stop and have saved their state; the script should restart the run (docs/contract.md).

    75 is "temporary failure, try again" in sysexits.h.
    """

    exit_code = 75
    prefix = ""


class Superseded(AgreedError):
    """All ranks know that a later start has taken the run over (rank.fence); nothing was saved."""

    exit_code = 75
    prefix = ""

    def __init__(self, speaks: bool) -> None:
        super().__init__(fence.reason(), speaks)


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """Run a block; if it raises, record the exit code, print one message and end the process with os._exit.

    It is os._exit because Horovod's exit handler communicates with the other ranks: it can wait for one that is busy in
    a collective, and it makes the others fail with errors of their own before this rank has printed its message.
    `sys.exit(0)` is not a failure; Ctrl-C gives 130. In a superseded start every failure gives 75: it may come from a
    file that the later start has removed, or from a rank that has ended before.
    """
    try:
        yield
    except SystemExit as error:
        if error.code in (None, 0):
            raise
        _exit(error.code)
    except (RunAgain, Superseded) as error:
        _leave_together(error)
    except AgreedError as error:
        leave_if_superseded()
        if not error.speaks:
            time.sleep(HEAD_START_S)
        leave(error.exit_code, str(error) if error.speaks else "", error.prefix)
    except TrainingError as error:
        leave_as_first(error.exit_code, str(error))
    except KeyboardInterrupt:
        leave(130, "{}: interrupted".format(who()))
    except Exception as error:
        leave_if_superseded()
        if _follows_another_rank(error):
            time.sleep(HEAD_START_S)
            # The rank that failed prints the error.
            leave(1, "{}: stopped because {} ended".format(who(), _failed_first() or "another rank"), prefix="")
        name = type(error).__name__
        words = "stopped by the {} below\n{}".format(name, traceback.format_exc().rstrip())
        leave_as_first(1, words, "{}: {}".format(name, error))


def record_exit_code(code: int, path: str | None = None) -> bool:
    """Write `code` to the exit file unless another rank has already written one; True if this call wrote it.

    The file is created exclusively: the first failing rank counts, not those that fail because of it.
    """
    path = path or os.environ.get(EXIT_FILE_VARIABLE)
    if not path:
        return False
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except OSError:  # another rank was first, or the folder is gone; the message on stderr remains
        return False
    try:
        os.write(descriptor, "{}\n".format(_status(code)).encode("ascii"))
    finally:
        os.close(descriptor)
    return True


def first_to_fail(code: int) -> bool:
    """Whether no rank has failed before this one; records its exit code and its name. True without an exit file."""
    path = os.environ.get(EXIT_FILE_VARIABLE, "")
    if not record_exit_code(code, path):
        return not os.path.exists(path)
    with contextlib.suppress(OSError), open(path + NAME_SUFFIX, "w", encoding="utf-8") as file:
        file.write(who())
    return True


def _failed_first() -> str:
    """The rank that failed first, in words; empty if it is not known, as after a SIGKILL."""
    try:
        with open(os.environ.get(EXIT_FILE_VARIABLE, "") + NAME_SUFFIX, encoding="utf-8") as file:
            return file.read(MOST_TEXT)
    except (OSError, UnicodeDecodeError):
        return ""


def leave_if_superseded() -> None:
    """End this process with 75 if a later start has taken the run over; call it before what changes the run directory.

    Only the first rank to find it prints the reason. It is os._exit, at once and for this rank alone. An exception
    would pass through handlers that change the folder on the way, or take it for a failure of their own work. No other
    rank needs this one, because they belong to the same start: none of them has anything more to write. One that waits
    in a collective sees the connection break, and looks itself (`reported`); else the launcher ends it, or the watch.
    """
    if fence.is_superseded():
        first = first_to_fail(Superseded.exit_code)
        leave(Superseded.exit_code, fence.reason() if first else "", Superseded.prefix)


def leave_as_first(code: int, reason: str, short: str = "") -> None:
    """End this process: the first rank that fails prints the reason, every later one a single line that names it.

    short: the reason for that line; without it, the first line of the reason. In a superseded start: as
    `leave_if_superseded`.
    """
    leave_if_superseded()
    if first_to_fail(code):
        leave(code, "{}: {}".format(who(), reason))
    _leave_as_later(code, short or reason)


def _leave_as_later(code: int, reason: str) -> None:
    time.sleep(HEAD_START_S)
    line = reason.strip().split("\n")[0][:MOST_TEXT]
    leave(code, "{}: failed after {}: {}".format(who(), _failed_first() or "another rank", line), prefix="")


def _exit(code: Any) -> None:
    """End this process as sys.exit(code) does, for a code that is not 0."""
    leave_if_superseded()
    if not isinstance(code, int):
        if first_to_fail(1):
            leave(1, str(code))
        _leave_as_later(1, str(code))
    first_to_fail(code)
    leave(code, "")


def _leave_together(error: RunAgain | Superseded) -> None:
    """End this process with all others: Horovod ends first, else Open MPI complains about peers that disconnect.

    JAX and TensorFlow's coordination service end first as well: without rank 0 it is gone, and every other rank would
    abort.
    """
    record_exit_code(error.exit_code)
    if error.speaks:
        print(str(error), file=sys.stderr, flush=True)
    shutdown = _shutdown_of_all()
    if shutdown is not None:
        ending = threading.Thread(target=shutdown, daemon=True)
        ending.start()
        ending.join(FINALIZE_S)
    if not error.speaks:
        time.sleep(HEAD_START_S)
    leave(error.exit_code, "")


def _shutdown_of_all() -> Callable[[], Any] | None:
    """What ends the communication of all ranks together, by Horovod, TensorFlow or JAX; None if none was loaded."""
    horovod, jax = sys.modules.get("horovod.tensorflow"), sys.modules.get("jax")
    strategy = sys.modules.get("hpclaunch.training.rank.strategy_ranks")
    if strategy is not None:
        return strategy.end
    if horovod is not None:
        return horovod.shutdown
    return None if jax is None else jax.distributed.shutdown


def who() -> str:
    """This rank in words: "rank 3 on node17", or "node17" before Horovod has started, and without a launcher."""
    host = socket.gethostname()
    horovod = sys.modules.get("horovod.tensorflow")
    try:
        return "rank {} on {}".format(horovod.rank(), host)  # type: ignore[union-attr]
    except Exception:  # not imported, or not initialised
        return "rank {} on {}".format(os.environ["RANK"], host) if os.environ.get("RANK") else host


def leave(code: int, message: str, prefix: str = "error: ") -> None:
    """End this process now: record the exit code, print the message (empty: none) on stderr, wait for no other rank."""
    record_exit_code(code)
    if message:
        print(prefix + message, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_status(code))


def _status(code: int) -> int:
    """What the process of a failed rank ends with: the system keeps the lowest byte, and 256 would be a success."""
    return code & 0xFF or 1


def _follows_another_rank(error: Exception) -> bool:
    """Whether Horovod, Gloo, NCCL or gRPC reports a broken collective, as other ranks see when one has failed."""
    if type(error).__name__ == "HorovodInternalError":
        return True
    text = str(error)
    if "Collective ops is aborted by" in text and "GRPC error information from remote target" in text:
        return True  # MultiWorkerMirroredStrategy; a failure of this rank itself names no remote target
    return any(name in text for name in ("Horovod", "gloo", "Gloo", "NCCL")) and any(
        sign in text
        for sign in (
            "has been shut down",
            "Connection reset",
            "Connection closed",
            "Read error",
            "Broken pipe",
            "Write error",
            "remote process exited",
        )
    )
