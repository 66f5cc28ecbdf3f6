"""Reduces gradients over the ranks: averaged or by Adasum, as they are or as float16."""

from __future__ import annotations

from typing import Any

import horovod._keras
import horovod.tensorflow as hvd
import horovod.tensorflow.keras
import tensorflow as tf

from hpclaunch.training.optimization import precision
from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.world import World

COMPRESSION = {"none": hvd.Compression.none, "fp16": hvd.Compression.fp16}


def distributed(optimizer: Any, world: World, compression: str = "none", adasum: bool = False) -> Any:
    """hvd.DistributedOptimizer around a Keras optimizer; compression: a key of COMPRESSION.

    Under a strategy of TensorFlow the optimizer as it is: the strategy averages gradients.
    With `adasum` gradients are added by their angles instead of averaged (Maleki et al. 2020, arXiv 2006.02924): like
    a sum where they are orthogonal, like an average where they are parallel; so the base rate needs no scaling.
    Raises AgreedError where Adasum cannot work.
    """
    if world.distribute is not None:
        return optimizer
    packed = COMPRESSION[compression]
    if not adasum:
        return _with_plain_variables(horovod.tensorflow.keras.DistributedOptimizer(optimizer, compression=packed))
    problem = why_no_adasum(world.size, hvd.mpi_built(), hvd.mpi_enabled())
    if problem:
        raise AgreedError(problem, speaks=world.is_root)
    # hvd.DistributedOptimizer refuses Adasum for Keras, as for Adam the paper reduces steps and not gradients; what
    # it calls can reduce gradients, as hvd.DistributedGradientTape(op=hvd.Adasum) does.
    adding = horovod._keras.create_distributed_optimizer(
        keras=tf.keras,
        optimizer=optimizer,
        name=None,
        device_dense="",
        device_sparse="",
        compression=packed,
        sparse_as_dense=True,
        gradient_predivide_factor=1.0,
        op=hvd.Adasum,
    )
    return _with_plain_variables(adding)


def _with_plain_variables(optimizer: Any) -> Any:
    reduce = optimizer._allreduce_grads
    optimizer._allreduce_grads = lambda gradients, variables: reduce(gradients, precision.plain(variables))
    return optimizer


def why_no_adasum(size: int, mpi_built: bool, mpi_enabled: bool) -> str:
    """What is in the way of Adasum in a world of `size` ranks, in words; empty if nothing."""
    if size & (size - 1):
        return (
            "Adasum adds ranks in pairs and needs a world size that is a power of two, not {}: change the number of "
            "ranks, or set --adasum=false".format(size)
        )
    if size > 1 and not mpi_built:
        return (
            "Adasum needs MPI, and this Horovod is built with Gloo alone: build it with HOROVOD_WITH_MPI=1, or set "
            "--adasum=false"
        )
    if size > 1 and not mpi_enabled:
        return (
            "Adasum needs MPI, and these ranks talk through Gloo: use the launcher srun or mpirun, or set "
            "--adasum=false"
        )
    return ""


def reduced(optimizer: Any, gradients: Any, variables: Any) -> list[Any]:
    """Gradients that were computed outside the optimizer, reduced as `optimizer` (of distributed()) would."""
    return list(optimizer._allreduce(gradients, variables))


def broadcast_weights(model: Any, world: World) -> None:
    """Give every rank rank 0's weights, before the first step. A collective.

    Horovod's BroadcastGlobalVariablesCallback does it after the first step, whose gradients then come from different
    weights. A fresh optimizer needs none: its state starts at zero everywhere. A strategy of TensorFlow has done it.
    """
    if world.size > 1 and world.distribute is None:
        hvd.broadcast_variables(precision.plain(model.variables), root_rank=0)
