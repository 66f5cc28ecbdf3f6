"""Trains a linear model of float64 and averages its weights; --stop-after=3: this attempt fails after three steps.

--own-loop=true trains in a custom loop.
"""

import os

from hpclaunch import training

settings = training.settings(
    optimizer="sgd",
    momentum=0.0,
    stop_after={"default": 0, "help": "the steps of this attempt; 0: all"},
    own_loop={"default": False, "help": "train in a custom loop"},
)
with training.start(settings) as run:
    import numpy as np
    import tensorflow as tf
    from stopping import StopAfter

    def network():
        dense = tf.keras.layers.Dense(1, kernel_initializer="zeros", dtype="float64")
        return tf.keras.Sequential([tf.keras.layers.Input([3], dtype="float64"), dense])

    data = training.arrays(run)
    if settings.own_loop:
        loop = training.loop(run, network, data)
        for inputs, targets in loop:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((loop.model(inputs, training=True)[:, 0] - targets) ** 2)
            loop.step(loss, tape.gradient(loss, loop.model.trainable_variables))
        model = loop.model
    else:
        model = training.fit(run, network, data, loss="mse", callbacks=[StopAfter(settings.stop_after)])
    training.evaluate(run, model, data)
    final = np.concatenate([one.numpy().ravel() for one in model.trainable_variables])
    np.savez(os.path.join(run.folder, f"final-{run.rank}.npz"), final=final)
