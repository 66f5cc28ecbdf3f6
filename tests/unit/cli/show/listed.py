"""Runs as a list shows them, for the tests of the list and of the live screen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hpclaunch.actions.following.progress import RunProgress
from hpclaunch.cli.show.run_columns import ListedRun
from hpclaunch.runs import Run
from hpclaunch.runs.training_progress import TrainingProgress

LOSSES = (0.9, 0.7, 0.5, 0.4, 0.3, 0.25)


def a_named_run(number: int, state: str, **changes: object) -> Run:
    """A run with a name as hpclaunch gives it."""
    name = f"cifar-20261124-1631{number:02}-{number:08x}"
    run = Run(
        path=Path("/runs", name),
        name="cifar",
        site="perlmutter",
        scheduler="slurm",
        created=f"2026-11-24T16:31:{number:02}Z",
        state=state,
        job_id=str(4000 + number),
    )
    return replace(run, **changes)  # type: ignore[arg-type]


def running(number: int = 1, epoch: int = 6, epochs: int | None = 60) -> ListedRun:
    """A run that has made some epochs."""
    training = TrainingProgress(epoch=epoch, epochs=epochs, losses=LOSSES[:epoch], epoch_s=10.0, reported=0.0)
    progress = RunProgress(nodes=4, elapsed_s=3725, left_s=540, walltime_left_s=3475, training=training)
    return ListedRun(run=a_named_run(number, "RUNNING", nodes="n[1-4]"), progress=progress)


def waiting(number: int = 2, reason: str = "Priority") -> ListedRun:
    """A run that waits."""
    return ListedRun(run=a_named_run(number, "PENDING", reason=reason), progress=RunProgress(nodes=16))


def failed(number: int = 3) -> ListedRun:
    """A run that has failed after two days."""
    progress = RunProgress(nodes=1, elapsed_s=180_000)
    return ListedRun(run=a_named_run(number, "FAILED", exit_code="7:0"), progress=progress)
