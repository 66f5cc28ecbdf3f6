"""Trains a small CNN on MNIST with Horovod: every rank reads its own shard, and all ranks hold the same weights.

Read it top to bottom: it is the whole Horovod contract. It runs under any launcher, and alone:
python train.py --epochs=1 --synthetic=true
"""

import argparse
import time

from hpclaunch.training import failure, learning_rate, options, shards
from hpclaunch.training.start import World, start


def parse() -> argparse.Namespace:
    """The options; the launcher passes a job's parameters as --name=value."""
    parser = options.parser("CNN on MNIST, sharded over Horovod ranks.", seed=1337)
    parser.add_argument("--epochs", type=options.at_least(1), default=6, help="passes over the training images")
    parser.add_argument(
        "--batch-size-per-rank", type=options.at_least(1), default=256, help="images a rank reads for one step"
    )
    parser.add_argument(
        "--learning-rate", type=options.positive, default=0.001, help="base learning rate, for one rank"
    )
    parser.add_argument(
        "--scale-learning-rate", choices=sorted(learning_rate.SCALING), default="none", help="with the world size"
    )
    parser.add_argument(
        "--warmup-epochs", type=options.at_least(0, float), default=0.0, help="epochs until the scaled rate is reached"
    )
    parser.add_argument("--optimizer", choices=["adam", "sgd"], default="adam", help="sgd has momentum 0.9")
    return parser.parse_args()


def train(asked: argparse.Namespace, world: World) -> object:
    """One whole run on one rank of `world`; returns the trained Keras model, the same on every rank."""
    # Heavy imports come after the options are understood and Horovod has started: --help answers at once.
    import horovod.tensorflow.keras as hvd
    from model import MNIST, cnn

    from hpclaunch.training import callbacks, evaluation, loading, metrics, optimizers, pipeline

    # 1. Data. All ranks shuffle alike, then each takes every size-th image, and only these are read and kept, as uint8.
    log = metrics.metrics_log(world.run_dir, world.is_root, asked.synthetic)
    source = loading.open_source(world, asked, MNIST)
    order = shards.shuffled(source.counts["train"], asked.seed, asked.train_samples)
    shard = world.together(lambda: shards.training_shard(order, world.rank, world.size))
    images, labels = world.together(lambda: source.read("train", shard.indices))
    batches = pipeline.training_batches(images, labels, asked.batch_size_per_rank, asked.seed, world.rank)
    # Shards have equal lengths, so all ranks make the same number of steps: a rank with one more would wait for ever.
    steps = shards.steps_per_epoch(len(labels), asked.batch_size_per_rank)
    held_out = shards.evaluation_shard(source.counts["test"], world.rank, world.size)
    test_images, test_labels = world.together(lambda: source.read("test", held_out))

    # 2. Model. The optimizer averages gradients over all ranks; the learning rate grows with the global batch.
    model = cnn()
    rate = learning_rate.scaled(asked.learning_rate, world.size, asked.scale_learning_rate)
    optimizer = hvd.DistributedOptimizer(optimizers.make(asked.optimizer, rate))
    model.compile(optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])

    # 3. Who does what: settings, data and every rank's shard go to metrics.jsonl, so that a run can be checked.
    facts = {"job": "mnist", "steps_per_epoch": steps, "parameters": model.count_params(), "scaled_learning_rate": rate}
    loading.report_start(world, log, asked, source, **facts)
    loading.report_shards(world, shard, log, asked.record_shards)

    # 4. Training. All ranks begin with rank 0's weights; metrics are averaged over the ranks; only rank 0 writes.
    steady = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        callbacks.StopOnNaN(world),
        callbacks.WarmUp(rate, asked.warmup_epochs, world.size, steps),
        callbacks.Report(world, log, len(order), steps, asked.epochs),
    ]
    if world.is_root:
        steady.append(callbacks.Checkpoint(world.run_dir))
    began = time.perf_counter()
    model.fit(batches, epochs=asked.epochs, steps_per_epoch=steps, callbacks=steady, verbose=0)
    seconds = time.perf_counter() - began

    # 5. Test. Every rank takes its part of the test images; correct answers are counted over all ranks.
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
        train(asked_for, start("mnist", asked_for.seed))
