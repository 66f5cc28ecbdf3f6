"""What a rank trains on: its shard, in memory or read anew in every epoch, as batches from any step on."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Callable

import tensorflow as tf

from hpclaunch.training import pipeline, shards, streaming
from hpclaunch.training.augmentation import Augmentation
from hpclaunch.training.datasets import Source
from hpclaunch.training.shards import Shard
from hpclaunch.training.start import World


@dataclass(frozen=True)
class Feed:
    """A rank's share of the training data.

    shard: all samples that it reads. steps: of an epoch, the same on all ranks. batches_from(epoch, step): endless
    batches from there on, both from 0, for model.fit.
    """

    shard: Shard
    steps: int
    batches_from: Callable[[int, int], Any]


def training_feed(world: World, source: Source, order: Any, asked: Any, augment: Augmentation) -> Feed:
    """This rank's share of the samples in `order` (shards.shuffled). A collective.

    Every size-th sample is a rank's, and it reads only these; under a strategy of TensorFlow each of its replicas gets
    what a rank would get. Shards have equal lengths, so all make the same number of steps: a rank with one more
    would wait for ever. asked: has input, batch_size_per_rank, accumulation and seed. Images stay uint8 up to the
    model's first layer, which is a quarter of the bytes to keep and to move.
    """
    batch_size = asked.batch_size_per_rank * asked.accumulation  # of one rank, in one step
    own = [_of_replica(world, source, order, asked, augment, batch_size, replica) for replica in world.own_replicas]
    steps = shards.steps_per_epoch(len(own[0][0].indices), batch_size)
    return Feed(
        shards.joined([shard for shard, _ in own]),
        steps,
        lambda epoch, step: _spread(world, [batches(epoch, step) for _, batches in own]),
    )


def _of_replica(
    world: World, source: Source, order: Any, asked: Any, augment: Augmentation, batch_size: int, replica: int
) -> tuple[Shard, Callable[[int, int], Any]]:
    """What one replica reads, and its batches from any (epoch, step) on. A collective."""
    making: dict[str, Any] = {"augment": augment, "as_pixels": True}
    if asked.input == "stream":  # read and decoded anew in every epoch: for data larger than memory
        shard = world.together(lambda: source.stream_shard(order, asked.seed, replica, world.replicas))
        return shard, functools.partial(
            streaming.training_stream, source, shard, batch_size, asked.seed, replica, **making
        )
    shard = world.together(lambda: shards.training_shard(order, replica, world.replicas))
    images, labels = world.together(lambda: source.read("train", shard.indices))
    return shard, functools.partial(
        pipeline.training_batches, images, labels, batch_size, asked.seed, replica, **making
    )


def _spread(world: World, own: list[tf.data.Dataset]) -> Any:
    """The batches of a rank's replicas as model.fit takes them: in every step a batch of each, in turn."""
    if world.distribute is None:
        return own[0]
    in_turn = own[0]
    if len(own) > 1:
        in_turn = tf.data.Dataset.choose_from_datasets(own, tf.data.Dataset.range(len(own)).repeat())
    # Not distribute_dataset, which would cut batches up and shard what is sharded already.
    return world.distribute.distribute_datasets_from_function(lambda context: in_turn.with_options(pipeline.frugal()))
