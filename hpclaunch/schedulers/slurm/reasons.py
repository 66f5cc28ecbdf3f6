"""Explains why a job waits and what to do (Slurm's reasons: squeue(1), job_reason_codes.html), and sorts refusals."""

from __future__ import annotations

import re

from hpclaunch.core.errors import Subject

_WAIT = "nothing to do"
_EXACT = {
    "AccountNotAllowed": ("the partition does not accept this account", "another --account or --partition"),
    "AccountingPolicy": ("a limit of the account or QOS is reached", _WAIT),
    "AssociationJobLimit": ("as many jobs of yours as the account allows are running", _WAIT),
    "AssociationResourceLimit": ("the account's limit on resources is reached", _WAIT),
    "AssociationTimeLimit": ("the account's limit on time is used up", "ask who manages the account"),
    "BadConstraints": ("no node matches the request", "cancel it, and request less or another --node-type"),
    "BeginTime": ("its earliest start time has not come: a requested one, or a pause after a requeue", _WAIT),
    "Cleaning": ("it was requeued, and its last start is still being cleaned up", _WAIT),
    "Dependency": ("it waits for another job", _WAIT),
    "DependencyNeverSatisfied": ("the job it waits for ended in a state that the dependency excludes", "cancel it"),
    "InvalidAccount": ("Slurm does not know the account", "cancel it, and submit with another --account"),
    "InvalidQOS": ("Slurm does not know the QOS", "cancel it, and submit with another --qos"),
    "JobArrayTaskLimit": ("as many tasks of its array as allowed are running", _WAIT),
    "JobHeldAdmin": ("an administrator holds it", "ask the site's staff"),
    "JobHeldUser": ("you hold it", "scontrol release JOBID"),
    "JobLaunchFailure": ("it could not be started on its nodes", "ask the site's staff"),
    "launch failed requeued held": ("it could not be started on its nodes, and is held", "scontrol release JOBID"),
    "job requeued in held state": ("it was requeued and is held", "scontrol release JOBID"),
    "Licenses": ("a licence that it needs is in use", _WAIT),
    "NodeDown": ("a node that it needs is down", "leave --nodelist out, or wait for the site's staff"),
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions": (
        "the nodes that it could use are down, drained, or kept for others",
        "wait, or another --partition",
    ),
    "PartitionConfig": ("the partition has fewer nodes than it asks for", "cancel it, and request fewer --nodes"),
    "PartitionDown": ("the partition accepts jobs, but starts none now", "wait, or another --partition"),
    "PartitionInactive": ("the partition is closed", "wait, or another --partition"),
    "PartitionNodeLimit": ("the partition does not allow this number of nodes, or they are down", "other --nodes"),
    "PartitionTimeLimit": ("the walltime is above the partition's limit", "cancel it, and submit a shorter --walltime"),
    "Priority": ("jobs with a higher priority come first", _WAIT),
    "Prolog": ("its nodes are being prepared", _WAIT),
    "QOSJobLimit": ("as many jobs of yours as the QOS allows are running", _WAIT),
    "QOSNotAllowed": ("the account or partition does not allow this QOS", "cancel it, and submit with another --qos"),
    "QOSResourceLimit": ("the QOS's limit on resources is reached", _WAIT),
    "QOSTimeLimit": ("the QOS's limit on time is used up", "another --qos"),
    "QOSUsageThreshold": ("the QOS wants a higher share than the account has left", "another --qos"),
    "Reservation": ("its reservation has not begun", _WAIT),
    "ReservationDeleted": ("its reservation was deleted, and it is held", "cancel it, and submit without"),
    "Resources": ("it is next, and waits until enough nodes are free", _WAIT),
    "SystemFailure": ("Slurm, the network or a file system failed", "ask the site's staff"),
}
_FAMILIES = (
    (r"ReqNodeNotAvail.*Reserved for maintenance.*", "it would not end before a maintenance", "a shorter --walltime"),
    (r"ReqNodeNotAvail.*", "nodes that it needs are down, drained or reserved", "wait, or a shorter --walltime"),
    (
        r"AssocGrp\w*(Minutes|Time)\w*",
        "the account's hours are used up or promised",
        "another --account, or ask for more",
    ),
    (r"AssocGrp\w*", "the account's jobs together are at their limit", _WAIT),
    (r"AssocMax\w*", "it asks for more than the account allows one job", "cancel it, and ask for less"),
    (r"QOSGrp\w*", "the QOS's jobs together are at their limit", "wait, or another --qos"),
    (r"QOSMax\w*PerUser\w*", "your jobs are at the QOS's limit for one person", _WAIT),
    (r"(QOS)?Max\w*PerAccount\w*", "the account's jobs are at the QOS's limit for one account", _WAIT),
    (r"QOSMax\w*", "it asks for more than the QOS allows one job", "cancel it, and ask for less, or another --qos"),
    (r"QOSMin\w*", "it asks for less than the QOS demands", "cancel it, and ask for more, or another --qos"),
    (r"BurstBuffer\w*", "its burst buffer is not ready", _WAIT),
    (r"FedJobLock|FrontEndDown", "Slurm itself is not ready for it", _WAIT),
)


def explain(reason: str) -> str:
    """Return Slurm's reason for waiting in words, and what to do; an empty text for an unknown reason."""
    words = _EXACT.get(reason)
    if words is None:
        words = next(((meaning, advice) for form, meaning, advice in _FAMILIES if re.fullmatch(form, reason)), None)
    if words is None:
        return ""
    meaning, advice = words
    return meaning if advice == _WAIT else f"{meaning}; {advice}"


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
