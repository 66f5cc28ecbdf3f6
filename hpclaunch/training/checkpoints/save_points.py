"""When ranks save together: at intervals, and when they are asked to stop; it needs no framework."""

from __future__ import annotations

import os
import time
from typing import Any, Mapping, Sequence

from hpclaunch.training.checkpoints import resuming, writing
from hpclaunch.training.checkpoints.resuming import Place
from hpclaunch.training.checkpoints.state import State
from hpclaunch.training.input import epoch_order
from hpclaunch.training.input.epoch_order import Part
from hpclaunch.training.metrics import MetricsLog, kept_bytes
from hpclaunch.training.rank import stopping
from hpclaunch.training.rank.failure import RunAgain
from hpclaunch.training.rank.world import World

LOOK_S = 1.0  # seconds between two agreements of the ranks on whether to save; at least one in 1000 steps


class SavePoints:
    """Agrees with the other ranks on the steps after which all save, and saves there.

    A request to stop and the clock reach ranks at different steps. So they agree about once a second, at the same step
    on all of them: rank 0 counts how many steps that are, and steps longer than a second are each followed by an
    agreement. asked: checkpoint_minutes, checkpoint_steps and keep_checkpoints of parameters.json, with the other
    options that a checkpoint names. steps: of an epoch. place: where this attempt begins. log: gets an event for every
    checkpoint, with the seconds that it took all ranks and its bytes; `step` counts those of all attempts.
    """

    def __init__(self, world: World, state: State, asked: Any, steps: int, place: Place, log: MetricsLog) -> None:
        self._world, self._state, self._asked, self._steps = world, state, asked, steps
        self._begin, self._data, self._lineage, self._log = place, place.data, place.lineage, log
        self._saved, self._saved_at = place.made, time.monotonic()
        self._looked, self._looked_at, self._gap = place.made, time.monotonic(), 1

    def after_step(self, made: int) -> tuple[bool, bool]:
        """Whether to save after `made` steps of all attempts, and whether to stop then. A collective."""
        every = self._asked.checkpoint_steps
        due, stop = bool(every) and made // every > self._saved // every, False
        if made >= self._looked + self._gap:
            clock, stop = self.look(made)
            due = due or clock
        return due or stop, stop

    def look(self, made: int) -> tuple[bool, bool]:
        """Whether it is time to save, and whether any rank was asked to stop. A collective.

        Raises Superseded if a later start has taken the run over.
        """
        now = time.monotonic()
        seconds = (now - self._looked_at) / max(1, made - self._looked)
        minutes = self._asked.checkpoint_minutes
        due = bool(minutes) and now - self._saved_at >= minutes * 60
        gap = max(1, min(1000, 2 * self._gap, int(LOOK_S / max(seconds, 1e-6))))
        answers = self._world.gather((stopping.state(self._world), due, gap))
        self._looked, self._looked_at, self._gap = made, now, answers[0][2]  # rank 0's clock counts
        return answers[0][1], stopping.concluded(self._world, [state for state, _, _ in answers])

    def save(self, place: Place, stop: bool, epochs: Mapping[str, Any] | None = None) -> None:
        """Save at `place`; with `stop`, all ranks then end with RunAgain. A collective.

        epochs: what the checkpoint says of the epochs so far (epoch_facts).
        """
        place = Place(place.epoch, place.step, place.made, lineage=self._lineage)
        facts = {
            "steps_per_epoch": self._steps,
            "options": vars(self._asked),
            "data": self._data,
            "metrics_bytes": kept_bytes(self._world.run_dir) if self._world.is_root else 0,
            "epochs": epochs,
            "epoch_parts": self._parts_until(place),
        }
        folder, keep = resuming.folder_of(self._world), self._asked.keep_checkpoints
        began = time.monotonic()
        path = writing.save(self._world, self._state, folder, place, facts, keep)
        self._saved, self._saved_at = place.made, time.monotonic()
        if self._world.is_root:
            seconds = round(self._saved_at - began, 4)
            self._log.write("checkpoint", step=place.made, seconds=seconds, bytes=_size_of_folder(path))
        if stop:
            where = "epoch {}, step {} of {}".format(place.epoch + 1, place.step, self._steps)
            raise RunAgain("asked to stop; saved at {} in {}".format(where, path), speaks=self._world.is_root)

    def _parts_until(self, place: Place) -> Sequence[Part] | None:
        """What was read of the epoch of `place`, also by earlier attempts; None if that is not known."""
        begin = self._begin
        if begin.parts is None:
            return None
        if not place.step:
            return ()
        begun = place.epoch == begin.epoch
        steps = place.step - begin.step if begun else place.step
        samples = steps * self._asked.batch_size_per_rank * self._asked.accumulation
        return epoch_order.added(begin.parts if begun else (), Part(self._world.replicas, samples))


def _size_of_folder(path: str) -> int:
    try:
        with os.scandir(path) as entries:
            return sum(entry.stat().st_size for entry in entries)
    except OSError:
        return 0
