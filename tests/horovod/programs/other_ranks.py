"""A metric is the mean of the targets; the program fails after some steps of an attempt."""

import tensorflow as tf
from stopping import StopAfter

from hpclaunch import training

settings = training.settings(
    epochs=2,
    batch_size_per_rank=2,
    learning_rate=0.01,
    checkpoint_steps=1,
    export_model=False,
    stop_after={"default": 0, "help": "the steps of this attempt; 0: all"},
)


def target(y, predicted):
    return tf.reduce_mean(y, axis=-1)


def network():
    return tf.keras.Sequential([tf.keras.layers.Input([1]), tf.keras.layers.Dense(1)])


with training.start(settings) as run:
    data = training.arrays(run, inputs="x", targets="y")
    training.fit(run, network, data, loss="mse", metrics=[target], callbacks=[StopAfter(settings.stop_after)])
