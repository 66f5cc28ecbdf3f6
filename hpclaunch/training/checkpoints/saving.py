"""When and how ranks save together: at the end of an epoch, at intervals, and when asked to stop."""

from __future__ import annotations

import functools
import os
import time
from collections import deque
from itertools import chain
from typing import Any, Callable, Mapping

import tensorflow as tf

from hpclaunch.training.callbacks import stop_if_diverged
from hpclaunch.training.checkpoints import folders, stored
from hpclaunch.training.checkpoints.resuming import Place
from hpclaunch.training.checkpoints.training_state import TrainingState
from hpclaunch.training.metrics import MetricsLog, kept_bytes
from hpclaunch.training.rank import stopping, watch
from hpclaunch.training.rank.failure import RunAgain
from hpclaunch.training.rank.world import World

LOOK_S = 1.0  # seconds between two agreements of the ranks on whether to save; at least one in 1000 steps


def save(world: World, state: TrainingState, folder: str, place: Place, facts: Mapping[str, Any], keep: int) -> str:
    """Save the state of all ranks at `place` in their training; returns the checkpoint's path. A collective.

    facts: values for JSON, saved with it. A superseded start ends here (rank.fence). Raises AgreedError on every
    rank if any rank cannot write; the existing checkpoints then stay unchanged.
    """
    partial = folders.partial_of(folder, place.made, place.lineage.start)
    begin = functools.partial(folders.begin, folder, place.made, place.lineage.start)
    try:
        if world.size > 1:  # the others must not write before the folder exists
            world.together(lambda: begin() if world.is_root else None)
        else:
            begin()
        state.unite()
        common, own = state.statistics()
        own = state.of_copy({**own, **state.own(metrics=place.step > 0)})
        shared = state.shared(common, keep=world.is_root)
        parts = state.parts(common, keep=world.data_rank == 0)
        about = state.part_facts(common)
        files = world.together(lambda: _write(world, partial, (iter(own.items()), shared, parts), about))
        files = [entry for part in world.gather(files) for entry in part]
        facts = {**facts, "epoch": place.epoch, "epoch_step": place.step, "time": time.time()}
        facts.update(world_size=world.size, replicas=world.replicas, copies=world.data_size, **about)
        commit = functools.partial(folders.commit, partial, place.made, files, facts, keep, place.lineage)
        path = world.together(lambda: commit() if world.is_root else "")
    except Exception:
        if world.is_root:
            folders.abandon(partial)
        raise
    return str(path)


