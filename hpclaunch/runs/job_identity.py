"""One job of a run, as nothing else in the world is: a number alone never names a job.

Clusters count their jobs from the same number, one home is mounted on several of them, and a cluster that is set up
again begins anew (decision 61).
"""

from __future__ import annotations

import calendar
import os
import time
from functools import lru_cache
from typing import NamedTuple

from hpclaunch.runs.record import Run

CLOCKS_S = 3600
"""Seconds by which the clocks of the submitting host and of a scheduler may differ, or a clock may step back.

Slurm's programs are refused if they differ by more than the lifetime of MUNGE's credentials: 300 s, 3600 s at most
(munged(8), ``--max-ttl``).
"""


class JobIdentity(NamedTuple):
    """One job: of this cluster, with this number, of this run directory, submitted in this start of the run.

    It is what a scheduler is asked about, and what its answer is an answer to. It is a named tuple without defaults,
    as an array may have 100,000 jobs.

    - ``cluster``: the name of the cluster that gave the number; empty without a cluster, or if it is not known.
    - ``job_id``: the number as the scheduler prints it, with the array's task: ``4711`` or ``4711_7``.
    - ``home``: the folder in which the job works: the run directory, for a task that of its array.
    - ``submitted``: the job was submitted at this second of the epoch or later, by the clock of the submitting host.
      A cluster gives a number again only after it began to count anew, so it tells which numbering is meant.
    """

    cluster: str
    job_id: str
    home: str
    submitted: int

    @property
    def array_id(self) -> str:
        """The number without the array's task."""
        return self.job_id.partition("_")[0]

    def is_job(self, folder: str, submitted: int | None) -> bool:
        """Whether a job with this number is this one, by its working folder and the time of its submission.

        ``folder`` is as the scheduler's programs print it. ``submitted``: seconds of the epoch, None if the answer has
        no time. It may be later than the submission that is known, as a job that is queued again gets a new time.
        Without a time the folder decides: it is the directory of this run, which no other job has.
        """
        return self.is_recent(submitted) and _is_home(self.home, folder)

    def is_recent(self, submitted: int | None) -> bool:
        """Whether a job that was submitted then can be this one, and is not known to be of an earlier numbering."""
        return submitted is None or submitted >= self.submitted - CLOCKS_S


@lru_cache(maxsize=1024)  # the tasks of an array have one folder
def _is_home(home: str, folder: str) -> bool:
    """Whether these are the same directory; every script's working folder is its run directory (decision 61)."""
    own = os.fsencode(home).decode("utf-8", errors="replace")  # as the programs' output is read
    try:
        return folder == own or (bool(folder) and os.path.samefile(own, folder))
    except (OSError, ValueError):
        return False


def identity_of(run: Run) -> JobIdentity:
    """Return the identity of the run's present job."""
    return JobIdentity(run.cluster, run.job_id, str(run.home), epoch_of(run.submitted or run.created))


@lru_cache(maxsize=4096)
def epoch_of(text: str) -> int:
    """Return the seconds of the epoch of a time in UTC; 0 for a text that is none, as a damaged record may hold."""
    try:
        return max(0, calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")))
    except (ValueError, OverflowError):
        return 0
