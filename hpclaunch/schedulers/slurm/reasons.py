"""Explains why a job waits and what to do, for each reason of Slurm 22.05 to 26.05, and sorts refusals.

The reasons stand in Slurm's ``src/common/job_state_reason.c`` (before 23.11: ``job_reason_string`` of
``slurm_protocol_defs.c``), their meanings in job_reason_codes.html. The texts that Slurm writes in place of a reason
(``state_desc``) stand in ``src/slurmctld``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from hpclaunch.core.errors import Subject

_WAIT = "nothing to do"
_STAFF = "ask the site's staff"
_EXACT = {
    "AccountNotAllowed": ("the partition does not accept this account", "another --account or --partition"),
    "AccountingPolicy": ("a limit of the account or QOS is reached", _WAIT),
    "AssociationJobLimit": ("the account has as many jobs as its association allows", _WAIT),
    "AssociationResourceLimit": ("the account's limit on resources is reached", _WAIT),
    "AssociationTimeLimit": ("the account's limit on time is used up", "ask who manages the account"),
    "BadConstraints": ("no node matches the request", "cancel it, and request less or another --node-type"),
    "BeginTime": ("its earliest start time has not come: a requested one, or a pause after a requeue", _WAIT),
    "BlockFreeAction": ("the blocks of nodes that it needs are being freed", _WAIT),
    "BlockMaxError": ("the blocks of nodes that it needs are in error", _STAFF),
    "BurstBufferOperation": (
        "its burst buffer failed",
        "cancel it, and submit again; if it fails again, ask the staff",
    ),
    "BurstBufferResources": ("not enough burst-buffer space is free", _WAIT),
    "BurstBufferStageIn": ("its burst buffer is being filled", _WAIT),
    "Cleaning": ("it was requeued, and its last start is still being cleaned up", _WAIT),
    "Constraints": ("no node with the requested features is free now", _WAIT),
    "DeadLine": (
        "it cannot end before its --deadline",
        "cancel it, and submit with a later one or a shorter --walltime",
    ),
    "Dependency": ("it waits for another job", _WAIT),
    "DependencyNeverSatisfied": ("the job it waits for ended in a state that the dependency excludes", "cancel it"),
    "FedJobLock": ("the clusters of the federation have not agreed yet where it starts", _WAIT),
    "FrontEndDown": ("every front-end node is down, so Slurm cannot start its script", "wait for the site's staff"),
    "InactiveLimit": ("it did nothing for longer than the site allows (InactiveLimit)", "submit again"),
    "InvalidAccount": ("Slurm does not know the account", "cancel it, and submit with another --account"),
    "InvalidQOS": ("Slurm does not know the QOS", "cancel it, and submit with another --qos"),
    "JobArrayTaskLimit": ("as many tasks of its array as allowed are running", _WAIT),
    "JobHeldAdmin": ("an administrator holds it", _STAFF),
    "JobHeldUser": ("you hold it", "scontrol release JOBID"),
    "JobHoldMaxRequeue": (
        "it was requeued as often as the site allows, and is held",
        "look at its log before scontrol release JOBID",
    ),
    "JobLaunchFailure": ("it could not be started on its nodes", _STAFF),
    "Licenses": ("a licence that it needs is in use", _WAIT),
    "MaxMemPerLimit": (
        "it asks for more memory per CPU or per node than allowed",
        "cancel it, and request less --memory",
    ),
    "MaxPoweredUpNodes": ("as many cloud nodes as the site allows are powered up", _WAIT),
    "MpiPortsBusy": ("the ports for MPI on its nodes are in use", _WAIT),
    "NodeDown": ("a node that it needs is down", "leave --nodelist out, or wait for the site's staff"),
    "NonZeroExitCode": ("its last start ended with an exit code other than 0", "look at its log"),
    "NvidiaImexChannels": ("the NVIDIA IMEX channels of its nodes are in use", _WAIT),
    "OutOfMemory": ("its last start ran out of memory", "cancel it, and request more --memory"),
    "PartitionConfig": ("the partition has fewer nodes than it asks for", "cancel it, and request fewer --nodes"),
    "PartitionDown": ("the partition accepts jobs, but starts none now", "wait, or another --partition"),
    "PartitionInactive": ("the partition is closed", "wait, or another --partition"),
    "PartitionNodeLimit": ("the partition does not allow this number of nodes, or they are down", "other --nodes"),
    "PartitionTimeLimit": ("the walltime is above the partition's limit", "cancel it, and submit a shorter --walltime"),
    "PowerNotAvail": ("the site's power cap leaves too little power for it", _WAIT),
    "PowerReserved": ("the power that it needs is reserved", _WAIT),
    "Priority": ("jobs with a higher priority come first", _WAIT),
    "Prolog": ("its nodes are being prepared", _WAIT),
    "QOSJobLimit": ("the QOS has as many jobs as it allows", _WAIT),
    "QOSNotAllowed": ("the account or partition does not allow this QOS", "cancel it, and submit with another --qos"),
    "QOSResourceLimit": ("the QOS's limit on resources is reached", _WAIT),
    "QOSTimeLimit": ("the QOS's limit on time is used up", "another --qos"),
    "QOSUsageThreshold": ("the QOS wants a higher share than the account has left", "another --qos"),
    "RaisedSignal": ("its last start was ended by a signal", "look at its log"),
    "ReqNodeNotAvail": ("nodes that it needs are down, drained or reserved", "wait, or a shorter --walltime"),
    "Reservation": ("its reservation has not begun", _WAIT),
    "ReservationDeleted": ("its reservation was deleted, and it is held", "cancel it, and submit without"),
    "ReservationInvalid": ("its reservation cannot be used", "cancel it, and submit without, or ask who made it"),
    "Resources": ("it is next, and waits until enough nodes are free", _WAIT),
    "SchedDefer": ("it was to start at once, and this Slurm defers all starts", "submit it without --immediate"),
    "SystemFailure": ("Slurm, the network or a file system failed", _STAFF),
    "TimeLimit": ("its last start reached the walltime", "cancel it, and submit a longer --walltime"),
}
"""Reason -> its meaning, and what to do."""

_TEXTS = (
    ("launch failed requeued held", "it could not be started on its nodes, and is held", "scontrol release JOBID"),
    ("job requeued in held state", "it was requeued and is held", "scontrol release JOBID"),
    (
        "job requeued in special exit state",
        "its exit code is one after which this site holds a job, or somebody set it so",
        "look at its log before scontrol release JOBID",
    ),
    (
        "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
        "the nodes that it could use are down, drained, or kept for others",
        "wait, or another --partition",
    ),
    ("ReqNodeNotAvail.*Reserved for maintenance.*", "it would not end before a maintenance", "a shorter --walltime"),
    ("ReqNodeNotAvail.*", *_EXACT["ReqNodeNotAvail"]),
    ("Reservation .* was deleted", *_EXACT["ReservationDeleted"]),
    ("Reservation .* is invalid", *_EXACT["ReservationInvalid"]),
    ("RaisedSignal:.*", *_EXACT["RaisedSignal"]),
    (
        "uid [0-9]+ not in group permitted to use this partition .*",
        "the partition is not open to you",
        "cancel it, and submit with another --partition",
    ),
    ("Job is at or exceeds QOS .* group .*", "the QOS's allowance is used up", "another --qos, or ask for more"),
    (
        "Job is at or exceeds association .* group .*",
        "the account's allowance is used up",
        "another --account, or ask for more",
    ),
    (
        "Job is at or exceeds .* max TRES.*",
        "its nodes times its walltime are more than one job is allowed",
        "cancel it, and request fewer --nodes or a shorter --walltime",
    ),
    ("burst_buffer/.*Stage-out in progress", "its burst buffer is being emptied", _WAIT),
    ("burst_buffer/.*", *_EXACT["BurstBufferOperation"]),
    ("Burst buffer .* error", *_EXACT["BurstBufferOperation"]),
)
"""The form of a text in place of a reason, its meaning, and what to do."""


# --- Limits of accounts and QOS: Assoc or QOS, Grp, Max or Min, a resource, minutes, and for whom


class _Resource(NamedTuple):
    """What a limit counts: its noun, and how a request gets by with less and with more of it."""

    noun: str
    less: str
    more: str


_RESOURCES = {
    "BB": _Resource("burst-buffer space", "request less of it", "request more of it"),
    "Billing": _Resource("billing units", "request fewer --nodes", "request more --nodes"),
    "Cpu": _Resource("CPUs", "request fewer --nodes or --cpus-per-task", "request more --nodes or --cpus-per-task"),
    "Energy": _Resource("energy", "request fewer --nodes", "request more --nodes"),
    "GRES": _Resource("GPUs (or another GRES)", "request fewer GPUs per node", "request more GPUs per node"),
    "License": _Resource("licences", "request fewer of them", "request more of them"),
    "Mem": _Resource("memory", "request less --memory", "request more --memory"),
    "Node": _Resource("nodes", "request fewer --nodes", "request more --nodes"),
    "Unknown": _Resource("a resource that Slurm does not name", _STAFF, _STAFF),
}  # fmt: skip
_LIMIT = (
    r"(?P<owner>Assoc|QOS|)(?P<bound>Grp|Max|Min)"
    r"(?:(?P<jobs>Jobs|SubmitJobs?|Wall|WallDuration)|(?P<resource>BB|Billing|C[Pp][Uu]|Energy|GRES|License|Mem(?:ory)?|Node|Unknown)"
    r"(?P<minutes>(?:Run)?Min(?:ute)?s|))"
    r"(?P<each>Per(?:Job|Node|User|Account)|)(?:Limit|NotSatisfied|)"
)  # fmt: skip
_BY_FORM = {
    "Grp": ("the running jobs of {owner} hold as much as it allows of: {noun}", "wait, or another {flag}"),
    "GrpMinutes": (
        "{owner}'s allowance of {noun} over time is used up or promised",
        "another {flag}, or ask for more",
    ),
    "GrpRunMinutes": (
        "the running jobs of {owner} have as much time left as it allows for: {noun}",
        "wait; with a shorter --walltime it starts sooner",
    ),
    "GrpJobs": ("{owner} has as many running jobs as it allows in all", _WAIT),
    "GrpSubmitJobs": ("{owner} has as many jobs, running and waiting, as it allows in all", _WAIT),
    "GrpWall": ("{owner}'s allowance of walltime is used up", "another {flag}, or ask for more"),
    "MaxJobs": ("you have as many running jobs as {owner} allows", _WAIT),
    "MaxSubmitJobs": ("you have as many jobs, running and waiting, as {owner} allows", _WAIT),
    "MaxJobsPerUser": ("you have as many running jobs as {owner} allows one person", _WAIT),
    "MaxSubmitJobsPerUser": ("you have as many jobs, running and waiting, as {owner} allows one person", _WAIT),
    "MaxJobsPerAccount": ("the account has as many running jobs as {owner} allows one account", _WAIT),
    "MaxSubmitJobsPerAccount": (
        "the account has as many jobs, running and waiting, as {owner} allows one account",
        _WAIT,
    ),
    "MaxWallPerJob": (
        "the walltime is longer than {owner} allows",
        "cancel it, and submit a shorter --walltime, or another {flag}",
    ),
    "MaxPerJob": (
        "it asks for more than {owner} allows one job of: {noun}",
        "cancel it, and {less}, or another {flag}",
    ),
    "MaxPerNode": ("it asks for more on a node than {owner} allows of: {noun}", "cancel it, and {less} on each node"),
    "MaxMinutesPerJob": (
        "its walltime times its {noun} are more than {owner} allows one job",
        "cancel it, and {less}, or a shorter --walltime",
    ),
    "MaxPerUser": (
        "with your other jobs it has more than {owner} allows one person of: {noun}",
        "wait until some of yours end; if it alone asks for more, cancel it, and {less}",
    ),
    "MaxRunMinutesPerUser": (
        "your running jobs have as much time left as {owner} allows one person for: {noun}",
        "wait until some of yours end; with a shorter --walltime it starts sooner",
    ),
    "MaxPerAccount": (
        "with the account's other jobs it has more than {owner} allows one account of: {noun}",
        "wait until some of them end; if it alone asks for more, cancel it, and {less}",
    ),
    "MaxRunMinutesPerAccount": (
        "the account's running jobs have as much time left as {owner} allows one account for: {noun}",
        "wait until some of them end; with a shorter --walltime it starts sooner",
    ),
    "Min": ("it asks for less than {owner} demands of: {noun}", "cancel it, and {more}, or another {flag}"),
}
"""The form of a limit -> its meaning, and what to do."""


def explain(reason: str) -> str:
    """Return Slurm's reason for waiting in words, and what to do; an empty text for an unknown reason."""
    words = _EXACT.get(reason) or _words_of_limit(reason) or _words_of_text(reason)
    if words is None:
        return ""
    meaning, advice = words
    return meaning if advice == _WAIT else f"{meaning}; {advice}"


