"""What a probe job's ranks reported -> PASS, WARN or FAIL for each promise of the script, and a next step. Pure.

Each module of this folder checks one subject. What they have in common: a check looks at all ranks, and its text names
the first rank, host or value that is not as promised.
"""

from __future__ import annotations

from hpclaunch.actions.clusters.diagnosis.all_reduce import all_reduce_check
from hpclaunch.actions.clusters.diagnosis.cpus import cpu_checks
from hpclaunch.actions.clusters.diagnosis.device import device_check
from hpclaunch.actions.clusters.diagnosis.environment import environment_check
from hpclaunch.actions.clusters.diagnosis.evidence import Check, ProbeEvidence
from hpclaunch.actions.clusters.diagnosis.gpus import gpu_check
from hpclaunch.actions.clusters.diagnosis.libraries import library_checks
from hpclaunch.actions.clusters.diagnosis.mpi import mpi_check, refused_mpi_check
from hpclaunch.actions.clusters.diagnosis.process_sets import process_sets_check
from hpclaunch.actions.clusters.diagnosis.ranks import path_check, rank_check
from hpclaunch.actions.clusters.diagnosis.topology import affinity_check


def diagnose(evidence: ProbeEvidence) -> list[Check]:
    """Return all checks, in the order in which a run would fail."""
    if _has_not_begun(evidence):
        return [_end_check(evidence)]
    paths = path_check(evidence)
    if not evidence.ranks:
        # Paths that failed already explain why no rank reported.
        if paths.verdict != "PASS":
            return [paths]
        return [paths, refused_mpi_check(evidence) or _end_check(evidence)]
    checks = [
        paths,
        rank_check(evidence),
        mpi_check(evidence),
        gpu_check(evidence),
        *cpu_checks(evidence),
        *_known_check(affinity_check(evidence)),
        environment_check(evidence),
        *library_checks(evidence),
        *_known_check(all_reduce_check(evidence)),
        *_known_check(process_sets_check(evidence)),
        *_known_check(device_check(evidence)),
    ]
    explained = any(check.verdict == "FAIL" for check in checks)
    if evidence.state == "COMPLETED" or explained:
        return checks
    return [*checks, _end_check(evidence)]


def _known_check(check: Check | None) -> list[Check]:
    return [] if check is None else [check]


def _has_not_begun(evidence: ProbeEvidence) -> bool:
    """Whether the job never ran, for example because it was cancelled in the queue."""
    left_nothing = evidence.log is None and not evidence.ranks
    # Without a log folder a job leaves nothing either, although it began.
    return left_nothing and not evidence.has_no_log and evidence.state not in ("COMPLETED", "FAILED", "TIMEOUT")


def _end_check(evidence: ProbeEvidence) -> Check:
    """Return the failed check of a job that did not end as it should."""
    what = "the state of the job is unknown"
    if evidence.state != "UNKNOWN":
        code = f", exit code {evidence.exit_code}" if evidence.exit_code not in ("", "0:0") else ""
        what = f"the job ended as {evidence.state}{code}"
    if evidence.reason:
        what += f" ({evidence.reason})"
    if evidence.error_line:
        what += f": {evidence.error_line}"
    hint = "try again: hpclaunch doctor"
    if evidence.log is not None:
        hint = f"read its log: hpclaunch logs {evidence.spec['run_dir'].rpartition('/')[2]}"
    return Check(name="job", verdict="FAIL", what=what, next=hint)
