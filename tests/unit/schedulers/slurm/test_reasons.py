"""Why a job waits, in words, and what to do."""

from __future__ import annotations

import pytest

from hpclaunch.schedulers.slurm.reasons import explain


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Priority", "jobs with a higher priority come first"),
        ("PartitionDown", "the partition accepts jobs, but starts none now; wait, or another --partition"),
        ("AssocGrpGRESMinutes", "the account's hours are used up or promised; another --account, or ask for more"),
        ("AssocGrpNodeLimit", "the account's jobs together are at their limit"),
        ("QOSMaxJobsPerUserLimit", "your jobs are at the QOS's limit for one person"),
        (
            "ReqNodeNotAvail, Reserved for maintenance",
            "it would not end before a maintenance; a shorter --walltime",
        ),
        ("None", ""),
        ("SomethingOfALaterVersion", ""),
    ],
)
def test_a_reason_is_explained_with_what_to_do_if_there_is_something(reason: str, words: str) -> None:
    assert explain(reason) == words
