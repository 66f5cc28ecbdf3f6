"""Reduces gradients over the ranks: with an average or with Adasum, in their own format or as float16."""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow as tf

from hpclaunch.training.model_parallel import groups, splits
from hpclaunch.training.optimization import collective_optimizer, given, precision, sharded_optimizer
from hpclaunch.training.optimization.lagged_optimizer import LaggedOptimizer
from hpclaunch.training.optimization.sharded_optimizer import ShardedOptimizer
from hpclaunch.training.optimization.split_optimizer import SplitOptimizer
from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.horovod import hvd, load
from hpclaunch.training.rank.world import World


def split(optimizer: Any, weights: Sequence[Any], world: World, asked: Any) -> Any:
    """The optimizer for a model that is split over the ranks, which averages gradients itself.

    asked: has compression and precision. Raises AgreedError for an optimizer that needs whole variables.
    """
    problem = collective_optimizer.why_not(optimizer, weights)
    if problem:
        raise AgreedError("a model that ranks share needs {}".format(problem), speaks=world.is_root)
    return SplitOptimizer(optimizer, weights, _compression(asked.compression), agree=asked.precision == "float16")


def sharded(optimizer: Any, weights: Sequence[Any], world: World, asked: Any) -> Any:
    """The optimizer with its state sharded over the ranks, which averages gradients itself.

    asked: has compression and precision. Raises AgreedError if the state cannot be sharded.
    """
    problem = sharded_optimizer.why_not(optimizer, weights, world)
    if problem:
        raise AgreedError("--shard-optimizer=true needs {}".format(problem), speaks=world.is_root)
    packed = _compression(asked.compression)
    return ShardedOptimizer(optimizer, weights, world, packed, agree=asked.precision == "float16")


def lagged(optimizer: Any, weights: Sequence[Any], world: World, asked: Any) -> Any:
    """The optimizer that applies the averaged gradients of the step before.

    asked: has compression. Raises AgreedError for an optimizer that it cannot wrap.
    """
    problem = collective_optimizer.why_not(optimizer, weights)
    if problem:
        raise AgreedError("--gradient-lag=true needs {}".format(problem), speaks=world.is_root)
    return LaggedOptimizer(optimizer, weights, world, _compression(asked.compression))


def distributed(optimizer: Any, world: World, compression: str = "none", adasum: bool = False) -> Any:
    """hvd.DistributedOptimizer around a Keras optimizer; compression: none or fp16.

    Under a strategy of TensorFlow it is the optimizer itself, because the strategy averages gradients. In groups of
    ranks that train apart (group_updates) gradients are averaged over those of this rank's group.
    With `adasum` gradients are added by their angles instead of averaged (Maleki et al. 2020, arXiv 2006.02924): like
    a sum if they are orthogonal, like an average if they are parallel. So the base rate needs no scaling.
    Raises AgreedError if Adasum cannot work.
    """
    if world.distribute is not None:
        return optimizer
    packed = _compression(compression)
    if not adasum:
        own = groups.updates()
        ranks = hvd.global_process_set if own is None else own.process_set
        averaging = load("horovod.tensorflow.keras").DistributedOptimizer(
            optimizer, compression=packed, process_set=ranks
        )
        return _complete(averaging, optimizer)
    problem = why_no_adasum(world.size, hvd.mpi_built(), hvd.mpi_enabled())
    if problem:
        raise AgreedError(problem, speaks=world.is_root)
    # hvd.DistributedOptimizer refuses Adasum for Keras, because for Adam the paper reduces steps instead of gradients.
    # The function inside it can reduce gradients, as hvd.DistributedGradientTape(op=hvd.Adasum) does.
    adding = load("horovod._keras").create_distributed_optimizer(
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
    return _complete(adding, optimizer)


def _compression(name: str) -> Any:
    """What Horovod makes of gradients on their way: `none` leaves them as they are, `fp16` sends 16 bits."""
    return getattr(hvd.Compression, name)


def _complete(wrapped: Any, optimizer: Any) -> Any:
    """Horovod's optimizer, which takes casting variables, and has what it did not copy from `optimizer`."""
    reduce = _plain_function(wrapped._allreduce_grads)
    wrapped._allreduce_grads = lambda gradients, variables: reduce(gradients, precision.plain(variables))
    given.keep_exclusions(optimizer, wrapped)
    return wrapped


def _plain_function(function: Any) -> Any:
    """Horovod's tf.function without AutoGraph, which reads code for seconds here and has nothing to convert in it."""
    plain = getattr(function, "python_function", None)
    return function if plain is None else tf.function(plain, autograph=False)


def why_no_adasum(size: int, mpi_built: bool, mpi_enabled: bool) -> str:
    """Why Adasum cannot work in a world of `size` ranks, in words; empty if it can."""
    if size & (size - 1):
        return (
            "Adasum adds ranks in pairs and needs a world size that is a power of two, not {}: change the number of "
            "ranks, or set --adasum=false".format(size)
        )
    if size > 1 and not mpi_built:
        return (
            "Adasum needs MPI, but this Horovod is built with Gloo only: build it with HOROVOD_WITH_MPI=1, or set "
            "--adasum=false"
        )
    if size > 1 and not mpi_enabled:
        return (
            "Adasum needs MPI, but these ranks communicate over Gloo: use the launcher srun or mpirun, or set "
            "--adasum=false"
        )
    return ""


def reduced(optimizer: Any, gradients: Any, variables: Any) -> list[Any]:
    """Gradients computed outside the optimizer, reduced in the same way as by `optimizer` (of distributed())."""
    return list(optimizer._allreduce(gradients, variables))


def average_on_apply(optimizer: Any) -> None:
    """Let a compiled optimizer reduce gradients in apply_gradients, in place of where it computes them.

    Horovod averages in `minimize` alone. A train_step of the program may compute gradients with a tape of its own and
    call apply_gradients, in which `minimize` ends too: so gradients are averaged once in both. Under float16 they are
    averaged before the loss scaling looks for an overflow, so that all ranks find the same.

    apply_gradients raises TrainingError if the optimizer updates all weights together and gets only some of them.
    """
    averaging = precision.unscaled(optimizer)
    reduce, apply = averaging._allreduce, optimizer.apply_gradients

    def apply_gradients(grads_and_vars: Any, *rest: Any, **named: Any) -> Any:
        gradients, variables = zip(*grads_and_vars)
        if isinstance(averaging, collective_optimizer.CollectiveOptimizer):
            averaging.check_weights(variables)
        return apply(zip(reduce(gradients, variables), variables), *rest, **named)

    averaging._allreduce = lambda gradients, variables: list(gradients)
    optimizer.apply_gradients = apply_gradients
    optimizer.averages_on_apply = True


def broadcast_weights(model: Any, world: World) -> None:
    """Give every rank rank 0's weights, before the first step. A collective.

    Horovod's BroadcastGlobalVariablesCallback does it only after the first step, whose gradients then come from
    different weights. A new optimizer needs no broadcast, since its state is zero on all ranks. A strategy of
    TensorFlow has already done it. The weights of a divided model come from its first copy.
    """
    if world.size == 1 or world.distribute is not None:
        return
    variables = precision.plain(model.variables)
    if world.mesh is None:
        hvd.broadcast_variables(variables, root_rank=0)
        return
    whole = [one for one in variables if splits.split_of(one) is None]
    for group, held in ((groups.tensor(), whole), (groups.data(), variables)):
        if group.size > 1 and held:
            hvd.broadcast_variables(held, root_rank=group.ranks[0], process_set=group.process_set)
