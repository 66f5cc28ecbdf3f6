"""Ends a training in which ranks that share a model have come to different values of what each should have whole."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hpclaunch.training.model_parallel import splits
from hpclaunch.training.rank.equality import different_in_stage
from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.world import World


class SameModel(tf.keras.callbacks.Callback):
    """Compares the weights that are no parts, after the first step and every epoch. A collective.

    They differ if a layer of Keras between shared layers mixes units of which each rank has others.
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
            raise AgreedError(
                "the weight {} is not the same on the ranks that share the model: its layer has inputs of which each "
                "rank has another part. Use a RowParallelDense or a RowParallelConv2D there, or gather_output=True in "
                "the layer before it".format(different[0]),
                speaks=self._world.is_root,
            )
