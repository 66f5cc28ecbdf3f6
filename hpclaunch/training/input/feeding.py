"""The training data of a rank: its shard, in memory or read again in every epoch, as batches from any step on."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Callable, Sequence

import tensorflow as tf

from hpclaunch.training.input import epoch_order, pipeline, shards, streaming
from hpclaunch.training.input.augmentation import Augmentation
from hpclaunch.training.input.epoch_order import Sampler
from hpclaunch.training.input.shards import Shard
from hpclaunch.training.input.source import Source
from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.world import World


@dataclass(frozen=True)
class Feed:
    """A rank's share of the training data.

    shard: all samples that it reads. steps: the steps of an epoch, the same on all ranks. samples: those of an epoch on
    all ranks. batches_from(epoch, step): endless batches from there on (both count from 0), for model.fit. sampler:
    which ones a replica reads, also in an epoch that another number of replicas has begun: `batches_from` then gives
    what is left of that epoch, whose reading is a collective. None, if only the order of files tells it.
    """

    shard: Shard
    steps: int
    samples: int
    batches_from: Callable[[int, int], Any]
    sampler: Sampler | None = None

    def read_from(self, epoch: int, replicas: Sequence[int]) -> Shard:
        """All samples that a rank with these replicas may read from `epoch` on, to look for a damaged one.

        What is left of an epoch that another number of replicas has begun comes first; it is not all of its shard.
        """
        rests = [self.sampler.rest(epoch, replica) for replica in replicas] if self.sampler else []
        left = [Shard(rest, len(rest)) for rest in rests if rest is not None]
        return shards.joined([*left, self.shard])


def training_feed(
    world: World, source: Source, order: Any, asked: Any, augment: Augmentation, sharded: bool = True
) -> Feed:
    """This rank's share of the samples in `order` (shards.shuffled). A collective.

    A rank reads only its own samples, every size-th one; under a strategy of TensorFlow each of its replicas gets the
    share of a rank. Shards have equal lengths, so that all ranks make the same number of steps: a rank with one step
    more would wait for ever. asked: has input, batch_size_per_rank, accumulation and seed. Images stay uint8 up to the
    model's first layer, which saves three quarters of the bytes.

    With reshuffle=global every replica may read any sample, and reads others in each epoch. Raises AgreedError if these
    data cannot be read so.

    sharded=False: every replica draws from all samples in an order of its own, and makes its part of the steps of one
    pass. Which samples an epoch contains, and how often, is then random.
    """
    batch_size = asked.batch_size_per_rank * asked.accumulation  # of one rank, in one step
    making: dict[str, Any] = {"augment": augment, "as_pixels": True}
    reshuffle, sampler = epoch_order.is_global(asked), None
    if sharded and (asked.input != "stream" or source.any_order):
        sampler = Sampler(order, asked.seed, world.replicas, batch_size, reshuffle)
    if reshuffle:
        _check_reshuffle(world, source, sharded, sampler)
    if sampler and reshuffle:
        held = [world.together(lambda: sampler.held(world.own_replicas[0]))]
    else:
        parts = [(replica, world.replicas) for replica in world.own_replicas] if sharded else [(0, 1)]
        held = [_shard(world, source, order, asked, *part) for part in parts]
    makers = [_maker(world, source, shard, asked, batch_size) for shard in held]
    if len(makers) < len(world.own_replicas):
        makers *= len(world.own_replicas)  # without shards the replicas share the samples in memory
    one_pass = shards.steps_per_epoch(sampler.length if sampler else len(held[0].indices), batch_size)
    steps = one_pass if sharded else max(1, one_pass // world.replicas)
    samples = len(order) if sharded else min(steps * batch_size, len(order)) * world.replicas

    def of_replica(replica: int, make: Callable[..., Any], epoch: int, step: int) -> Any:
        rest = sampler.rest(epoch, replica) if sampler else None
        if sampler and rest is not None:
            order = sampler.numbered(rest)
            make = _maker(world, source, Shard(rest, len(rest)), asked, batch_size)
            return make(replica, epoch, step, places=lambda epoch: order, length=len(order), **making)
        if sampler and reshuffle:
            places = functools.partial(sampler.places, rank=replica)
            return make(replica, epoch, step, places=places, length=sampler.length, **making)
        return make(replica, epoch, step, **making)

    def batches_from(epoch: int, step: int) -> Any:
        place = (epoch, step) if sharded else divmod(epoch * steps + step, one_pass)
        return _spread(world, [of_replica(replica, make, *place) for make, replica in zip(makers, world.own_replicas)])

    return Feed(shards.joined(held), steps, samples, batches_from, sampler)


def _check_reshuffle(world: World, source: Source, sharded: bool, sampler: Sampler | None) -> None:
    problem = ""
    if not sharded:
        problem = "has no effect: in this program every rank draws from all samples"
    elif sampler is None:
        problem = (
            "needs samples that can be read in any order, but {} in the layout {} are streamed in that of their files: "
            "use --input=memory, class folders, or --reshuffle=shard".format(source.path, source.layout)
        )
    if problem:
        raise AgreedError("--reshuffle=global {}".format(problem), speaks=world.is_root)


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


def _shard(world: World, source: Source, order: Any, asked: Any, part: int, parts: int) -> Shard:
    """One of `parts` shards. A collective."""
    if asked.input == "stream":
        return world.together(lambda: source.stream_shard(order, asked.seed, part, parts))
    return world.together(lambda: shards.training_shard(order, part, parts))


def _maker(world: World, source: Source, shard: Shard, asked: Any, batch_size: int) -> Callable[..., Any]:
    """A function of replica, epoch and step that makes the batches of a shard. A collective."""
    if asked.input == "stream":  # read and decode again in every epoch, for data larger than memory
        return functools.partial(streaming.training_stream, source, shard, batch_size, asked.seed)
    images, labels, *weights = world.together(lambda: _load_shard(source, shard), long=True)
    return functools.partial(pipeline.training_batches, images, labels, batch_size, asked.seed, weights=weights)


def _load_shard(source: Source, shard: Shard) -> tuple[Any, ...]:
    """What `source` reads of a shard, as tensors: these are copies, and the arrays would otherwise stay, too."""
    found: tuple[Any, ...] = pipeline.on_host(source.read("train", shard.indices))
    return found


def _spread(world: World, own: list[tf.data.Dataset]) -> Any:
    """The batches of a rank's replicas for model.fit: in every step one batch of each replica, in turn."""
    if world.distribute is None:
        return own[0]
    in_turn = own[0]
    if len(own) > 1:
        in_turn = tf.data.Dataset.choose_from_datasets(own, tf.data.Dataset.range(len(own)).repeat())
    # Not distribute_dataset, which would split batches and shard the data a second time.
    return world.distribute.distribute_datasets_from_function(lambda context: in_turn)
