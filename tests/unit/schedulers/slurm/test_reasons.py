"""Why a job waits, in words, and what to do."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from hpclaunch.schedulers.slurm.reasons import explain

KNOWN = [
    line
    for line in Path(__file__).with_name("reasons_of_slurm.txt").read_text().split("\n")
    if line and not line.startswith("#")
]


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Priority", "jobs with a higher priority come first"),
        ("PartitionDown", "the partition accepts jobs, but starts none now; wait, or another --partition"),
        (
            "AssocGrpGRESMinutes",
            (
                "the account's allowance of GPUs (or another GRES) over time is used up or promised; "
                "another --account, or ask for more"
            ),
        ),
        (
            "AssocGrpNodeLimit",
            "the running jobs of the account hold as much as it allows of: nodes; wait, or another --account",
        ),
        ("QOSMaxJobsPerUserLimit", "you have as many running jobs as the QOS allows one person"),
        ("AssocMaxJobsLimit", "you have as many running jobs as the account allows"),
        ("AssocMaxSubmitJobLimit", "you have as many jobs, running and waiting, as the account allows"),
        ("MaxJobsPerAccount", "the account has as many running jobs as the QOS allows one account"),
        (
            "AssocMaxWallDurationPerJobLimit",
            (
                "the walltime is longer than the account allows; "
                "cancel it, and submit a shorter --walltime, or another --account"
            ),
        ),
        (
            "QOSMaxGRESPerUser",
            (
                "with your other jobs it has more than the QOS allows one person of: GPUs (or another GRES); wait "
                "until some of yours end; if it alone asks for more, cancel it, and request fewer GPUs per node"
            ),
        ),
        (
            "QOSMinMemory",
            "it asks for less than the QOS demands of: memory; cancel it, and request more --memory, or another --qos",
        ),
        ("MaxPoweredUpNodes", "as many cloud nodes as the site allows are powered up"),
        ("ReqNodeNotAvail, Reserved for maintenance", "it would not end before a maintenance; a shorter --walltime"),
        (
            "ReqNodeNotAvail, UnavailableNodes:g[1-2]",
            "nodes that it needs are down, drained or reserved; wait, or a shorter --walltime",
        ),
        ("job requeued in held state", "it was requeued and is held; scontrol release JOBID"),
        (
            "job requeued in special exit state",
            (
                "its exit code is one after which this site holds a job, or somebody set it so; "
                "look at its log before scontrol release JOBID"
            ),
        ),
        ("Reservation maint was deleted", "its reservation was deleted, and it is held; cancel it, and submit without"),
        ("None", ""),
        ("SomethingOfALaterVersion", ""),
        ("QOSMaxSomethingPerJob", ""),
        ("AssocGrpJobsPerNode", ""),
    ],
)
def test_a_reason_is_explained_with_what_to_do_if_there_is_something(reason: str, words: str) -> None:
    assert explain(reason) == words


@pytest.mark.parametrize("reason", [name for name in KNOWN if name != "None"])
def test_each_reason_of_slurm_is_explained(reason: str) -> None:
    assert len(KNOWN) > 200
    assert explain(reason)


def test_each_reason_of_slurm_has_its_own_meaning() -> None:
    named = defaultdict(list)
    for reason in KNOWN:
        named[explain(reason)].append(reason)
    assert [several for several in named.values() if len(several) > 1] == []


@pytest.mark.parametrize("reason", [name for name in KNOWN if "Jobs" in name or "SubmitJob" in name])
def test_a_limit_on_the_number_of_jobs_cancels_nothing(reason: str) -> None:
    assert "cancel" not in explain(reason) and ";" not in explain(reason)
