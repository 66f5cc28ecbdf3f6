"""Reads and decodes a shard again in every epoch, for data that do not fit in memory; it keeps no sample."""

from __future__ import annotations

import contextlib
import time
from typing import Any, Callable, Iterator

import numpy as np
import tensorflow as tf

from hpclaunch.training.input import augmentation, decoding
from hpclaunch.training.input.moves import Moves
from hpclaunch.training.input.order import GivenOrder, Order, RandomOrder
from hpclaunch.training.input.pipeline import finisher, frugal, rank_threads, unconverted
from hpclaunch.training.input.shards import Shard, steps_per_epoch
from hpclaunch.training.input.source import Source
from hpclaunch.training.rank import failure

CHECKED = 1024  # samples that are read together in the search for a damaged one
CHECKED_BYTES = 2**27  # the most memory for them: a volume alone has 16.8 MB
SEARCH_S = 60.0  # the longest search, since all other ranks wait meanwhile
LARGE = 2**15  # bytes of an image from which moving images one by one is faster than all of a batch together
READING = (
    tf.errors.InvalidArgumentError,
    tf.errors.DataLossError,
    tf.errors.NotFoundError,
    tf.errors.PermissionDeniedError,
    tf.errors.UnknownError,
    UnicodeDecodeError,  # TensorFlow's own message quotes a damaged record
)


def training_stream(
    source: Source,
    shard: Shard,
    batch_size: int,
    seed: int,
    rank: int,
    first_epoch: int = 0,
    first_step: int = 0,
    augment: augmentation.Augmentation | None = None,
    threads: int = 0,
    as_pixels: bool = False,
    places: Callable[[int], np.ndarray] | None = None,
    length: int = 0,
) -> tf.data.Dataset:
    """Endless batches of the training split, as pipeline.training_batches makes them from memory.

    For class folders the batches are the same. threads: how many images are decoded at the same time (0: the rank's).
    About two batches are in memory. `shard` comes from source.stream_shard. Wrap the training in `damage_named`:
    damaged files are found during training. places, length: as for training_batches, if source.any_order.
    """
    threads = threads or rank_threads()
    one_by_one = (
        source.decodes and augment is not None and augment.only_copies and np.prod(source.wanted.shape) >= LARGE
    )
    finish = finisher(seed, rank, augment.still if augment and one_by_one else augment, as_pixels)
    steps = steps_per_epoch(length or len(shard.indices), batch_size)

    @unconverted  # AutoGraph would also warn about what it cannot read
    def epoch_batches(epoch: Any) -> Any:
        order = GivenOrder(places, epoch) if places else RandomOrder(seed, rank, epoch)
        begin = tf.where(tf.equal(epoch, first_epoch), tf.constant(first_step, tf.int64), tf.constant(0, tf.int64))
        if augment is not None and one_by_one:
            encoded = source.encoded("train", shard, order, begin * batch_size)
            firsts = tf.data.Dataset.range(begin * batch_size, steps * batch_size, batch_size)
            draws = firsts.map(lambda first: augmentation.random_numbers(seed, rank, epoch, first, batch_size))
            samples = _decode_moved(source, encoded, draws, Moves(augment), threads)
        else:
            samples = source.samples("train", shard, order, begin * batch_size, threads)
        numbered = tf.data.Dataset.zip((samples.batch(batch_size), tf.data.Dataset.range(begin, steps)))
        return numbered.map(lambda batch, step: finish(batch, epoch, step * batch_size))

    epochs = tf.data.Dataset.range(first_epoch, np.iinfo(np.int64).max)
    return epochs.flat_map(epoch_batches).prefetch(1).with_options(frugal(threads))


def _decode_moved(source: Source, encoded: Any, draws: Any, moves: Moves, threads: int) -> tf.data.Dataset:
    """The samples, with each image moved when it is decoded: it is large, and still in the processor's cache.

    draws: the random numbers of one batch after the other, float32 [b, DRAWS].
    """
    return decoding.in_parallel(
        tf.data.Dataset.zip((encoded, draws.map(moves.of_batch).unbatch())),
        lambda content, move: source.decode_moved("train", content, moves, move),
        threads,
    )


def evaluation_stream(
    source: Source, positions: Any, batch_size: int, split: str = "test"
) -> Iterator[tuple[Any, Any]]:
    """One pass over the samples of `split` at `positions` (int64), batch by batch; it keeps no sample.

    positions: those of shards.evaluation_shard. The error for a damaged file names it, as with `damage_named`.
    """
    if not len(positions):  # there are more ranks than samples
        return
    shard = Shard(positions, len(positions))
    samples = source.samples(split, shard, Order(), 0, rank_threads())
    with damage_named(source, shard, split=split):
        yield from samples.batch(batch_size).prefetch(1).with_options(frugal(rank_threads()))


@contextlib.contextmanager
def damage_named(source: Source, shard: Shard, streams: bool = True, split: str = "train") -> Iterator[None]:
    """Turn a reading error of the block into one message with the file's name; streams: whether the block reads files.

    The other ranks are in a collective of the step that this rank cannot make, so ranks cannot agree on anything. This
    rank prints the message, unless another rank with damaged data has done so, and ends; the launcher ends the others.
    To find the file, the shard is read once more, for at most SEARCH_S seconds.
    """
    try:
        yield
    except READING as error:
        # Horovod reports a rank that has gone as one of these errors.
        if not streams or "Horovod" in str(error):
            raise
        text = _damage(source, split, shard, error)
        if text is None:
            raise  # the data are not damaged: the error has another cause
        raise failure.AgreedError("{}: {}".format(failure.who(), text), speaks=failure.first_to_fail(1)) from None


def _damage(source: Source, split: str, shard: Shard, error: Exception) -> str | None:
    """The damage of the shard in words; None if all of it can be read."""
    began = time.monotonic()
    step = max(1, min(CHECKED, CHECKED_BYTES // (2 * int(np.prod(source.wanted.shape)))))  # 2: of int16
    for start in range(0, len(shard.indices), step):
        if time.monotonic() - began > SEARCH_S:
            what = "a sample cannot be read ({}); its file was not found within {:.0f} s, after {} of {} samples"
            reason = str(error).split("\n")[0]
            return str(source.wrong(what.format(reason, SEARCH_S, start, len(shard.indices)), source.path))
        try:
            source.read(split, shard.indices[start : start + step])
        except failure.TrainingError as found:
            return str(found)
    return None
