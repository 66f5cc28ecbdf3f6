"""Local SGD between groups of ranks: groups train apart, and average their weights after every few steps.

The ranks of a group average gradients in every step (reduction.distributed). This is a hybrid of synchronous training
and of local SGD (Stich 2018, arXiv 1805.09767). Kurth et al. 2017 (arXiv 1708.05256) call hybrid that their synchronous
groups update the weights of a parameter server without waiting for each other. Ranks of Horovod cannot do this: here
all groups wait for each other in every exchange.
"""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow as tf

from hpclaunch.training.model_parallel import groups
from hpclaunch.training.optimization import precision, weight_parts
from hpclaunch.training.rank.horovod import hvd

BUCKET_BYTES = 32 * 2**20
"""Variables that are averaged together."""


class ExchangeWeights(tf.keras.callbacks.Callback):
    """Gives all groups the average of their weights after every `every` steps of an epoch, and at its end.

    Place it first: the callbacks after it see the same weights on all ranks at the end of an epoch.
    """

    def __init__(self, every: int) -> None:
        super().__init__()
        self._every, self._begin = every, 0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._begin = batch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if is_due(self._begin, batch + 1, self._every):
            self._exchange()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._exchange()

    def _exchange(self) -> None:
        average(precision.plain(self.model.trainable_variables), "groups.weights")


def is_due(before: int, after: int, every: int) -> bool:
    """Whether an exchange after every so many steps of an epoch belongs between these numbers of steps."""
    return after // every > before // every


def average(variables: Sequence[Any], name: str) -> None:
    """Give every variable that is not a whole number its average over all ranks, bucket by bucket. A collective.

    As groups have equally many ranks, and those of a group the same values, it is the average over the groups.
    """
    by_type: dict[str, list[Any]] = {}
    for variable in variables:
        if variable.dtype.is_floating:
            by_type.setdefault(variable.dtype.name, []).append(variable)
    for kind, held in by_type.items():
        sizes = [variable.shape.num_elements() for variable in held]
        for number, bucket in enumerate(weight_parts.buckets(sizes, BUCKET_BYTES // held[0].dtype.size)):
            together = [held[index] for index in bucket.variables]
            found = hvd.grouped_allreduce(
                [variable.read_value() for variable in together],
                op=hvd.Average,
                name="{}.{}.{}".format(name, kind, number),
            )
            for variable, value in zip(together, found):
                variable.assign(value)


def unite(variables: Sequence[Any]) -> None:
    """Let all groups have the same weights and optimizer state, as a checkpoint has one of each. A collective.

    Without groups it does nothing: the variables of all ranks are equal.
    """
    if groups.updates() is not None:
        average(precision.plain(variables), "groups.state")
