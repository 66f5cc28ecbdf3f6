"""What a rank trains on: its shard, in memory or read anew in every epoch, as batches from any step on."""

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

    shard: all samples that it reads. steps: of an epoch, the same on all ranks; samples: in an epoch of all ranks.
    batches_from(epoch, step): endless batches from there on, both from 0, for model.fit.
    """

    shard: Shard
    steps: int
    samples: int
    batches_from: Callable[[int, int], Any]


def training_feed(
    world: World, source: Source, order: Any, asked: Any, augment: Augmentation, sharded: bool = True
) -> Feed:
    """This rank's share of the samples in `order` (shards.shuffled). A collective.

    Every size-th sample is a rank's, and it reads only these; under a strategy of TensorFlow each of its replicas gets
    what a rank would get. Shards have equal lengths, so all make the same number of steps: a rank with one more
    would wait for ever. asked: has input, batch_size_per_rank, accumulation and seed. Images stay uint8 up to the
    model's first layer, which is a quarter of the bytes to keep and to move.

    sharded=False: every replica draws from all samples, in an order of its own, and an epoch is its part of the steps
    of one pass over them: what is seen in an epoch, by whom and how often, is left to chance.
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
        # Without shards the replicas share what was read once, and differ in their random numbers alone.
        makers = [batches for _, batches in read] if sharded else [read[0][1]] * len(world.own_replicas)
        return _spread(world, [make(replica, *place, **making) for make, replica in zip(makers, world.own_replicas)])

    return Feed(shards.joined([shard for shard, _ in read]), steps, samples, batches_from)


def divided(world: World, asked: Any) -> int:
    """The batch size per rank where all ranks together shall have asked.global_batch_size samples in a step.

    Raises AgreedError if it does not divide, or if the learning rate is scaled with a batch that does not grow.
    """
    parts = world.replicas * asked.accumulation
    problem = ""
    if asked.global_batch_size % parts:
        problem = "does not divide among {} ranks: say a multiple of {}, or another number of ranks".format(
            parts, parts
        )
    elif asked.scale_learning_rate != "none":
        problem = "keeps the batch of all ranks, and so the rate: set --scale-learning-rate=none"
    if problem:
        message = "--global-batch-size={} {}".format(asked.global_batch_size, problem)
        raise AgreedError(message, speaks=world.is_root)
    return int(asked.global_batch_size // parts)


def _read(
    world: World, source: Source, order: Any, asked: Any, batch_size: int, part: int, parts: int
) -> tuple[Shard, Callable[..., Any]]:
    """One of `parts` shards, and what makes batches of it, given the replica's number, epoch and step. A collective."""
    if asked.input == "stream":  # read and decoded anew in every epoch: for data larger than memory
        shard = world.together(lambda: source.stream_shard(order, asked.seed, part, parts))
        return shard, functools.partial(streaming.training_stream, source, shard, batch_size, asked.seed)
    shard = world.together(lambda: shards.training_shard(order, part, parts))
    images, labels = world.together(lambda: _in_memory(source, shard))
    return shard, functools.partial(pipeline.training_batches, images, labels, batch_size, asked.seed)


def _in_memory(source: Source, shard: Shard) -> tuple[Any, Any]:
    """Images and labels of a shard. As tensors: made of arrays they are copies, and the arrays would stay as well."""
    images, labels = source.read("train", shard.indices)
    with tf.device("/CPU:0"):  # a constant would otherwise move the whole shard to the GPU
        return tf.constant(images), tf.constant(labels)


def _spread(world: World, own: list[tf.data.Dataset]) -> Any:
    """The batches of a rank's replicas as model.fit takes them: in every step a batch of each, in turn."""
    if world.distribute is None:
        return own[0]
    in_turn = own[0]
    if len(own) > 1:
        in_turn = tf.data.Dataset.choose_from_datasets(own, tf.data.Dataset.range(len(own)).repeat())
    # Not distribute_dataset, which would cut batches up and shard what is sharded already.
    return world.distribute.distribute_datasets_from_function(lambda context: in_turn)
