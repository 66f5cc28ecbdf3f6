"""What is known of a probe job after its end, and what a check of it says; it decides nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from hpclaunch.core.records import record

Verdict = Literal["PASS", "WARN", "FAIL"]
Facts = Mapping[str, Any]
"""What one rank reported (training/doctor/rank_probe.py), or the script's spec as plain values."""


@record
class Check:
    """One check: what was found, and what to do if it is not as promised."""

    name: str
    verdict: Verdict
    what: str
    next: str = ""


@record
class ProbeEvidence:
    """What is known of the probe job after its end. ``spec`` as in spec.json; ``ranks`` in the order of their numbers.

    ``log``: the text of its log, None without a file. ``mark``: a variable of the submitting shell that no rank should
    see. ``mpi_types``: the types that ``srun --mpi=list`` shows here.
    """

    spec: Facts
    state: str
    exit_code: str = ""
    reason: str = ""
    log: str | None = None
    ranks: Sequence[Facts] = ()
    mark: str = ""
    mpi_types: Sequence[str] = ()


HINTS = {
    "GPUs": "check 'gpus' and gpu_type in the site file; sinfo --format='%P %G' shows the GPUs that Slurm has",
    "shared paths": "use --runs-dir FOLDER on a file system that all nodes share",
}
"""Advice by the subject of a failed check."""
