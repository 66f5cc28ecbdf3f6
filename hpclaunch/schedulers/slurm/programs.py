"""Runs Slurm's programs, without variables that would change their output, and for a bounded time and answer."""

from __future__ import annotations

import contextlib
import math
import os
import re
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar

from hpclaunch.core import waiting
from hpclaunch.core.records import record

_SECONDS = 60
_LEAST_BYTES = 2**20
_BYTES_A_JOB = 2**10
"""Room for a line about one job: its folder, its nodes and its reason."""
_PING_SECONDS = 4
_KILLED_S = 5
_RECENT_SECONDS = 5
"""How long an answer counts as the present one: the steps of one submission ask the same in turn."""
_CHOOSING = ("PATH", "SLURM_CONF")
"""The variables that decide which cluster Slurm's programs ask."""
_REDIRECTING = ("SLURM_CLUSTERS", "SBATCH_CLUSTERS")
"""Variables of a shell that would send a question about one cluster to others: its programs never get them."""
_ADDRESSABLE = frozenset({"sacct", "sbatch", "scancel", "scontrol", "sinfo", "squeue", "sshare"})
"""The programs that can ask another cluster, with --clusters; each gets its address from slurmdbd."""
_addressed: ContextVar[str] = ContextVar("addressed", default="")
"""The other cluster that is asked now, or several, joined by commas; empty: that of this machine."""
NO_NODES = ("", "None assigned")
"""The nodes of a job that has none, as squeue and sacct print them."""
_answers: dict[tuple[str | None, ...], tuple[float, str]] = {}
"""Recent answers: (question, cluster) -> time (seconds of the monotonic clock), text."""
_PING_QUESTION = "ping"
_PING = re.compile(r"^Slurmctld\(\w+\) at (\S+) is (\w+)$", re.MULTILINE)
_LEAKING = ("SLURM_", "SBATCH_", "SALLOC_", "SRUN_", "PMI", "OMPI_")
_KEPT = frozenset({"SLURM_CONF", "SLURM_TIME_FORMAT"})
_REFORMATTING = ("SQUEUE_", "SACCT_", "SINFO_", "SCANCEL_")


@record
class Answer:
    """The output of a program (``text``), its ``messages``, and whether it succeeded."""

    ok: bool
    text: str = ""
    messages: str = ""

    @property
    def words(self) -> str:
        """Its messages on one line."""
        return " ".join(self.messages.split()) or "failed without a message"


@contextlib.contextmanager
def asking(clusters: str) -> Iterator[None]:
    """Let the programs ask these clusters meanwhile, that of this machine if the text is empty."""
    before = _addressed.set(clusters)
    try:
        yield
    finally:
        _addressed.reset(before)


def asked_cluster() -> str:
    """Return the other cluster that the programs ask now, or several; empty: that of this machine."""
    return _addressed.get()


def with_address(command: Sequence[str]) -> list[str]:
    """Return a command of Slurm's, with the option that lets it ask the cluster which is to be asked now."""
    program, *rest = command
    clusters = asked_cluster()
    return [program, *([f"--clusters={clusters}"] if clusters and program in _ADDRESSABLE else []), *rest]