def _words_of_limit(reason: str) -> tuple[str, str] | None:
    """Return the words for a limit of an account or a QOS; None for any other reason."""
    found = re.fullmatch(_LIMIT, reason)
    if found is None:
        return None
    jobs, minutes = (found["jobs"] or "").replace("Duration", ""), (found["minutes"] or "").replace("Mins", "Minutes")
    jobs = "SubmitJobs" if jobs == "SubmitJob" else jobs
    words = _BY_FORM.get(f"{found['bound']}{jobs}{minutes}{found['each']}")
    if words is None:
        return None
    owner, flag = ("the account", "--account") if found["owner"] == "Assoc" else ("the QOS", "--qos")
    spelled = {"CPU": "Cpu", "Memory": "Mem"}.get(found["resource"], found["resource"])
    noun, less, more = _RESOURCES.get(spelled, ("", "", ""))
    meaning, advice = (text.format(owner=owner, flag=flag, noun=noun, less=less, more=more) for text in words)
    return meaning, advice


def _words_of_text(reason: str) -> tuple[str, str] | None:
    return next(((meaning, advice) for form, meaning, advice in _TEXTS if re.fullmatch(form, reason)), None)


_SUBJECTS: tuple[tuple[str, Subject], ...] = (
    (r"\bGPUs?\b|(?i:gres|generic resource)", "GPUs"),  # not "gpu", which is a common name of partitions
    (r"(?i:chdir|directory|folder|\blog\b)", "shared paths"),
    (r"(?i:mpi)", "MPI"),
    (r"(?i:account|qos)", "account"),
    (r"(?i:slurmctld|controller|configuration file)", "scheduler"),
)


def subject_of(words: str) -> Subject:
    """Return the topic of sbatch's message; an empty text if its words show none."""
    return next((subject for form, subject in _SUBJECTS if re.search(form, words)), "")
