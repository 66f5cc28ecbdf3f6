"""Trains the article's CNN to distinguish good and bad potato chips, with Horovod: every rank reads its own share.

Read it top to bottom: it is the whole Horovod contract. It runs under any launcher, and alone:
python train.py --epochs=1 --synthetic=true --image-size=96 --synthetic-samples=64
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
    return techniques.parse(options.job_parser("The article's CNN on potato chips, over Horovod ranks.", __file__))


def photographs_of(asked: argparse.Namespace, world: World) -> object:
    """Open the photographs, or draw synthetic ones, and copy them to the node's storage with --stage-to."""
    import drawing
    from model import chips_of

    from hpclaunch.training.input import loading, made_up, node_storage

    folder = options.data_dir(asked.data_dir)
    if asked.synthetic:
        folder = made_up.place(world.run_dir, asked.synthetic_samples, asked.image_size, asked.seed)
        loading.from_root(world, lambda: drawing.write(folder, asked.synthetic_samples, asked.image_size, asked.seed))
    photographs = loading.open_folder(world, folder, chips_of(asked.image_size))
    return node_storage.staged(world, photographs, asked.stage_to)


def train(asked: argparse.Namespace, world: World) -> object:
    """Run the whole training on one rank of `world`; returns the trained Keras model, the same on every rank."""
    # Heavy imports come after the options are read and Horovod has started, so that --help answers at once.
    import horovod.tensorflow.keras as hvd
    from images import ChipImages
    from model import cnn

    from hpclaunch.training import callbacks, evaluation, fitting, metrics
    from hpclaunch.training.checkpoints import saving, training_state
    from hpclaunch.training.input import augmentation, feeding, loading, pipeline, streaming
    from hpclaunch.training.optimization import adascale, noise_scale, optimizers, precision, reduction, training_step

    techniques.check(asked, world, in_memory=False)
    if asked.global_batch_size:  # the article's second option: the global batch and the rate stay the same
        asked.batch_size_per_rank = feeding.divided(world, asked)

    # 1. Data. Photographs are split before versions are made. A rank reads its own shard of all versions, or
    # (generator) draws from all of them in its own order.
    log = metrics.metrics_log(world.run_dir, world.is_root, asked.synthetic)
    photographs = photographs_of(asked, world)
    source = ChipImages(photographs, asked.validation_part, asked.seed)
    augment = augmentation.from_options(asked, source.wanted.classes)
    order = shards.shuffled(source.counts["train"], asked.seed, asked.train_samples)
    feed = feeding.training_feed(world, source, order, asked, augment, sharded=asked.distribution == "shards")

    # 2. Model. All ranks begin with rank 0's weights.
    precision.use(asked.precision)
    with strategies.scope(world):  # empty, unless a strategy of TensorFlow replaces Horovod
        model = training_step.in_parts(cnn(asked.image_size, white=255), asked.accumulation, asked.xla)
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
        "job": "chips",
        "steps_per_epoch": feed.steps,
        "parameters": model.count_params(),
        "scaled_learning_rate": schedule.rate,
    }
    loading.report_start(world, log, asked, source, **facts)
    loading.report_shards(world, feed.shard, log, asked.record_shards)

    # 6. Training. Metrics are averaged over the ranks. All ranks save together, because each has state of its own.
    steady = [
        hvd.callbacks.MetricAverageCallback(),
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

    # 7. Validation and test. Every rank evaluates its part; correct answers are counted over all ranks.
    result = {"epochs": asked.epochs, "seconds": round(seconds, 3)}
    trained = strategies.alone(model, world)
    for split in ("validation", "test"):
        held_out = shards.evaluation_shard(source.counts[split], world.rank, world.size)
        pixels, labels = world.together(lambda split=split, rows=held_out: source.read(split, rows))
        batches = pipeline.evaluation_batches(pixels, labels, asked.batch_size_per_rank, as_pixels=True)
        found = evaluation.evaluate(trained, batches, world)
        result.update((name.replace("test", split), value) for name, value in found.items())
    log.write("end", **result)
    if world.is_root:
        print("validation accuracy {validation_accuracy:.4f}, test accuracy {test_accuracy:.4f}".format(**result))
    return model


if __name__ == "__main__":
    typed = parse()
    with failure.reported():
        train(typed, start("chips", typed.seed, typed.strategy))
