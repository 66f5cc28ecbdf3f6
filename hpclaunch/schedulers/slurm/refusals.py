"""What the output of sbatch says: a job ID, a definite refusal, a controller that was not reached, or nothing certain.

Only the texts of this module mean that nothing was queued. They are those of Slurm's own table (slurm_errno.c; 22.05
and 24.11 were compared) which the controller sends back instead of a job, and those of sbatch before it calls the
controller (sbatch.c, opt.c). After every other ending of sbatch the job may be queued.
"""

from __future__ import annotations

import re
from typing import Literal

from hpclaunch.core.records import record

Meaning = Literal["queued", "refused", "unreachable", "unknown"]

_REFUSALS = frozenset(
    {
        "Access denied to requested reservation",
        "Access/permission denied",
        "Burst Buffer permission denied",
        "Burst Buffer request invalid",
        "Burst Buffer resource limit exceeded",
        "CPU count specification invalid",
        "Cannot request more threads per core than the job allocation",
        "Circular job dependency",
        "Duplicate generic resource (gres) specification",
        "Environment is missing in job",
        "Invalid --nice value",
        "Invalid GRES specification (with and without type identification)",
        "Invalid KNL configuration (MCDRAM or NUMA option)",
        "Invalid QOS specification, relative QOS can only be used in a single partition per cluster.",
        "Invalid Trackable RESource (TRES) specification",
        "Invalid account or account/partition combination specified",
        "Invalid cluster feature specification",
        "Invalid extra constraints specification",
        "Invalid feature specification",
        "Invalid generic resource (gres) specification",
        "Invalid group id",
        "Invalid job array specification",
        "Invalid license specification",
        "Invalid mcs_label specified",
        "Invalid node name specified",
        "Invalid or unknown association",
        "Invalid partition name specified",
        "Invalid preferred feature specification",
        "Invalid qos specification",
        "Invalid time-min specification (exceeds job's time or other limits)",
        "Invalid user id",
        "Invalid wckey specification",
        "Job --batch option is invalid or not a subset of --constraint",
        "Job --batch option is invalid or not a subset of --constraints",
        "Job cannot be submitted without the current working directory specified.",
        "Job dependency problem",
        "Job script not specified",
        "Job size specification needs to be provided",
        "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
        "MaxJobCount limit reached",
        "Memory required by task is not available",
        "More processors requested than permitted",
        "Multiple KNL NUMA and/or MCDRAM constraints require use of a heterogeneous job",
        "Multiple partition job request not supported when a partition is set in the association",
        "No partition specified or system default partition",
        "Node count specification invalid",
        "Partition in DOWN state",
        "Pathname of a file, directory or other parameter too long",
        "Requested GRES option unsupported by configured SelectType plugin",
        "Requested account has breached requested QOS usage threshold",
        "Requested more tasks than available processors",
        "Requested node configuration is not available",
        "Requested nodes not in this partition",
        "Requested operation is presently disabled",
        "Requested operation not supported on this system",
        "Requested partition configuration not available now",
        "Requested reservation is invalid",
        "Requested reservation not usable now",
        "Requested time limit is invalid (missing or exceeds some limit)",
        "Requested topology configuration is not available",
        "Required node not available (down, drained or reserved)",
        "Required partition not available (inactive or drain)",
        "System submissions disabled",
        "Task count specification invalid",
        "Task distribution specification invalid",
        "Time limit specification required, but not provided",
        "Unable to create job record, try again",
        "Unspecified error",  # the usual end of a job_submit plug-in's refusal, whose own words stand before it
        "User's group not permitted to use this partition",
        "X11 forwarding not available",
    }
)
_UNREACHABLE = frozenset(
    {
        "Connection refused",
        "Controller is in standby mode, try a different controller",
        "Rate limit exceeded, please retry later",
        "Rate limit exceeded, please retry momentarily",
        "Slurm backup controller in standby mode",
        "Unable to contact slurm controller (connect failure)",
    }
)
"""Texts which mean that no controller took the request, so that it can be sent again."""
_SUBMITTED = re.compile(rb"^Submitted batch job ([0-9]{1,18})(?: on cluster \S+)?[ \t\r]*$", re.MULTILINE)
# Most submissions are accepted, so what follows is compiled only where it is needed.
_FAILED = r"(?m)^(?:sbatch: (?:error|fatal): )?Batch job submission failed: (.*?)\s*$"
_NOT_SENT = (
    r"(?m)^sbatch: (?:(?:error|fatal): )?(?:Invalid --\S+ specification|.* is not a valid node count"
    r"|unrecognized option .*|option '.*' (?:is ambiguous|requires an argument|doesn't allow an argument).*"
    r"|invalid option -- .*|Unable to open file .*|Batch script (?:is empty!|contains .*)"
    r"|This does not look like a batch script\..*|Invalid directive found in batch script: .*"
    r"|Invalid generic resource \(gres\) specification|cli_filter plugin terminated with error)\s*$"
)
"""Lines that sbatch writes before it would call the controller, and then ends (seen with 22.05.8)."""
_NO_SOURCE = r"(?m)^sbatch: (?:error|fatal): .*establish (?:a )?configuration source.*$"
_SIGNALS = range(124, 193)
"""Exit codes of timeout(1) and of shells after a signal (128 and its number): sbatch did not end by itself."""


@record
class SbatchAnswer:
    """One call of sbatch: its meaning, the job ID of a queued job, and its ``words`` for the user."""

    meaning: Meaning
    job_id: str = ""
    words: str = ""


def read_answer(code: int | None, out: bytes, err: bytes) -> SbatchAnswer:
    """Return the meaning of what sbatch printed, and of its exit code (None: it did not end in time).

    A job ID counts whatever else was printed, in any encoding, and whatever the exit code.
    """
    for stream in (out, err):
        ids = {found[1].decode() for found in _SUBMITTED.finditer(stream)}
        if len(ids) == 1:
            return SbatchAnswer(meaning="queued", job_id=ids.pop())
    text, output = (stream.decode("utf-8", errors="replace") for stream in (err, out))
    words = " ".join(text.replace("sbatch: error:", "").split()) or " ".join(output.split())
    return SbatchAnswer(meaning=_meaning_of(code, text), words=words or _silent_ending(code))


def _meaning_of(code: int | None, text: str) -> Meaning:
    if code is None or code <= 0 or code in _SIGNALS:
        return "unknown"
    reasons = set(re.findall(_FAILED, text))
    if reasons:
        if reasons <= _UNREACHABLE:
            return "unreachable"
        return "refused" if reasons <= _REFUSALS else "unknown"
    if re.search(_NO_SOURCE, text):
        return "unreachable"
    return "refused" if re.search(_NOT_SENT, text) else "unknown"


def _silent_ending(code: int | None) -> str:
    if code is None or code == _SIGNALS[0]:
        return "sbatch did not answer in time"
    if code < 0 or code in _SIGNALS:
        return f"sbatch was ended by signal {-code if code < 0 else code - 128}"
    return f"sbatch ended with exit code {code} and without a message"
