"""What the live screen shows, as values; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from hpclaunch.actions.following.progress import RunProgress
from hpclaunch.cli.show.run_columns import ListedRun
from hpclaunch.core.records import record
from hpclaunch.runs import JobIdentity, Run, identity_of
from hpclaunch.runs.latest_samples import RunUse
from hpclaunch.schedulers import QueuePlace


@record
class Scene:
    """What the screen shows: the runs, newest first, and what is known about them.

    - ``progress``: called for the runs that are shown, or for all if the order needs it.
    - ``places``: job -> place in the queue. ``use``: of the selected run. ``log``: the lines of its log.
    - ``asked_s``: seconds since the scheduler answered; None before its first answer. ``trouble``: why it did not.
    """

    runs: Sequence[Run]
    progress: Callable[[Run], RunProgress]
    now: float
    places: Mapping[JobIdentity, QueuePlace] = field(default_factory=dict)
    use: RunUse | None = None
    log: Sequence[str] = ()
    asked_s: float | None = None
    trouble: str = ""
    ascii: bool = False

    def listed(self, run: Run) -> ListedRun:
        """Return the run with what is known about it."""
        place = self.places.get(identity_of(run)) if run.state == "PENDING" else None
        return ListedRun(run=run, progress=self.progress(run), place=place, ascii=self.ascii)
