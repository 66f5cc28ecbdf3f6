"""Reads and decodes a shard anew in every epoch, for data that does not fit in memory; keeps no sample."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Iterator

import numpy as np
import tensorflow as tf

from hpclaunch.training.input import augmentation
from hpclaunch.training.input.pipeline import finisher, frugal, rank_threads
from hpclaunch.training.input.shards import Shard, epoch_order, steps_per_epoch, stream_seed
from hpclaunch.training.input.source import Source
from hpclaunch.training.rank import failure

CHECKED = 1024  # samples that are read again at once to find a damaged one
CHECKED_BYTES = 2**27  # and what they may take: a volume alone has 16.8 MB
SEARCH_S = 60.0  # and for how long: all other ranks wait meanwhile
READING = (
    tf.errors.InvalidArgumentError,
    tf.errors.DataLossError,
    tf.errors.NotFoundError,
    tf.errors.PermissionDeniedError,
    tf.errors.UnknownError,
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
) -> tf.data.Dataset:
    """Endless batches of the training split, as pipeline.training_batches makes them from memory.

    For class folders they are the same batches. threads: how many images are decoded at the same time (0: the rank's).
    Holds about two batches. Give it a shard of source.stream_shard, and wrap the training in `damage_named`: what is
    damaged is found while training.
    """
    threads = threads or rank_threads()
    finish = finisher(seed, rank, augment, as_pixels)
    steps = steps_per_epoch(len(shard.indices), batch_size)

    @tf.autograph.experimental.do_not_convert  # nothing to convert; AutoGraph would warn about what it cannot read
    def epoch_batches(epoch: Any) -> Any:
        def order(length: Any, name: Any) -> Any:
            found = tf.numpy_function(lambda *given: _order(seed, rank, *given), [epoch, length, name], tf.int64)
            return tf.ensure_shape(found, [None])

        begin = tf.where(tf.equal(epoch, first_epoch), tf.constant(first_step, tf.int64), tf.constant(0, tf.int64))
        samples = source.samples("train", shard, order, begin * batch_size, threads)
        numbered = tf.data.Dataset.zip((samples.batch(batch_size), tf.data.Dataset.range(begin, steps)))
        return numbered.map(lambda batch, step: finish(batch[0], batch[1], epoch, step * batch_size))

    epochs = tf.data.Dataset.range(first_epoch, np.iinfo(np.int64).max)
    return epochs.flat_map(epoch_batches).prefetch(1).with_options(frugal(threads))


def evaluation_stream(source: Source, positions: Any, batch_size: int) -> Iterator[tuple[Any, Any]]:
    """One pass over the test samples at `positions` (int64), batch by batch, as they are read; keeps none.

    positions: of shards.evaluation_shard. What is damaged is named, as by `damage_named`.
    """
    if not len(positions):  # there are more ranks than samples
        return
    shard = Shard(positions, len(positions))
    samples = source.samples("test", shard, lambda length, name: tf.range(tf.cast(length, tf.int64)), 0, rank_threads())
    with damage_named(source, shard, split="test"):
        yield from samples.batch(batch_size).prefetch(1).with_options(frugal(rank_threads()))


@contextlib.contextmanager
def damage_named(source: Source, shard: Shard, streams: bool = True, split: str = "train") -> Iterator[None]:
    """Turn a reading error of the block into one message that names the file; streams: whether the block reads at all.

    The other ranks are in a collective of the step that this rank cannot make, so nothing can be agreed on with them:
    this rank speaks, unless another one that met damage has done so, and ends; the launcher ends the rest. The file is
    looked for by reading the shard once more, for SEARCH_S at most.
    """
    try:
        yield
    except READING as error:
        # Horovod reports a rank that has gone as one of these errors.
        if not streams or "Horovod" in str(error):
            raise
        text = _damage(source, split, shard, error)
        if text is None:
            raise  # the data are sound: the error came from elsewhere
        raise failure.AgreedError("{}: {}".format(failure.who(), text), speaks=_is_first_to_fail()) from None


def _damage(source: Source, split: str, shard: Shard, error: Exception) -> str | None:
    """What is wrong with the shard, in words; None if all of it can be read."""
    began = time.monotonic()
    step = max(1, min(CHECKED, CHECKED_BYTES // (2 * int(np.prod(source.wanted.shape)))))  # 2: of int16
    for start in range(0, len(shard.indices), step):
        if time.monotonic() - began > SEARCH_S:
            what = "a sample cannot be read ({}); the file was not found in {:.0f} s, after {} of {} samples"
            reason = str(error).split("\n")[0]
            return str(source.wrong(what.format(reason, SEARCH_S, start, len(shard.indices)), source.path))
        try:
            source.read(split, shard.indices[start : start + step])
        except failure.TrainingError as found:
            return str(found)
    return None


def _is_first_to_fail() -> bool:
    """Whether no rank has left its exit code yet; leaves this one's. Without a launcher's exit file, always."""
    written = failure.record_exit_code(failure.TrainingError.exit_code)
    return written or not os.path.exists(os.environ.get(failure.EXIT_FILE_VARIABLE, ""))


def _order(seed: int, rank: int, epoch: Any, length: Any, name: Any) -> np.ndarray:
    text = name.decode("ascii")
    # "samples" is the order that pipeline.training_batches uses.
    own = seed if text == "samples" else stream_seed(seed, text)
    return epoch_order(int(length), own, int(epoch), rank)
