"""What is known of a probe job after its end, and what a check of it says; it decides nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from hpclaunch.core.records import record
from hpclaunch.core.scheduler_rows import SchedulerRow, scheduler_row
from hpclaunch.core.spec import JAX, PYTORCH, TENSORFLOW
from hpclaunch.launchers import LauncherRow, launcher_row
from hpclaunch.schedulers import UNOPENED_LOG

Verdict = Literal["PASS", "WARN", "FAIL"]
Facts = Mapping[str, Any]
"""What one rank reported (training/doctor/rank_probe.py), or the script's spec as plain values."""
_LONGEST_LINE = 300


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
    see. ``mpi_types``: the types of MPI that the launcher has here.
    """

    spec: Facts
    state: str
    exit_code: str = ""
    reason: str = ""
    log: str | None = None
    ranks: Sequence[Facts] = ()
    mark: str = ""
    mpi_types: Sequence[str] = ()

    @property
    def launcher(self) -> LauncherRow:
        """The row of the launcher that started the ranks."""
        return launcher_row(self.spec["launcher"])

    @property
    def scheduler(self) -> SchedulerRow:
        """The row of the scheduler that ran the job."""
        return scheduler_row(self.spec["scheduler"])

    @property
    def framework(self) -> str:
        """The framework that the probe was made for."""
        chosen = [choice["value"] for choice in self.spec.get("choices", ()) if choice["key"] == "framework"]
        return next((name for name in chosen if name in (PYTORCH, JAX)), TENSORFLOW)

    @property
    def framework_title(self) -> str:
        """The framework's name for a reader."""
        return {PYTORCH: "PyTorch", JAX: "JAX"}.get(self.framework, "TensorFlow")

    @property
    def has_no_log(self) -> bool:
        """Whether the scheduler could not open the job's log."""
        return self.reason == UNOPENED_LOG

    @property
    def log_lines(self) -> list[str]:
        """The lines of the log that are not empty, each with single spaces."""
        return [" ".join(line.split()) for line in (self.log or "").splitlines() if line.strip()]

    @property
    def error_line(self) -> str:
        """The most useful line of the log: the script's own error, else the scheduler's, else the last line."""
        lines = self.log_lines
        for form in (r"hpclaunch: .*", self.scheduler.error_lines, r".*(rror|annot|ailed).*"):
            errors = [line for line in lines if re.fullmatch(form, line)]
            if errors:
                return errors[0][:_LONGEST_LINE]
        return lines[-1][:_LONGEST_LINE] if lines else ""

    def values_of(self, key: str) -> list[Any]:
        """Return what the ranks reported under ``key``, of those ranks that reported it."""
        return [rank[key] for rank in self.ranks if key in rank]

    def problem_in(self, step: str) -> str:
        """Return the first problem that a rank reported in a step; empty if none did."""
        problems = (rank["problem"] for rank in self.ranks if rank.get("problem") and rank["step"] == step)
        return next(problems, "")


def framework_build(rank: Facts) -> Facts:
    """Return the build of the framework that a rank loaded; nothing if it loaded none."""
    found: Facts = next((rank[name] for name in (TENSORFLOW, PYTORCH, JAX) if rank.get(name)), {})
    counted = (rank.get("world") or {}).get("gpus")  # JAX counts its GPUs only once the ranks have met
    return found if counted is None else {**found, "gpus": counted}


GPUS: Literal["GPUs"] = "GPUs"
PATHS: Literal["shared paths"] = "shared paths"
"""Subjects of checks and of refusals."""


def hint_of(subject: str, scheduler: SchedulerRow) -> str:
    """Return the advice for a failed check of a subject; empty if there is none."""
    if subject == PATHS:
        return "use --runs-dir FOLDER on a file system that all nodes share"
    if subject != GPUS:
        return ""
    listing = f"; {scheduler.gpu_listing} shows the GPUs that {scheduler.title} has" if scheduler.gpu_listing else ""
    return f"check 'gpus' and gpu_type in the site file{listing}"
