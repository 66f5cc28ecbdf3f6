"""The cifar job with the input of the reference notebook: every rank draws its batches from all images.

Settings of the Distributed Deep Learning bootcamp's cifar*.py, written anew: repeat, a shuffle with a buffer of 10,000,
batch; in an "epoch" as many steps as go into all images with the global batch size. Ranks shuffle alike, as the
reference's with their one seed do, and then average gradients of the same images. Images stay uint8 until a batch is
made: as float32 in every rank, as in the reference, they do not fit in 24 GB. All else is as in jobs/cifar/train.py.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "jobs" / "cifar"))  # for its model.py

from hpclaunch.training import options
from hpclaunch.training.input import shards
from hpclaunch.training.optimization import learning_rate, techniques
from hpclaunch.training.rank import failure
from hpclaunch.training.rank.start import start
from hpclaunch.training.rank.world import World

CIFAR = str(Path(__file__).resolve().parents[2] / "jobs" / "cifar" / "train.py")  # its parameters are those here
BUFFER = 10_000
# The order of Keras's file, which mixes the classes; class folders hold one class after the other.
FILE_ORDER_SEED = 0


def parse() -> argparse.Namespace:
    parser = options.job_parser("Mini-ResNet on CIFAR-10, unsharded.", CIFAR)
    parser.add_argument("--own-order", type=options.boolean, default=False, help="every rank shuffles differently")
    return techniques.parse(parser)


def batches(images: Any, labels: Any, batch_size: int, seed: int, drawer: int) -> Any:
    """Endless batches (float32 [b, h, w, c] in 0..1, int64 [b]), shuffled as in the reference by rank `drawer`."""
    import tensorflow as tf

    from hpclaunch.training.input import augmentation, pipeline

    # A shuffle's order follows from its seed and the process's one, which start() has made another on every rank.
    tf.random.set_seed(shards.stream_seed(seed, "rank", drawer))
    with tf.device("/CPU:0"):
        whole = tf.data.Dataset.from_tensor_slices((images, labels))
    mixed = whole.repeat().shuffle(BUFFER, seed=shards.stream_seed(seed, "unsharded", "all")).batch(batch_size)
    return mixed.map(lambda x, y: (augmentation.to_float(x), y)).prefetch(1).with_options(pipeline.frugal())


def train(asked: argparse.Namespace, world: World) -> None:
    """One whole run on one rank; the sections are those of jobs/cifar/train.py."""
    import horovod.tensorflow.keras as hvd
    from model import CIFAR10, mini_resnet

    from hpclaunch.training import callbacks, evaluation, metrics
    from hpclaunch.training.input import loading, pipeline
    from hpclaunch.training.optimization import batch_norm, optimizers, reduction

    techniques.check(asked, world)
    log = metrics.metrics_log(world.run_dir, world.is_root, asked.synthetic)
    source = loading.open_source(world, asked, CIFAR10)
    total, batch_size = source.counts["train"], asked.batch_size_per_rank
    images, labels = world.together(lambda: source.read("train", shards.shuffled(total, FILE_ORDER_SEED)))
    drawer = world.rank if asked.own_order else 0
    steps = max(1, total // (batch_size * world.size))
    held_out = shards.evaluation_shard(source.counts["test"], world.rank, world.size)
    test_images, test_labels = world.together(lambda: source.read("test", held_out))

    model = mini_resnet(batch_norm.maker(asked.batch_norm, asked.ghost_batch_size, momentum=0.9))
    reduction.broadcast_weights(model, world)

    schedule = learning_rate.schedule(asked, world.size, steps)
    optimizer = optimizers.from_options(asked, schedule.rate)
    model.compile(reduction.distributed(optimizer, world), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    facts = {"job": "unsharded", "steps_per_epoch": steps, "parameters": model.count_params()}
    loading.report_start(world, log, asked, source, **facts, scaled_learning_rate=schedule.rate)

    steady = [
        hvd.callbacks.MetricAverageCallback(),
        callbacks.AverageStatistics(world),
        callbacks.StopOnNaN(world),
        callbacks.LearningRate(schedule, steps),
        callbacks.Report(world, log, steps * batch_size * world.size, steps, asked.epochs),
    ]
    began = time.perf_counter()
    drawn = batches(images, labels, batch_size, asked.seed, drawer)
    model.fit(drawn, epochs=asked.epochs, steps_per_epoch=steps, callbacks=steady, verbose=0)
    seconds = time.perf_counter() - began
    result = evaluation.evaluate(model, pipeline.evaluation_batches(test_images, test_labels, batch_size), world)
    log.write("end", epochs=asked.epochs, seconds=round(seconds, 3), **result)


if __name__ == "__main__":
    asked_for = parse()
    with failure.reported():
        train(asked_for, start("unsharded", asked_for.seed))
