"""Ends a training in which ranks have come to different values of weights that should be the same on all of them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hpclaunch.training.model_parallel import splits
from hpclaunch.training.rank.equality import different_in_stage
from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.world import World


class SameModel(tf.keras.callbacks.Callback):
    """Compares the weights that are no parts, after the first step and every epoch. A collective.

    In a model that ranks share they differ if a layer of Keras between shared layers mixes units of which each rank has
    others; in any other, if a train_step of the program changes them without the gradients of the other ranks.
    """

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._compared = False

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if not self._compared:
            self._compare()
            self._compared = True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._compare()

    def _compare(self) -> None:
        whole = [one for one in self.model.trainable_variables if splits.split_of(one) is None]
        different = different_in_stage(self._world, [(one.name, one.numpy()) for one in whole])
        if different:
            raise AgreedError(self._reason(different[0]), speaks=self._world.is_root)

    def _reason(self, name: str) -> str:
        if self._world.mesh is None:
            return (
                "the weight {} is not the same on all ranks: the train_step of {} changes it without the gradients of "
                "the other ranks. Change weights by self.optimizer.apply_gradients or self.optimizer.minimize alone; "
                "the optimizer is the one that training.fit is given".format(name, type(self.model).__name__)
            )
        return (
            "the weight {} is not the same on the ranks that share the model: its layer has inputs of which each rank "
            "has another part. Use a RowParallelDense or a RowParallelConv2D there, or gather_output=True in the layer "
            "before it".format(name)
        )
