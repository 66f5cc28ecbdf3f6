"""A run, or other jobs of the scheduler, that a run waits for, as resolving sees it."""

from __future__ import annotations

from hpclaunch.core.records import record


@record
class Predecessor:
    """A run that another one waits for: that it has completed (``must_complete``), or that it has ended.

    ``is_run``: whether it is a run of hpclaunch, and not any other job of the scheduler. Then ``site`` is empty.
    ``jobs``: the IDs of its jobs that have not ended, and ``cluster`` where they are (empty: not known). ``sent_from``:
    the cluster from which they were sent to that other one. ``has_failed``: it, or a run of the array, has ended
    without completing. ``refusal`` and ``next``: why no run can wait for it, and what to do instead (empty: it can).
    ``command``: the words of its program, without the values of a sweep. ``is_same_name``: it is no single job, but all
    earlier ones of the user that have the new run's name, whichever these are.
    """

    run: str
    must_complete: bool
    site: str
    state: str
    jobs: tuple[str, ...] = ()
    cluster: str = ""
    sent_from: str = ""
    has_failed: bool = False
    refusal: str = ""
    next: str = ""
    command: tuple[str, ...] = ()
    is_run: bool = True
    is_same_name: bool = False

    def names(self, folder: str) -> bool:
        """Whether a word of its command contains this folder, as it would if it wrote there."""
        return any(folder.rstrip("/") in word for word in self.command)
