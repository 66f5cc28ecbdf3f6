"""How Slurm's programs are asked: without what would change their answer, and never for longer than a minute."""

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
    """What a program wrote, and whether it succeeded."""

    ok: bool
    text: str = ""
    said: str = ""

    @property
    def words(self) -> str:
        """Its complaint on one line."""
        return " ".join(self.said.split()) or "failed without a word"


def ask(command: Sequence[str], without: Iterable[str] = (), text: str = "") -> Answer:
    """Run one of Slurm's programs; one that is missing or does not answer is an answer too.

    ``without`` names variables that it must not see, beside those that would change the form of its answer.
    """
    unseen = {*without, *(name for name in os.environ if name.startswith(_REFORMATTING))}
    environment = {name: value for name, value in os.environ.items() if name not in unseen}
    environment["SLURM_BITSTR_LEN"] = "0"  # else long lists of an array's tasks are cut short
    content = text.encode("utf-8", errors="surrogateescape")
    try:
        done = subprocess.run(
            command, input=content, capture_output=True, timeout=_SECONDS, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        return Answer(ok=False, said=f"did not answer within {_SECONDS} s")
    except FileNotFoundError:
        return Answer(ok=False, said="is not on this machine")
    except (OSError, ValueError) as error:
        return Answer(ok=False, said=str(error))
    answer, said = (stream.decode("utf-8", errors="replace") for stream in (done.stdout, done.stderr))
    return Answer(ok=done.returncode == 0, text=answer, said=said)


def leaking(environment: Mapping[str, str]) -> list[str]:
    """Return the variables that sbatch must not see: they would override the script, or come from another job."""
    return sorted(name for name in environment if name.startswith(_LEAKING) and name not in _KEPT)
