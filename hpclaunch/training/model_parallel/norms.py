"""Norms of whole variables of which each rank has a part."""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow as tf

from hpclaunch.training.model_parallel import collectives, groups


def whole_squares(squares: Any, is_part: Sequence[bool], name: str) -> Any:
    """Squared norms [n] of whole tensors, from those of what this rank holds. A collective of those that share layers.

    is_part: whether a tensor is a part; a tensor that all ranks have counts once.
    """
    group = groups.tensor()
    if group.size == 1 or not any(is_part):
        return squares
    parts = tf.constant(list(is_part))
    return tf.where(parts, collectives.total(tf.where(parts, squares, 0), group, "whole_squares." + name), squares)


def over_stages(square: Any, name: str) -> Any:
    """The sum of `square`, of the variables of this rank's stage, over all stages. A collective of these."""
    return collectives.summed(square, groups.own().pipeline, "over_stages." + name)
