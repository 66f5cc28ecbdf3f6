"""A model as a chain of blocks: the stages of a pipeline, and the units of activation recomputation."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import tensorflow as tf

from hpclaunch.training.model_parallel import groups
from hpclaunch.training.model_parallel.randomness import Beginnings
from hpclaunch.training.model_parallel.recomputation import Recomputed
from hpclaunch.training.optimization.pipelined import Pipelined
from hpclaunch.training.rank.failure import AgreedError, TrainingError
from hpclaunch.training.rank.horovod import hvd

Block = Callable[[Any], Any]


def in_blocks(inputs: Any, blocks: Sequence[Block], between: Sequence[int], name: str = "model") -> Any:
    """The Keras model of blocks that follow one another, each a function from a Keras tensor to the next one.

    inputs: a tf.keras.Input of the whole model. blocks: the first one begins with `inputs`, the last one gives the
    outputs. between: the shape of what passes from block to block, without the batch.

    With pipeline_stages above 1 a rank makes the blocks of its stage only, and the model, called on any rank, gives the
    outputs of the last stage. The blocks between the first and the last are divided equally; these two belong to the
    first and the last stage. With recompute, the blocks between these two compute their activations again in the
    backward pass. The first weights are the same in all layouts, if Keras's random numbers come from the run's seed and
    no two blocks share an initializer without a seed. No two blocks may share a layer: each stage would have its own.
    Raises AgreedError if there are too few blocks, TrainingError if one does not fit the next.
    """
    chain = _Chain(inputs, list(blocks), tuple(between), name)
    group = groups.own().pipeline
    if group.size == 1:
        model = chain.model(0, len(blocks))
        if groups.recomputes():
            model.whole_again = chain.whole
        return model
    inner = len(blocks) - 2
    if inner < group.size:
        raise AgreedError(
            "--pipeline-stages={}: the model {} has only {} blocks between the first and the last; use at most as many "
            "stages".format(group.size, name, max(0, inner)),
            speaks=_speaks(),
        )
    cuts = [1 + inner * stage // group.size for stage in range(1, group.size)]
    begin, end = [0, *cuts][group.index], [*cuts, len(blocks)][group.index]
    return Pipelined(chain.model(begin, end), chain.entering(), chain.whole, name=name)


def _speaks() -> bool:
    return not hvd.is_initialized() or hvd.rank() == 0


class _Chain:
    """The blocks of one model, with the random numbers from which they begin."""

    def __init__(self, inputs: Any, blocks: list[Block], between: tuple[int, ...], name: str) -> None:
        self._inputs, self._blocks, self._between, self._name = inputs, blocks, between, name
        self._beginnings = Beginnings()

    def entering(self) -> tf.TensorSpec:
        """What passes from block to block."""
        return tf.TensorSpec((None, *self._between), tf.keras.mixed_precision.global_policy().compute_dtype)

    def whole(self) -> Any:
        """The model of all blocks, with new weights, to be made in groups.whole_models()."""
        return self.model(0, len(self._blocks))

    def model(self, begin: int, end: int) -> Any:
        """The blocks from `begin` to `end`, without it, as a functional model."""
        first = x = self._inputs if begin == 0 else self._new_input()
        for number in range(begin, end):
            with self._beginnings.of(number):
                x = self._make(number, x)
            if number + 1 < len(self._blocks):
                self._check(number, x)
        return tf.keras.Model(first, x, name=self._name)

    def _make(self, number: int, x: Any) -> Any:
        block = self._blocks[number]
        if not groups.recomputes() or number in (0, len(self._blocks) - 1):
            return block(x)
        inner = self._new_input()
        return Recomputed(tf.keras.Model(inner, block(inner)), name="block_{}".format(number))(x)

    def _new_input(self) -> Any:
        spec = self.entering()
        return tf.keras.Input(spec.shape[1:], dtype=spec.dtype)

    def _check(self, number: int, x: Any) -> None:
        """Raise TrainingError if this cannot be passed on: only the ranks that have made the block know it."""
        spec = self.entering()
        found, wanted = ("{} {}".format(tf.as_dtype(one.dtype).name, list(one.shape[1:])) for one in (x, spec))
        if found != wanted:
            raise TrainingError(
                "block {} of the model {} gives {}, but between={} says that {} passes from block to block".format(
                    number, self._name, found, list(self._between), wanted
                )
            )
        is_passed_on = groups.recomputes() or groups.own().pipeline.size > 1
        if is_passed_on and getattr(x, "_keras_mask", None) is not None:
            raise TrainingError(
                "block {} of the model {} gives a mask, which neither stages nor recomputation pass on: leave out "
                "mask_zero and Masking, and give weights to the samples".format(number, self._name)
            )
