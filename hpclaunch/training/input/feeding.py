"""The training data of a rank: its shard, in memory or read again in every epoch, as batches from any step on."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Callable

import tensorflow as tf

from hpclaunch.training.input import pipeline, shards, streaming
from hpclaunch.training.input.augmentation import Augmentation
from hpclaunch.training.input.shards import Shard
from hpclaunch.training.input.source import Source
from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.world import World


@dataclass(frozen=True)
class Feed:
    """A rank's share of the training data.

    shard: all samples that it reads. steps: the steps of an epoch, the same on all ranks. samples: those of an epoch on
    all ranks. batches_from(epoch, step): endless batches from there on (both count from 0), for model.fit.
    """

    shard: Shard
    steps: int
    samples: int
    batches_from: Callable[[int, int], Any]


def training_feed(
    world: World, source: Source, order: Any, asked: Any, augment: Augmentation, sharded: bool = True
) -> Feed:
    """This rank's share of the samples in `order` (shards.shuffled). A collective.

    A rank reads only its own samples, every size-th one; under a strategy of TensorFlow each of its replicas gets the
    share of a rank. Shards have equal lengths, so that all ranks make the same number of steps: a rank with one step
    more would wait for ever. asked: has input, batch_size_per_rank, accumulation and seed. Images stay uint8 up to the
    model's first layer, which saves three quarters of the bytes.

    sharded=False: every replica draws from all samples in an order of its own, and makes its part of the steps of one
    pass. Which samples an epoch contains, and how often, is then random.
    """
    batch_size = asked.batch_size_per_rank * asked.accumulation  # of one rank, in one step
    making: dict[str, Any] = {"augment": augment, "as_pixels": True}
    parts = [(replica, world.replicas) for replica in world.own_replicas] if sharded else [(0, 1)]
    read = [_read(world, source, order, asked, batch_size, *part) for part in parts]
    one_pass = shards.steps_per_epoch(len(read[0][0].indices), batch_size)
    steps = one_pass if sharded else max(1, one_pass // world.replicas)
    samples = len(order) if sharded else min(steps * batch_size, len(order)) * world.replicas

    def batches_from(epoch: int, step: int) -> Any:
        place = (epoch, step) if sharded else divmod(epoch * steps + step, one_pass)
        # Without shards the replicas share the samples in memory, and differ only in their random numbers.
        makers = [batches for _, batches in read] if sharded else [read[0][1]] * len(world.own_replicas)
        return _spread(world, [make(replica, *place, **making) for make, replica in zip(makers, world.own_replicas)])

    return Feed(shards.joined([shard for shard, _ in read]), steps, samples, batches_from)


def divided(world: World, asked: Any) -> int:
    """The batch size per rank, if a step of all ranks together is to have asked.global_batch_size samples.

    Raises AgreedError if it does not divide, or if the learning rate is scaled with a batch that does not grow.
    """
    parts = world.replicas * asked.accumulation
    problem = ""
    if asked.global_batch_size % parts:
        problem = "does not divide among {} ranks: use a multiple of {}, or another number of ranks".format(
            parts, parts
        )
    elif asked.scale_learning_rate != "none":
        problem = "fixes the batch of all ranks, so the rate must not be scaled: set --scale-learning-rate=none"
    if problem:
        message = "--global-batch-size={} {}".format(asked.global_batch_size, problem)
        raise AgreedError(message, speaks=world.is_root)
    return int(asked.global_batch_size // parts)


def _read(
    world: World, source: Source, order: Any, asked: Any, batch_size: int, part: int, parts: int
) -> tuple[Shard, Callable[..., Any]]:
    """One of `parts` shards, and a function of replica, epoch and step that makes its batches. A collective."""
    if asked.input == "stream":  # read and decode again in every epoch, for data larger than memory
        shard = world.together(lambda: source.stream_shard(order, asked.seed, part, parts))
        return shard, functools.partial(streaming.training_stream, source, shard, batch_size, asked.seed)
    shard = world.together(lambda: shards.training_shard(order, part, parts))
    images, labels = world.together(lambda: _load_shard(source, shard), long=True)
    return shard, functools.partial(pipeline.training_batches, images, labels, batch_size, asked.seed)


def _load_shard(source: Source, shard: Shard) -> tuple[Any, Any]:
    """Images and labels of a shard, as tensors: these are copies, and the arrays would otherwise stay in memory too."""
    images, labels = source.read("train", shard.indices)
    with tf.device("/CPU:0"):  # otherwise the whole shard would be copied to the GPU
        return tf.constant(images), tf.constant(labels)


def _spread(world: World, own: list[tf.data.Dataset]) -> Any:
    """The batches of a rank's replicas for model.fit: in every step one batch of each replica, in turn."""
    if world.distribute is None:
        return own[0]
    in_turn = own[0]
    if len(own) > 1:
        in_turn = tf.data.Dataset.choose_from_datasets(own, tf.data.Dataset.range(len(own)).repeat())
    # Not distribute_dataset, which would split batches and shard the data a second time.
    return world.distribute.distribute_datasets_from_function(lambda context: in_turn)
