"""The optimizer of a model that is split over several ranks: it averages gradients over the copies of the model."""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow as tf

from hpclaunch.training.model_parallel import groups, splits
from hpclaunch.training.optimization import precision, weight_parts
from hpclaunch.training.optimization.collective_optimizer import CollectiveOptimizer
from hpclaunch.training.rank.horovod import hvd

BUCKET_BYTES = 32 * 2**20
"""Gradients that are averaged together."""


class SplitOptimizer(CollectiveOptimizer):
    """A Keras optimizer for the weights of which this rank has parts; every step is a collective.

    optimizer, agree: as for CollectiveOptimizer. weights: the model's trainable ones on this rank. compression: of hvd,
    for the gradients on their way; None: they are sent as they are.
    """

    def __init__(self, optimizer: Any, weights: Sequence[Any], compression: Any = None, agree: bool = False) -> None:
        weights = precision.plain(weights)
        super().__init__("Split", optimizer, weights, weights, agree)
        self._compression = compression or hvd.Compression.none
        sizes = [variable.shape.num_elements() for variable in weights]
        self._buckets = weight_parts.buckets(sizes, BUCKET_BYTES // weights[0].dtype.size)
        for variable, owner in zip(self._own_state, self._owners()):
            split = None if owner is None else splits.split_of(weights[owner])
            if split is not None:
                splits.mark(variable, split)

    def _allreduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        dense = [
            tf.zeros_like(variable) if gradient is None else tf.convert_to_tensor(gradient)
            for gradient, variable in zip(gradients, self._weights)
        ]
        return self._agree_on_finite(self._average(dense) if groups.data().size > 1 else dense)

    def _average(self, gradients: list[Any]) -> list[Any]:
        """The gradients of the copies, averaged bucket by bucket: what is sent is in memory twice."""
        found: list[Any] = []
        # After the last collective of the layers: on GPUs, two kinds of collectives at the same time can deadlock.
        before = gradients
        for number, bucket in enumerate(self._buckets):
            with tf.control_dependencies(before):
                before = hvd.grouped_allreduce(
                    [gradients[index] for index in bucket.variables],
                    op=hvd.Average,
                    compression=self._compression,
                    process_set=groups.data().process_set,
                    name="gradients.{}".format(number),
                    ignore_name_scope=True,
                )
            found += before
        return found

    def apply_gradients(
        self, grads_and_vars: Any, name: Any = None, experimental_aggregate_gradients: bool = True
    ) -> Any:
        """Update the weights by gradients that `_allreduce` has averaged. A collective.

        Returns an operation, as float16's loss scaling needs it: its other branch, which leaves the step out, has no
        value either.
        """
        return tf.group(self._update_held([gradient for gradient, _ in grads_and_vars]))

    def state(self) -> list[Any]:
        """The variables of the optimizer, of which those of split weights are parts, too."""
        return list(self._own_state)
