"""Trains a small model with all that a checkpoint must hold; can be asked to stop, be killed or hang.

Dropout, batch norm, Adam, a warm-up and AdaScale or float16: everything has state. RUN/final-RANK.npz gets the weights,
RUN/steps-RANK a line for every step that was made, and RUN/restored-RANK.npz the statistics of a checkpoint.
"""

import functools
import os
import signal
import time

from hpclaunch.training import options
from hpclaunch.training.checkpoints import resuming
from hpclaunch.training.rank import failure, stopping
from hpclaunch.training.rank.start import start

SIGNALS = {"term": signal.SIGTERM, "kill": signal.SIGKILL, "hang": signal.SIGSTOP}


def parse():
    given = {"from": ["images", "batch_norm"], "epochs": 3, "batch_size_per_rank": 8, "seed": 5}
    parser = options.parser("A small model with much state.", given)
    parser.add_argument("--event", default="", help="RANK:STEP:term|kill|hang|hold, steps counted over all attempts")
    parser.add_argument("--step-seconds", type=float, default=0.0, help="pause after every step")
    return options.parse(parser)[0]


def hold():
    """Keep this rank, and so all others, from the next step until RUN/go is there, or it is asked to stop."""
    while not (stopping.is_asked() or os.path.exists(os.path.join(os.environ["HPCLAUNCH_RUN_DIR"], "go"))):
        time.sleep(0.1)


def network(normalization):
    layers = tf.keras.layers
    image = layers.Input((6, 6, 2))
    x = layers.ReLU()(normalization()(layers.Conv2D(8, 3)(image)))
    x = layers.Dropout(0.3)(layers.Flatten()(x))
    return tf.keras.Model(image, layers.Dense(3, "softmax", dtype="float32")(x))


with failure.reported():
    asked = parse()
    world = start("test", asked.seed, stall_minutes=asked.stall_minutes)
    import numpy as np
    import tensorflow as tf

    from hpclaunch.training import callbacks, fitting, metrics
    from hpclaunch.training.checkpoints import saving, training_state
    from hpclaunch.training.input import pipeline, shards
    from hpclaunch.training.optimization import (
        adascale,
        batch_norm,
        learning_rate,
        optimizers,
        precision,
        reduction,
        training_step,
    )

    def first(name):
        try:
            open(os.path.join(world.run_dir, name), "x").close()
        except FileExistsError:
            return False
        return True

    class Event(tf.keras.callbacks.Callback):
        """Does what --event says once in a run: on its rank, after its step."""

        def __init__(self, made):
            super().__init__()
            self.made = made
            self.rank, self.step, self.kind = [*asked.event.split(":"), "", ""][:3]

        def on_train_batch_end(self, batch, logs=None):
            self.made += 1
            with open(os.path.join(world.run_dir, f"steps-{world.rank}"), "a") as file:
                file.write(f"{self.made}\n")
            time.sleep(asked.step_seconds)
            if self.kind and self.made == int(self.step) and world.rank == int(self.rank) and first("event"):
                if self.kind == "hold":
                    hold()
                else:
                    os.kill(os.getpid(), SIGNALS[self.kind])

    random = np.random.RandomState(7)
    images = random.randint(0, 255, (208, 6, 6, 2)).astype("uint8")
    labels = random.randint(0, 3, 208)
    shard = shards.training_shard(shards.shuffled(208, asked.seed), world.rank, world.size)
    images, labels = images[shard.indices], labels[shard.indices]
    log = metrics.metrics_log(world.run_dir, world.is_root, False)
    batches_from = functools.partial(
        pipeline.training_batches, images, labels, asked.batch_size_per_rank, asked.seed, world.rank
    )
    steps = shards.steps_per_epoch(len(labels), asked.batch_size_per_rank)

    precision.use(asked.precision)
    model = training_step.in_parts(network(batch_norm.maker(asked.batch_norm, 4)), asked.accumulation)
    reduction.broadcast_weights(model, world)
    schedule = learning_rate.schedule(asked, world.size, steps)
    optimizer = reduction.distributed(
        optimizers.make(asked.optimizer, schedule.rate, weight_decay=asked.weight_decay), world
    )
    gain = adascale.gain_for(asked, optimizer, world)
    model.compile(precision.scaled(optimizer, asked.precision), "sparse_categorical_crossentropy", ["accuracy"])
    state = training_state.TrainingState(model, world, asked.seed, gain.variables)
    place = resuming.restore(world, state, asked, steps, log, data=f"random-{asked.synthetic_samples}")
    if place.path:
        restored = {f"{n}": variable.numpy() for n, variable in enumerate(model.non_trainable_variables)}
        np.savez(os.path.join(world.run_dir, f"restored-{world.rank}.npz"), **restored)
    steady = [
        callbacks.AverageStatistics(world),
        callbacks.LearningRate(schedule, steps, gain),
        callbacks.Report(world, log, len(labels) * world.size, steps, asked.epochs),
        Event(place.made),
        saving.Saving(world, state, asked, steps, place, log),
    ]
    fitting.fit(model, batches_from, steps, asked.epochs, steady, place, state)
    common, own = state.statistics()
    held = {**dict(state.shared()), **common, **own, **state.own(metrics=False)}
    np.savez(os.path.join(world.run_dir, f"final-{world.rank}.npz"), **held)
    log.write("end", steps=int(optimizer.iterations))
