"""Trains a mini-ResNet on CIFAR-10 with Horovod: every rank reads its own shard, and all ranks hold the same weights.

Read it top to bottom: it is the whole Horovod contract. It runs under any launcher, and alone:
python train.py --epochs=1 --synthetic=true
"""

import argparse
import time

from hpclaunch.training import failure, learning_rate, options, shards, techniques
from hpclaunch.training.start import World, start


def parse() -> argparse.Namespace:
    """The options; the launcher passes a job's parameters as --name=value."""
    parser = options.parser("Mini-ResNet on CIFAR-10, sharded over Horovod ranks.", seed=1337)
    techniques.add_options(parser, epochs=12, batch_size=512, batch_norm=True)
    return parser.parse_args()


def train(asked: argparse.Namespace, world: World) -> object:
    """One whole run on one rank of `world`; returns the trained Keras model, the same on every rank."""
    # Heavy imports come after the options are understood and Horovod has started: --help answers at once.
    import horovod.tensorflow.keras as hvd
    from model import CIFAR10, mini_resnet

    from hpclaunch.training import (
        adascale,
        batch_norm,
        callbacks,
        evaluation,
        loading,
        metrics,
        noise_scale,
        optimizers,
        pipeline,
        precision,
        reduction,
        training_step,
    )

    techniques.check(asked, world)

    # 1. Data. All ranks shuffle alike, then each takes every size-th image, and only these are read and kept, as uint8.
    log = metrics.metrics_log(world.run_dir, world.is_root, asked.synthetic)
    source = loading.open_source(world, asked, CIFAR10)
    order = shards.shuffled(source.counts["train"], asked.seed, asked.train_samples)
    shard = world.together(lambda: shards.training_shard(order, world.rank, world.size))
    images, labels = world.together(lambda: source.read("train", shard.indices))
    batch_size = asked.batch_size_per_rank * asked.accumulation  # of one rank, in one step
    batches = pipeline.training_batches(images, labels, batch_size, asked.seed, world.rank)
    # Shards have equal lengths, so all ranks make the same number of steps: a rank with one more would wait for ever.
    steps = shards.steps_per_epoch(len(labels), batch_size)
    held_out = shards.evaluation_shard(source.counts["test"], world.rank, world.size)
    test_images, test_labels = world.together(lambda: source.read("test", held_out))

    # 2. Model. All ranks begin with rank 0's weights.
    precision.use(asked.precision)
    normalization = batch_norm.maker(asked.batch_norm, asked.ghost_batch_size, momentum=0.9)
    model = training_step.in_parts(mini_resnet(normalization), asked.accumulation, asked.xla)
    reduction.broadcast_weights(model, world)

    # 3. Learning. hvd.DistributedOptimizer averages gradients over all ranks; the rate grows with the global batch.
    schedule = learning_rate.schedule(asked, world.size, steps)
    optimizer = optimizers.make(
        asked.optimizer, schedule.rate, asked.weight_decay, asked.momentum, asked.exclude_vectors
    )
    optimizer = reduction.distributed(optimizer, world, asked.compression, asked.adasum)
    gain = adascale.gain_for(asked, optimizer, world)
    model.compile(
        precision.scaled(optimizer, asked.precision),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
        steps_per_execution=asked.steps_per_execution,
    )

    # 4. Who does what: settings, data and every rank's shard go to metrics.jsonl, so that a run can be checked.
    facts = {
        "job": "cifar",
        "steps_per_epoch": steps,
        "parameters": model.count_params(),
        "scaled_learning_rate": schedule.rate,
    }
    loading.report_start(world, log, asked, source, **facts)
    loading.report_shards(world, shard, log, asked.record_shards)

    # 5. Training. Metrics are averaged over the ranks; only rank 0 writes.
    steady = [
        hvd.callbacks.MetricAverageCallback(),
        callbacks.AverageStatistics(world),
        callbacks.StopOnNaN(world),
        callbacks.LearningRate(schedule, steps, gain),
        callbacks.Report(world, log, len(order), steps, asked.epochs),
        *noise_scale.callbacks(asked, world, log),
    ]
    if world.is_root:
        steady.append(callbacks.Checkpoint(world.run_dir))
    began = time.perf_counter()
    model.fit(batches, epochs=asked.epochs, steps_per_epoch=steps, callbacks=steady, verbose=0)
    seconds = time.perf_counter() - began

    # 6. Test. Every rank takes its part of the test images; correct answers are counted over all ranks.
    result = evaluation.evaluate(
        model, pipeline.evaluation_batches(test_images, test_labels, asked.batch_size_per_rank), world
    )
    log.write("end", epochs=asked.epochs, seconds=round(seconds, 3), **result)
    if world.is_root:
        print("test accuracy {test_accuracy:.4f} on {test_samples} images".format(**result), flush=True)
    return model


if __name__ == "__main__":
    asked_for = parse()
    with failure.reported():
        train(asked_for, start("cifar", asked_for.seed))
