"""Layers of Keras that several ranks share, for models that do not fit one GPU (docs/training.md).

With --tensor-parallel=1 they are whole layers without communication. A name is loaded when it is first used, because
TensorFlow must not be imported before `training.start`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpclaunch.training.layers.attention import ParallelAttention
    from hpclaunch.training.layers.blocks import in_blocks
    from hpclaunch.training.layers.convolution import ColumnParallelConv2D, RowParallelConv2D
    from hpclaunch.training.layers.dense import ColumnParallelDense, RowParallelDense
    from hpclaunch.training.layers.divided import ParallelBatchNormalization, ParallelDropout
    from hpclaunch.training.layers.vocabulary import VocabularyParallelCrossentropy, VocabularyParallelEmbedding

__all__ = [
    "ColumnParallelConv2D",
    "ColumnParallelDense",
    "ParallelAttention",
    "ParallelBatchNormalization",
    "ParallelDropout",
    "RowParallelConv2D",
    "RowParallelDense",
    "VocabularyParallelCrossentropy",
    "VocabularyParallelEmbedding",
    "in_blocks",
]

_HOMES = {
    "attention": ("ParallelAttention",),
    "blocks": ("in_blocks",),
    "convolution": ("ColumnParallelConv2D", "RowParallelConv2D"),
    "dense": ("ColumnParallelDense", "RowParallelDense"),
    "divided": ("ParallelBatchNormalization", "ParallelDropout"),
    "vocabulary": ("VocabularyParallelCrossentropy", "VocabularyParallelEmbedding"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError("module {!r} has no attribute {!r}".format(__name__, name))
    return getattr(importlib.import_module(__name__ + "." + _HOME_OF[name]), name)