def _write(world: World, partial: str, arrays: Any, about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Write the files of this rank: that of its copy of the model, its parts, and on rank 0 the shared one.

    arrays: own, shared, parts; each an iterator of names with arrays. about: what the manifest says of parts.
    """
    _, shared, parts = arrays
    part = folders.part_file(world.mesh.part) if world.mesh is not None and world.data_rank == 0 else ""
    names = (
        folders.own_file(world.data_rank) if world.leads_copy else "",
        folders.SHARED if world.is_root else "",
        part if part in stored.part_names(about) else "",
    )
    files = []
    # To read the arrays may be a collective: every rank reads all in the same order, also if it could not write.
    try:
        for name, found in zip(names, arrays):
            if name:
                files.append(folders.write(partial, name, found))
            deque(found, maxlen=0)
    finally:
        deque(chain(shared, parts), maxlen=0)
    return files


class Saving(tf.keras.callbacks.Callback):
    """Saves at the end of every epoch, as often as the options say (parameters.json), and when asked to stop.

    Place it last, and on every rank. A request to stop and the clock reach ranks at different steps. So the ranks agree
    about once a second, and save at the same step. Weights that are not finite are never saved: they would replace the
    last good ones. epoch_facts: what the checkpoint of a place says of the epochs so far. log: gets an event for every
    checkpoint, with the seconds that it took all ranks and its bytes; `step` counts those of all attempts. prove: is
    called with the step of the epoch (0: its end) before a checkpoint, and raises if ranks hold different models.
    """

    def __init__(
        self,
        world: World,
        state: TrainingState,
        folder: str,
        asked: Any,
        steps: int,
        place: Place,
        epoch_facts: Callable[[Place], Mapping[str, Any]] = lambda place: {},
        log: MetricsLog | None = None,
        prove: Callable[[int], None] = lambda step: None,
    ) -> None:
        super().__init__()
        self._prove = prove
        self._log = log
        self._epoch_facts = epoch_facts
        self._world, self._state, self._folder, self._asked, self._steps = world, state, folder, asked, steps
        self._place, self._epoch, self._made, self._base = place, place.epoch, place.made, 0
        self._saved, self._saved_at = place.made, time.monotonic()
        self._looked, self._looked_at, self._gap = place.made, time.monotonic(), 1

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch
        begun = self._place.step if epoch == self._place.epoch else 0  # by an earlier attempt
        self._base = self._made - begun

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        step = batch + 1
        self._made = self._base + step
        watch.reached("training")
        if step >= self._steps:  # the end of the epoch saves, after the average of the statistics
            return
        every = self._asked.checkpoint_steps
        due, stop = bool(every) and self._made // every > self._saved // every, False
        if self._made >= self._looked + self._gap:
            clock, stop = self._look()
            due = due or clock
        if due or stop:
            self._save(self._place_at(self._epoch, step), logs["loss"], stop)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        done = epoch + 1 >= self._asked.epochs or self.model.stop_training
        self._save(self._place_at(epoch + 1, 0), logs["loss"], self._look()[1] and not done)

    def _place_at(self, epoch: int, step: int) -> Place:
        return Place(epoch, step, self._made, lineage=self._place.lineage)

    def _look(self) -> tuple[bool, bool]:
        """Whether it is time to save, and whether any rank was asked to stop. A collective.

        Raises Superseded if a later start has taken the run over.
        """
        now = time.monotonic()
        seconds = (now - self._looked_at) / max(1, self._made - self._looked)
        minutes = self._asked.checkpoint_minutes
        due = bool(minutes) and now - self._saved_at >= minutes * 60
        gap = max(1, min(1000, 2 * self._gap, int(LOOK_S / max(seconds, 1e-6))))
        answers = self._world.gather((stopping.state(self._world), due, gap))
        self._looked, self._looked_at, self._gap = self._made, now, answers[0][2]  # rank 0's clock counts
        return answers[0][1], stopping.concluded(self._world, [state for state, _, _ in answers])

    def _save(self, place: Place, loss: float, stop: bool) -> None:
        when = "step {}".format(place.step) if place.step else "the end of epoch {}".format(place.epoch)
        stop_if_diverged(self._world, self.model, loss, when)
        self._prove(place.step)
        facts = {
            "steps_per_epoch": self._steps,
            "options": vars(self._asked),
            "data": self._place.data,
            "metrics_bytes": kept_bytes(self._world.run_dir) if self._world.is_root else 0,
            "epochs": self._epoch_facts(place) or None,
        }
        began = time.monotonic()
        path = save(self._world, self._state, self._folder, place, facts, self._asked.keep_checkpoints)
        self._saved, self._saved_at = place.made, time.monotonic()
        if self._log is not None and self._world.is_root:
            seconds = round(self._saved_at - began, 4)
            self._log.write("checkpoint", step=place.made, seconds=seconds, bytes=_size_of_folder(path))
        if stop:
            where = "epoch {}, step {} of {}".format(place.epoch + 1, place.step, self._steps)
            raise RunAgain("asked to stop; saved at {} in {}".format(where, path), speaks=self._world.is_root)


def _size_of_folder(path: str) -> int:
    try:
        with os.scandir(path) as entries:
            return sum(entry.stat().st_size for entry in entries)
    except OSError:
        return 0
