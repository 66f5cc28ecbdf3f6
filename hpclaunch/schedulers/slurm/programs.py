"""Runs Slurm's programs, without variables that would change their output, and for at most a minute."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence

from hpclaunch.core.records import record

_SECONDS = 60
_LEAKING = ("SLURM_", "SBATCH_", "SRUN_", "PMI", "OMPI_")
_KEPT = frozenset({"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT"})
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


def ask(command: Sequence[str], without: Iterable[str] = (), text: str = "") -> Answer:
    """Run one of Slurm's programs with ``text`` as its input; one that is missing or hangs gives a failed answer.

    ``without``: variables to remove, in addition to those that would change the format of the output.
    """
    unseen = {*without, *(name for name in os.environ if name.startswith(_REFORMATTING))}
    environment = {name: value for name, value in os.environ.items() if name not in unseen}
    environment["SLURM_BITSTR_LEN"] = "0"  # else Slurm shortens long lists of an array's tasks
    content = text.encode("utf-8", errors="surrogateescape")
    try:
        done = subprocess.run(
            command, input=content, capture_output=True, timeout=_SECONDS, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        return Answer(ok=False, messages=f"did not answer within {_SECONDS} s")
    except FileNotFoundError:
        return Answer(ok=False, messages="is not on this machine")
    except (OSError, ValueError) as error:
        return Answer(ok=False, messages=str(error))
    answer, messages = (stream.decode("utf-8", errors="replace") for stream in (done.stdout, done.stderr))
    return Answer(ok=done.returncode == 0, text=answer, messages=messages)


def leaking(environment: Mapping[str, str]) -> list[str]:
    """Return the variables that sbatch must not get: they would override the script, or belong to another job."""
    return sorted(name for name in environment if name.startswith(_LEAKING) and name not in _KEPT)
