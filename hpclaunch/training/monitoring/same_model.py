"""Proves after the first step, every epoch and before every checkpoint that the ranks of TensorFlow hold one model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from hpclaunch.training.checkpoints.training_state import TrainingState
from hpclaunch.training.model_parallel import groups, splits
from hpclaunch.training.rank.one_model import MADE_OTHERWISE, Held, OneModel
from hpclaunch.training.rank.world import World


@dataclass(frozen=True)
class Way:
    """What changes the weights, for the likeliest cause of a difference.

    step: the class of a model with a train_step of its own; loop: whether a loop of the program makes the steps;
    optimizer: the class of an optimizer of the program's own; callbacks: the classes of the program's callbacks.
    """

    step: str = ""
    loop: bool = False
    optimizer: str = ""
    callbacks: Sequence[str] = ()


class SameModel(tf.keras.callbacks.Callback):
    """Compares weights, statistics and the optimizer's state of the ranks (rank.one_model). A collective.

    Place it after the averages of an epoch, and before what reports the epoch.
    """

    def __init__(self, world: World, state: TrainingState, way: Way) -> None:
        super().__init__()
        gpus = tf.config.get_visible_devices("GPU")
        self._world, self._state, self._way = world, state, way
        self._proof = OneModel(world, self._cause, state.facts, gpus[0].name if gpus else "")
        self._has_begun = False

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if not self._has_begun:
            self._has_begun = True
            self.prove("after the first step")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.prove("at the end of epoch {}".format(epoch + 1), are_shared=True)

    def before_checkpoint(self, step: int) -> None:
        """Compare before a checkpoint at `step` of an epoch; 0: at its end, where only callbacks have come since."""
        if step or self._way.callbacks:
            self.prove("before the checkpoint", are_shared=not step)

    def prove(self, when: str, are_shared: bool = False) -> None:
        """Raise AgreedError on all ranks if they differ. are_shared: whether the statistics have been averaged."""
        held = [
            Held(name, "{} {}".format(one.dtype.name, list(one.shape)), _reader(one), self._name_group(one, is_weight))
            for name, one, is_weight in self._state.alike(are_shared)
        ]
        self._proof.prove(held, when)

    def _name_group(self, variable: Any, is_weight: bool) -> str:
        """The ranks that hold the same of a variable."""
        mesh, apart = self._world.mesh, groups.updates()
        if mesh is not None and is_weight and splits.split_of(variable) is None:
            return "stage {}".format(mesh.stage)
        return _same_part(self._world) if apart is None else "group of rank {}".format(apart.ranks[0])

    def _cause(self, name: str, facts: Sequence[Mapping[str, Any]]) -> str:
        rates = sorted({one["rate"] for one in facts})
        if rates[1:]:
            return "Likeliest cause: the learning rate is {:g} on one rank, but {:g} on another".format(*rates[:2])
        return "Likeliest cause: {}".format(self._words())

    def _words(self) -> str:
        way = self._way
        if self._world.mesh is not None and self._world.mesh.tensor > 1:
            return (
                "its layer has inputs of which each rank has another part. Use a RowParallelDense or a "
                "RowParallelConv2D there, or gather_output=True in the layer before it"
            )
        if way.step:
            return (
                "the train_step of {} changes it without the gradients of the other ranks. Change weights by "
                "self.optimizer.apply_gradients or self.optimizer.minimize alone; the optimizer is the one that "
                "training.fit is given".format(way.step)
            )
        if way.loop:
            return (
                "the loop changes it beside loop.step, which alone averages gradients over the ranks. Give loop.step "
                "all gradients, and change weights by what is the same on all ranks"
            )
        suspects = ["the optimizer {}".format(way.optimizer)] if way.optimizer else []
        suspects += ["the callback {}".format(one) for one in way.callbacks]
        if not suspects:
            return (
                "a layer changes it when it is called, by what its own rank has alone: its batch, or random numbers. "
                "Without such a layer, a processor or its memory is faulty"
            )
        return (
            "{} changes it by what one rank has alone: its number, its batch, or random numbers. Do the same on all "
            "ranks".format(" or ".join(suspects))
        )


def prove_structure(world: World, model: Any) -> None:
    """Raise AgreedError on all ranks unless they have made the same model, with any weights. A collective."""
    part = _same_part(world)
    held = [Held(one.name, "{} {}".format(one.dtype.name, list(one.shape)), among=part) for one in model.variables]
    OneModel(world, lambda name, facts: MADE_OTHERWISE).prove(held, "when it was made")


def _reader(variable: Any) -> Callable[[], np.ndarray]:
    """What reads a variable, without a copy where it is on a CPU."""
    if hasattr(variable, "values"):  # of a strategy of TensorFlow
        return lambda: np.asarray(variable.numpy())
    return lambda: np.asarray(variable.read_value())


def _same_part(world: World) -> str:
    return "" if world.mesh is None else "part {}".format(world.mesh.part)
