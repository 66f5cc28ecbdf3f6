"""Trains ResNet-50 on ImageNet's TFRecords with Horovod: every rank reads its own shard, all hold the same weights.

Read it top to bottom: it is the whole Horovod contract. It runs under any launcher, and alone:
python train.py --epochs=1 --synthetic=true --image-size=64 --classes=4 --synthetic-samples=64
"""

import argparse
import time

from hpclaunch.training import options
from hpclaunch.training.checkpoints import resuming
from hpclaunch.training.input import shards
from hpclaunch.training.optimization import learning_rate, techniques
from hpclaunch.training.rank import failure, strategies
from hpclaunch.training.rank.start import start
from hpclaunch.training.rank.world import World


def parse() -> argparse.Namespace:
    """The options: those of parameters.json, which hpclaunch reads too."""
    return techniques.parse(options.job_parser("ResNet-50, its images sharded over Horovod ranks.", __file__))


def train(asked: argparse.Namespace, world: World) -> object:
    """Run the whole training on one rank of `world`; returns the trained Keras model, the same on every rank."""
    # Heavy imports come after the options are read and Horovod has started, so that --help answers at once.
    import horovod.tensorflow.keras as hvd
    import imagenet
    from model import images_of, resnet50

    from hpclaunch.training import callbacks, evaluation, fitting, metrics
    from hpclaunch.training.checkpoints import saving, training_state
    from hpclaunch.training.input import augmentation, feeding, loading, made_up, node_storage, streaming
    from hpclaunch.training.optimization import (
        adascale,
        batch_norm,
        noise_scale,
        optimizers,
        precision,
        reduction,
        training_step,
    )

    techniques.check(asked, world, in_memory=False)

    # 1. Data. A rank reads whole files if there are enough of them, in a different order in every epoch.
    log = metrics.metrics_log(world.run_dir, world.is_root, asked.synthetic)
    wanted = images_of(asked.image_size, asked.classes)
    folder = options.data_dir(asked.data_dir)
    if asked.synthetic:
        samples, first, seed = asked.synthetic_samples, asked.first_class, asked.seed
        folder = made_up.place(world.run_dir, samples, asked.image_size, asked.classes, first, seed)
        loading.from_root(world, lambda: imagenet.write(folder, samples, wanted, first, seed))
    source = loading.agreed(world, lambda: imagenet.open_imagenet(folder, wanted, asked.first_class))
    source = node_storage.staged(world, source, asked.stage_to)
    augment = augmentation.from_options(asked, wanted.classes)
    order = shards.shuffled(source.counts["train"], asked.seed, asked.train_samples)
    feed = feeding.training_feed(world, source, order, asked, augment)

    # 2. Model. All ranks begin with rank 0's weights.
    precision.use(asked.precision)
    with strategies.scope(world):  # empty, unless a strategy of TensorFlow replaces Horovod
        normalization = batch_norm.maker(asked.batch_norm, asked.ghost_batch_size, momentum=0.9)
        network = resnet50(normalization, asked.image_size, asked.classes, white=255)
        model = training_step.in_parts(network, asked.accumulation, asked.xla)
        reduction.broadcast_weights(model, world)

        # 3. Learning. hvd.DistributedOptimizer averages gradients over all ranks; the rate grows with the batch.
        schedule = learning_rate.schedule(asked, world.replicas, feed.steps)
        optimizer = optimizers.from_options(asked, schedule.rate)
        optimizer = reduction.distributed(optimizer, world, asked.compression, asked.adasum)
        gain = adascale.gain_for(asked, optimizer, world)
        model.compile(
            precision.scaled(optimizer, asked.precision),
            loss=augment.loss,
            metrics=["accuracy"],
            steps_per_execution=asked.steps_per_execution,
        )

    # 4. Resume: training continues at the exact step that an earlier attempt has saved.
    state = training_state.TrainingState(model, world, asked.seed, gain.variables)
    place = resuming.restore(world, state, asked, feed.steps, log, source.fingerprint)

    # 5. Log: settings, data and the shard of every rank go to metrics.jsonl, so that a run can be verified.
    facts = {
        "job": "resnet50",
        "steps_per_epoch": feed.steps,
        "parameters": model.count_params(),
        "scaled_learning_rate": schedule.rate,
    }
    loading.report_start(world, log, asked, source, **facts)
    loading.report_shards(world, feed.shard, log, asked.record_shards)

    # 6. Training. Metrics are averaged over the ranks. All ranks save together, because each has state of its own.
    steady = [
        hvd.callbacks.MetricAverageCallback(),
        callbacks.AverageStatistics(world),
        callbacks.StopOnNaN(world),
        callbacks.LearningRate(schedule, feed.steps, gain),
        callbacks.Report(world, log, feed.samples, feed.steps, asked.epochs),
        *noise_scale.callbacks(asked, world, log),
        saving.Saving(world, state, resuming.folder_of(world), asked, feed.steps, place),
    ]
    began = time.perf_counter()
    with streaming.damage_named(source, feed.shard, asked.input == "stream"):
        fitting.fit(model, feed.batches_from, feed.steps, asked.epochs, steady, place, state)
    seconds = time.perf_counter() - began

    # 7. Validation. Every rank evaluates its part of the images; correct answers are counted over all ranks.
    held_out = shards.evaluation_shard(source.counts["test"], world.rank, world.size)
    batches = streaming.evaluation_stream(source, held_out, asked.batch_size_per_rank)
    result = evaluation.evaluate(strategies.alone(model, world), batches, world)
    log.write("end", epochs=asked.epochs, seconds=round(seconds, 3), **result)
    if world.is_root:
        print("validation accuracy {test_accuracy:.4f} on {test_samples} images".format(**result), flush=True)
    return model


if __name__ == "__main__":
    typed = parse()
    with failure.reported():
        train(typed, start("resnet50", typed.seed, typed.strategy))
