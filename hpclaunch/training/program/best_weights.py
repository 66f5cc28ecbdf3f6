"""The return to the weights of the best epoch when a training has ended; it needs no framework."""

from __future__ import annotations

from hpclaunch.training.checkpoints import folders, resuming
from hpclaunch.training.checkpoints.state import State
from hpclaunch.training.monitoring.best_epoch import Best
from hpclaunch.training.program.run import Run


def take_best(run: Run, state: State, best: Best, epochs: int, lineage: folders.Lineage) -> None:
    """Restore the state of the best epoch, if the settings say so and it was not the last of `epochs`. A collective."""
    if run.settings.restore_best and best.epoch != epochs:
        resuming.restore_step(run.world, state, best.step, lineage)
    if run.is_root:
        words = "the weights of epoch {} are taken: {} {:.6g} is the best"
        if not run.settings.restore_best:
            words = "epoch {} was the best: {} {:.6g}"
        print(words.format(best.epoch, best.metric, best.value), flush=True)
