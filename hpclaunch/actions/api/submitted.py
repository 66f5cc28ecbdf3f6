"""A run as a Python object: its state, metrics and log as they are now, and the verbs that end or continue it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpclaunch import runs
from hpclaunch.actions.api.messages import LOGGER, this_system
from hpclaunch.actions.following import states
from hpclaunch.actions.following.progress import ProgressOfRuns
from hpclaunch.core import inside
from hpclaunch.core.errors import Refused
from hpclaunch.core.records import record

if TYPE_CHECKING:
    from hpclaunch.runs import Run

LARGEST_SCRIPT = 2**24
"""Bytes of a script that are read."""


@record
class RunStatus:
    """How a run is at one moment. None: not known, or it has no meaning for the run.

    - ``state``: as Slurm spells it; ``final``: it cannot change any more by itself; ``reason``: why it waits or failed.
    - ``exit_code``: that of the script. ``nodes``: how many the run has, or asks for. ``created``: in UTC.
    - ``elapsed_s``, ``left_s``, ``walltime_left_s``: seconds of the last start, until the end of the training, and
      until the end of the walltime.
    - ``epoch`` of ``epochs``, and the ``losses`` of the last epochs, oldest first.
    """

    run: SubmittedRun
    id: str
    name: str
    site: str
    state: str
    final: bool
    job_id: str
    created: str
    reason: str = ""
    exit_code: int | None = None
    nodes: int | None = None
    elapsed_s: float | None = None
    left_s: float | None = None
    walltime_left_s: float | None = None
    epoch: int | None = None
    epochs: int | None = None
    losses: tuple[float, ...] = ()

    @property
    def loss(self) -> float | None:
        """The loss of the last epoch."""
        return self.losses[-1] if self.losses else None

    @property
    def completed(self) -> bool:
        """Whether the run has ended well."""
        return self.state == "COMPLETED"

    def _repr_html_(self) -> str:
        """Return a table and the curve of the loss, as Jupyter shows them."""
        from hpclaunch.reports.notebook_view import status_html

        return status_html(self)


@record
class SubmittedRun:
    """A run, known by its run directory. Each method looks at the run as it is at that moment.

    It is a path, too: ``Path(run) / "model"`` is the folder of the trained model. ``notices``: what hpclaunch remarked
    when the run was submitted.
    """

    folder: Path
    notices: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def __fspath__(self) -> str:
        return str(self.folder)

    @property
    def id(self) -> str:
        """The name that every verb of the command line takes: ``cifar-20261121-052200-a3f91c07``."""
        return self._load().id

    @property
    def job_id(self) -> str:
        """The scheduler's number of the last start; empty before the first."""
        return self._load().job_id

    @property
    def script(self) -> str:
        """The script that was submitted."""
        run = self._load()
        return inside.read_text(run.home, run.script.name, LARGEST_SCRIPT)

    def status(self) -> RunStatus:
        """Return how the run is now; the scheduler is asked once."""
        (now,) = states.refreshed([self._load()])
        return status_of(now, ProgressOfRuns())

    def state(self) -> str:
        """Return the state of the run now, as Slurm spells it; the scheduler is asked once."""
        return self.status().state

    def wait(self, *, timeout: float | None = None, retries: int = 0) -> str:
        """Wait until the run has ended, and return its state; after ``timeout`` seconds, the state that it has then.

        If a node or its launcher failed, the run is started again, up to ``retries`` times. Raises Refused for a run
        that was never submitted, and SchedulerError.
        """
        from hpclaunch.actions.queueing.wait import wait

        found: Sequence[Run] = states.awaitable([self._load()])
        for now in wait(found, timeout, retries, LOGGER.info):
            found = now
        return found[0].state

    def follow(self, *, pause: float = 1.0) -> Iterator[RunStatus]:
        """Yield how the run is, about every ``pause`` seconds, until it has ended; the last one is final.

        The scheduler is asked at growing intervals, up to 15 s; epochs and losses are read each time. Raises as `wait`.
        """
        from hpclaunch.actions.queueing.wait import follow_states

        progress = ProgressOfRuns()
        (run,) = states.awaitable([self._load()])
        for now in follow_states(run, pause):
            yield status_of(now, progress)

    def metrics(self, event: str | None = None) -> list[dict[str, Any]]:
        """Return what the program has recorded (metrics.jsonl), oldest first: all events, or those of one name.

        ``metrics("epoch")`` has an event for each epoch of a bundled job: ``epoch``, ``loss``, ``seconds``, …
        Raises Refused for a file of more than 1 GB.
        """
        from hpclaunch.runs.metric_events import metric_lines

        return [one for _, one in metric_lines(self._load()) if event is None or one.get("event") == event]

    def result(self) -> dict[str, Any]:
        """Return the final metrics; empty until the program has recorded them."""
        from hpclaunch.actions.following.inspect import final_metrics

        return {name: value for name, value in final_metrics(self._load()).items() if name not in ("event", "time")}

    def parameters(self) -> dict[str, str]:
        """Return the job's parameters as the command line spells them; those of a sweep's run with its own values."""
        run = self._load()
        return {**run.parameters(), **runs.swept(run)}

    def log(self, *, rank: int | None = None, tail: int | None = None) -> str:
        """Return the log of all ranks and starts, or that of one rank; with ``tail`` so many of its last lines.

        Raises Refused for a sweep, each of whose runs has its own log, and for a rank that has none; InvalidRequest
        for a ``rank`` or ``tail`` that is no whole number from 0.
        """
        from hpclaunch.actions.api.options import whole_number
        from hpclaunch.actions.queueing.wait import Tail, missing_log_fault, own_log, read_log, refuse_array

        rank, last = whole_number("rank", rank, least=0), whole_number("tail", tail, least=0)
        run = self._load()
        refuse_array(run)
        rank = own_log(run, rank)
        lines = Tail(run, rank)
        if last is not None:
            lines.skip_to_last(last)
        text = b"".join(block for _, block in read_log(run, lines))
        if rank is not None and not run.logs(rank):
            raise Refused(missing_log_fault(run, rank))
        return text.decode("utf-8", errors="replace")

    def tasks(self) -> list[SubmittedRun]:
        """Return the runs of a sweep, in the order of its values; none of any other run."""
        run = self._load()
        return [SubmittedRun(folder=task.path) for task in runs.tasks_of(run)] if run.tasks else []

    def cancel(self) -> str:
        """End the run, and return its state. Raises Refused and SchedulerError."""
        from hpclaunch.actions.following.cancel import cancel

        return cancel([self._load()])[0].state

    def resume(
        self, *, nodes: int | None = None, walltime: int | str | None = None, recipe: str | None = None
    ) -> SubmittedRun:
        """Continue an ended run from its last checkpoint, in its own directory. Raises Refused and SchedulerError.

        With another number of nodes the run keeps its global batch, optimizer, schedule and rate, unless a ``recipe``
        is named. ``walltime``: in seconds or as text.
        """
        from hpclaunch.actions.continuing.resume import Changes, resume
        from hpclaunch.actions.requesting.typed_times import seconds_of

        seconds = seconds_of(walltime, "walltime") if isinstance(walltime, str) else walltime
        (run,) = states.refreshed([self._load()])
        resumed, warnings = resume(this_system(), run, Changes(nodes=nodes, walltime=seconds, recipe=recipe))
        return SubmittedRun(folder=resumed.path, notices=tuple(warnings))

    def retry(self) -> SubmittedRun:
        """Start the run again after a fault of the machine; a program that failed is Refused. Raises SchedulerError."""
        from hpclaunch.actions.queueing.retry import retry

        (run,) = states.refreshed([self._load()])
        return SubmittedRun(folder=retry(run, LOGGER.info).path)

    def rerun(self) -> SubmittedRun:
        """Make the same run again, as a new run; its notices list what is not the same. Raises Refused."""
        from hpclaunch.actions.continuing.rerun import prepare_rerun, rerun_notices, submit_rerun

        again = prepare_rerun(this_system(), self._load(), None)
        new = submit_rerun(again)
        return SubmittedRun(folder=new.path, notices=(*rerun_notices(again), *map(str, again.differences)))

    def _repr_html_(self) -> str:
        """Return how the run is now, as Jupyter shows it."""
        return self.status()._repr_html_()

    def _load(self) -> Run:
        """Return the record. Raises NotFound if the run directory is gone."""
        return runs.load_any(self.folder)


def status_of(run: Run, progress: ProgressOfRuns) -> RunStatus:
    """Return how a run is, from its record, whose state was asked for, and from its metrics."""
    far = progress.of(run, time.time())
    code = run.exit_code.partition(":")[0]
    return RunStatus(
        run=SubmittedRun(folder=run.path),
        id=run.id,
        name=run.name,
        site=run.site,
        state=run.state,
        final=run.final,
        job_id=run.job_id,
        created=run.created,
        reason=run.reason,
        exit_code=int(code) if code.isascii() and code.isdigit() else None,
        nodes=far.nodes,
        elapsed_s=far.elapsed_s,
        left_s=far.left_s,
        walltime_left_s=far.walltime_left_s,
        epoch=far.epoch,
        epochs=far.epochs,
        losses=far.training.losses if far.training else (),
    )
