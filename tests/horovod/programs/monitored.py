"""Trains on the arrays of --data-dir and validates; RUN/weights-RANK.npz gets the weights, RUN/logs-RANK.json all logs.

--own-loop=true trains in a custom loop. --keras=true adds callbacks of Keras. --preempted-in=2: rank 0 gets
SIGTERM when epoch 2 begins. --slow-input=0.05: a batch takes so many seconds to make. --slow-rank=0.3: a step of rank 1
takes so many seconds more.
"""

import dataclasses
import json
import os
import signal
import time

from hpclaunch import training

settings = training.settings(
    epochs=3,
    batch_size_per_rank=4,
    optimizer="sgd",
    learning_rate=0.01,
    noise_scale=False,
    export_model=False,
    own_loop={"default": False, "help": "train in a custom loop"},
    keras={"default": False, "help": "add callbacks of Keras"},
    preempted_in={"default": 0, "help": "the epoch in which rank 0 gets SIGTERM"},
    slow_input={"default": 0.0, "help": "seconds in which a batch is made"},
    slow_rank={"default": 0.0, "help": "seconds that rank 1 sleeps in a step"},
)
with training.start(settings) as run:
    import numpy as np
    import tensorflow as tf

    def network():
        start = tf.keras.initializers.GlorotUniform(seed=3)
        layers = tf.keras.layers
        parts = [layers.Input((6,)), *sleeps(), layers.Dense(1, kernel_initializer=start)]
        return tf.keras.Sequential(parts)

    def asleep(values, seconds):
        def sleep(found):
            time.sleep(seconds)
            return found

        return tf.ensure_shape(tf.numpy_function(sleep, [values], values.dtype), values.shape)

    def sleeps():
        if not settings.slow_rank or run.rank != 1:
            return []
        return [tf.keras.layers.Lambda(lambda values: asleep(values, settings.slow_rank))]

    def slow(data):
        def batches_from(epoch, step):
            made = data.feed.batches_from(epoch, step)
            return made.map(lambda inputs, targets: (asleep(inputs, settings.slow_input), targets))

        return dataclasses.replace(data, feed=dataclasses.replace(data.feed, batches_from=batches_from))

    found = []

    class Logs(tf.keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch + 1 == settings.preempted_in and run.is_root:
                os.kill(os.getpid(), signal.SIGTERM)

        def on_epoch_end(self, epoch, logs=None):
            rate = float(tf.keras.backend.get_value(self.model.optimizer.learning_rate))
            found.append({**{name: float(value) for name, value in logs.items()}, "rate": rate})

    def of_keras():
        """The loss falls, so for them no epoch is better than the first."""
        keras, how = tf.keras.callbacks, {"monitor": "val_loss", "mode": "max"}
        file = os.path.join(run.folder, "epoch-{epoch}.h5")
        return [
            keras.ReduceLROnPlateau(factor=0.5, patience=2, min_delta=0, **how),
            keras.EarlyStopping(patience=4, **how),
            keras.ModelCheckpoint(file, save_best_only=True, save_weights_only=True, **how),
            keras.CSVLogger(os.path.join(run.folder, "epochs.csv")),
            keras.LambdaCallback(on_epoch_end=lambda epoch, logs: print("epoch", epoch + 1, "of rank", run.rank)),
        ]

    data = slow(training.arrays(run)) if settings.slow_input else training.arrays(run)
    if settings.own_loop:
        loop = training.loop(run, network, data)
        for inputs, targets in loop:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((loop.model(inputs, training=True)[:, 0] - targets) ** 2)
            loop.step(loss, tape.gradient(loss, loop.model.trainable_variables))
        model = loop.model
    else:
        callbacks = [Logs(), *(of_keras() if settings.keras else [])]
        model = training.fit(run, network, data, loss="mse", metrics=["mae"], callbacks=callbacks)
    training.evaluate(run, model, data)
    with open(os.path.join(run.folder, f"logs-{run.rank}.json"), "w") as file:
        json.dump(found, file)
    np.savez(os.path.join(run.folder, f"weights-{run.rank}.npz"), *model.get_weights())
