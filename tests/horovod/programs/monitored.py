"""Trains on the arrays of --data-dir and validates; RUN/weights-RANK.npz gets the weights, RUN/logs-RANK.json all logs.

--own-loop=true trains in a loop of one's own.
"""

import json
import os

from hpclaunch import training

settings = training.settings(
    epochs=3,
    batch_size_per_rank=4,
    optimizer="sgd",
    learning_rate=0.01,
    noise_scale=False,
    own_loop={"default": False, "help": "train in a loop of one's own"},
)
with training.start(settings) as run:
    import numpy as np
    import tensorflow as tf

    def network():
        start = tf.keras.initializers.GlorotUniform(seed=3)
        return tf.keras.Sequential([tf.keras.layers.Input((6,)), tf.keras.layers.Dense(1, kernel_initializer=start)])

    found = []

    class Logs(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            found.append({name: float(value) for name, value in logs.items()})

    data = training.arrays(run)
    if settings.own_loop:
        loop = training.loop(run, network, data)
        for inputs, targets in loop:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((loop.model(inputs, training=True)[:, 0] - targets) ** 2)
            loop.step(loss, tape.gradient(loss, loop.model.trainable_variables))
        model = loop.model
    else:
        model = training.fit(run, network, data, loss="mse", metrics=["mae"], callbacks=[Logs()])
    training.evaluate(run, model, data)
    with open(os.path.join(run.folder, f"logs-{run.rank}.json"), "w") as file:
        json.dump(found, file)
    np.savez(os.path.join(run.folder, f"weights-{run.rank}.npz"), *model.get_weights())
