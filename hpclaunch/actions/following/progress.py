"""How far runs are: nodes, elapsed time, epochs, the time that is left; only what may have changed is read again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpclaunch.core.records import record
from hpclaunch.core.units import whole_number
from hpclaunch.runs import Run, swept
from hpclaunch.runs.node_lists import names_in
from hpclaunch.runs.recorded_layout import further_layouts, walltime_of
from hpclaunch.runs.times import began_at, took
from hpclaunch.runs.training_progress import MOST_EPOCHS, ProgressReader, TrainingProgress

_RUNNING = ("RUNNING", "COMPLETING")
_Start = tuple[Path, str, str, str]
_FACTS_S = 30
"""For so long the facts of a run that runs count. Its job may be started again between two questions for its state."""


@record
class RunProgress:
    """How far one run is. None: not known, or it has no meaning for the run.

    - ``nodes``: how many the last start has or had; before the first start how many the run asks for.
    - ``elapsed_s``: seconds of the last start. ``walltime_left_s``: of the walltime of the job that runs.
    - ``left_s``: seconds until the end of its training, if its epochs go on as before.
    """

    nodes: int | None = None
    elapsed_s: float | None = None
    left_s: float | None = None
    walltime_left_s: float | None = None
    training: TrainingProgress | None = None

    @property
    def epoch(self) -> int | None:
        """The number of whole epochs; None if the program writes none."""
        return self.training.epoch if self.training else None

    @property
    def epochs(self) -> int | None:
        """The number of epochs that the run will have."""
        return self.training.epochs if self.training else None

    @property
    def loss(self) -> float | None:
        """The loss of the last epoch."""
        return self.training.losses[-1] if self.training and self.training.losses else None

    def to_json(self) -> dict[str, Any]:
        """Return the values for ``--json``; seconds are whole numbers."""
        times = {"elapsed_s": self.elapsed_s, "left_s": self.left_s, "walltime_left_s": self.walltime_left_s}
        seconds = {name: None if value is None else round(value) for name, value in times.items()}
        return {"node_count": self.nodes, **seconds, "epoch": self.epoch, "epochs": self.epochs, "loss": self.loss}


class ProgressOfRuns:
    """Looks at runs again and again. An ended run is looked at once, and of a metrics file only what is new is read."""

    def __init__(self) -> None:
        self._ended: dict[_Start, RunProgress] = {}
        self._facts: dict[_Start, _Facts] = {}
        self._readers: dict[Path, ProgressReader] = {}

    def remember(self, run: Run, progress: RunProgress) -> None:
        """Take this for how far an ended run is, and look no more."""
        self._ended[(run.path, run.job_id, run.state, run.nodes)] = progress

    def of(self, run: Run, now: float) -> RunProgress:
        """Return how far the run is at ``now`` (Unix seconds). An array, which is many runs, has only its nodes."""
        key = (run.path, run.job_id, run.state, run.nodes)
        if run.final and key in self._ended:
            return self._ended[key]
        facts = self._facts.get(key)
        if facts is None or (run.state in _RUNNING and not facts.looked <= now < facts.looked + _FACTS_S):
            facts = self._facts[key] = _facts_of(run, now)
        if run.tasks:
            return RunProgress(nodes=facts.nodes)
        progress = self._look(run, facts, now)
        if run.final:
            self._ended[key] = progress
        return progress

    def _look(self, run: Run, facts: _Facts, now: float) -> RunProgress:
        reader = self._readers.setdefault(run.path, ProgressReader(run.path))
        training = reader.read()
        if training is None and facts.epochs and run.state in _RUNNING:
            training = TrainingProgress(epochs=facts.epochs)
        if run.state not in _RUNNING:
            return RunProgress(nodes=facts.nodes, elapsed_s=facts.took, training=training)
        elapsed = None if facts.began is None else max(0.0, now - facts.began)
        return RunProgress(
            nodes=facts.nodes,
            elapsed_s=elapsed,
            left_s=training.seconds_left(now) if training else None,
            walltime_left_s=max(0.0, facts.walltime - elapsed) if facts.walltime and elapsed is not None else None,
            training=training,
        )


def to_keep(progress: RunProgress) -> dict[str, Any]:
    """Return what the index of ended runs keeps of an ended run: all but the losses before the last one."""
    values = {"nodes": progress.nodes, "elapsed_s": progress.elapsed_s, "epoch": progress.epoch}
    return {**values, "epochs": progress.epochs, "loss": progress.loss}


def progress_from(kept: Mapping[str, Any]) -> RunProgress:
    """Return the progress that `to_keep` gave; unknown for values that are not of the kind that they were."""

    def number(name: str, kind: type) -> Any:
        value = kept.get(name)
        return value if type(value) is kind else None

    epoch, loss = number("epoch", int), number("loss", float)
    losses = () if loss is None else (loss,)
    training = None if epoch is None else TrainingProgress(epoch=epoch, epochs=number("epochs", int), losses=losses)
    return RunProgress(nodes=number("nodes", int), elapsed_s=number("elapsed_s", float), training=training)


@record
class _Facts:
    """What seldom changes while a run has this state. ``looked``: Unix seconds; ``epochs``: by the run's parameters."""

    looked: float
    nodes: int | None
    began: float | None = None
    took: float | None = None
    walltime: int = 0
    epochs: int | None = None


def _facts_of(run: Run, now: float) -> _Facts:
    known = len(names_in(run.nodes)) if run.nodes else 0
    if run.state not in _RUNNING or run.tasks:
        seconds = took(run) if run.final and not run.tasks else None
        return _Facts(looked=now, nodes=known or _nodes_asked(run.spec()), took=seconds)
    spec = run.spec()
    return _Facts(
        looked=now,
        nodes=known or _nodes_asked(spec),
        began=began_at(run),
        walltime=walltime_of(spec),
        epochs=_epochs_asked(run),
    )


def _nodes_asked(spec: Mapping[str, Any]) -> int | None:
    layouts = (spec.get("layout"), *further_layouts(spec))
    nodes = [one.get("nodes") for one in layouts if isinstance(one, dict)]
    known = [number for number in nodes if type(number) is int and number > 0]
    return sum(known) if known and len(known) == len(nodes) else None


def _epochs_asked(run: Run) -> int | None:
    text = {**run.parameters(), **swept(run)}.get("epochs", "")
    number = whole_number(text) or 0
    return number if 0 < number <= MOST_EPOCHS else None