def undirected(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a shell without those that send what Slurm's programs do to other clusters."""
    return {name: value for name, value in environment.items() if name not in _REDIRECTING}


def ask(
    command: Sequence[str],
    without: Iterable[str] = (),
    text: str = "",
    seconds: float = _SECONDS,
    undecodable: str = "replace",
    epoch_times: bool = False,
    most: int = waiting.MOST_BYTES,
) -> Answer:
    """Run one of Slurm's programs with ``text`` as its input; one that is missing or hangs gives a failed answer.

    It asks the cluster of ``asking``, whatever the shell says.

    So does one that writes more than ``most`` bytes. It is ended then, as one that hangs is.

    ``without``: variables to remove, in addition to those that would change the format of the output.
    ``undecodable``: what becomes of bytes in its output that are not UTF-8 (``surrogateescape`` keeps them, for paths).
    ``epoch_times``: print times as seconds of the epoch, which are the same in every time zone.
    """
    unseen = {*without, *(name for name in os.environ if name.startswith(_REFORMATTING))}
    environment = {name: value for name, value in undirected(os.environ).items() if name not in unseen}
    environment["SLURM_BITSTR_LEN"] = "0"  # else Slurm shortens long lists of an array's tasks
    if epoch_times:
        environment["SLURM_TIME_FORMAT"] = "%s"
    content = text.encode("utf-8", errors="surrogateescape")
    try:
        code, output, complaints = _run(with_address(command), content, seconds, environment, most)
    except subprocess.TimeoutExpired:
        return Answer(ok=False, messages=f"did not answer within {seconds:g} s")
    except waiting.TooLong as error:
        return Answer(ok=False, messages=f"was ended, as {error}")
    except FileNotFoundError:
        return Answer(ok=False, messages="is not on this machine")
    except (OSError, ValueError) as error:
        return Answer(ok=False, messages=str(error))
    if code == 0 and command[0] == "scontrol" and command[1] != "ping":
        keep_answer(_PING_QUESTION, "not down")  # as slurmctld has just answered
    answer, messages = output.decode("utf-8", undecodable), complaints.decode("utf-8", "replace")
    return Answer(ok=code == 0, text=answer, messages=messages)


def _run(
    command: Sequence[str], content: bytes, seconds: float, environment: Mapping[str, str], most: int
) -> tuple[int, bytes, bytes]:
    """Return the exit code, the output and the messages. Raises TimeoutExpired, TooLong, OSError and ValueError.

    A process that the program left behind, and that keeps its output open, is not waited for after that.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment) as process:
        try:
            output, complaints = waiting.communicate(process, command[0], seconds, content, most=most)
        except BaseException:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # Popen waits only 0.25 s after Ctrl-C
                process.wait(_KILLED_S)
            raise
    return process.returncode, output, complaints


def room_for(jobs: int) -> int:
    """Return the most bytes of an answer about so many jobs, of which each task of an array counts."""
    return min(_LEAST_BYTES + jobs * _BYTES_A_JOB, waiting.MOST_BYTES)


def cluster_key() -> tuple[str | None, ...]:
    """Return what decides which cluster Slurm's programs ask."""
    return (*(os.environ.get(name) for name in _CHOOSING), asked_cluster())


def recent_answer(question: str) -> str | None:
    """Return the answer that ``keep_answer`` kept for this cluster at most five seconds ago; else None."""
    when, text = _answers.get((question, *cluster_key()), (-math.inf, ""))
    return text if time.monotonic() - when < _RECENT_SECONDS else None


def keep_answer(question: str, text: str) -> None:
    """Keep an answer of this cluster for ``recent_answer``."""
    key = (question, *cluster_key())
    _answers[key] = (time.monotonic(), text)


def down_controllers() -> str:
    """Return the controllers' host names if Slurm itself reports that all of them are down; else an empty text.

    ``scontrol ping`` says so in milliseconds, where other programs try again for MessageTimeout (10 to 100 s). If it
    is silent or missing, nothing is known, and the answer is empty. Such an answer counts for five seconds, and so does
    any other of slurmctld's. Of another cluster nothing is known: ping asks the controllers in slurm.conf.
    """
    if asked_cluster() or recent_answer(_PING_QUESTION) is not None:
        return ""
    answer = ask(["scontrol", "ping"], seconds=_PING_SECONDS)
    states = _PING.findall(answer.text)
    if {state for _, state in states} == {"DOWN"}:
        return ", ".join(host for host, _ in states)
    keep_answer(_PING_QUESTION, "not down")
    return ""


def leaking(environment: Mapping[str, str]) -> list[str]:
    """Return the variables that sbatch must not get: they would override the script, or belong to another job."""
    return sorted(name for name in environment if name.startswith(_LEAKING) and name not in _KEPT)
