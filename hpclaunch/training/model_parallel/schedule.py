"""The order in which a stage of a pipeline computes the micro-batches of a step; it needs no TensorFlow."""

from __future__ import annotations

from typing import List, Tuple

FORWARD, BACKWARD = "forward", "backward"
Work = Tuple[str, int]


def one_forward_one_backward(stage: int, stages: int, micro_batches: int) -> List[Work]:
    """The work of a stage in a step: (FORWARD or BACKWARD, number of the micro-batch), in its order.

    After the forward passes that fill the pipeline, a backward pass follows every forward pass. So a stage keeps the
    activations of `stages - stage` micro-batches at most, not of all. The last stage takes turns from the beginning.
    Source: Narayanan et al. 2021, arXiv 2104.04473, section 2.2.1.
    """
    filling = min(stages - 1 - stage, micro_batches)
    order = [(FORWARD, number) for number in range(filling)]
    for number in range(filling, micro_batches):
        order += [(FORWARD, number), (BACKWARD, number - filling)]
    return order + [(BACKWARD, number) for number in range(micro_batches - filling, micro_batches)]
