"""Trains on streamed images; --stop-after ends an attempt after some steps, --own-loop trains in a loop of its own."""

import tensorflow as tf
from stopping import StopAfter

from hpclaunch import training

settings = training.settings(
    epochs=1,
    batch_size_per_rank=4,
    learning_rate=0.01,
    checkpoint_steps=1,
    export_model=False,
    input="stream",
    stop_after={"default": 0, "help": "the steps of this attempt; 0: all"},
    own_loop={"default": False, "help": "train in a custom loop"},
)


def network():
    layers = [tf.keras.layers.Input([28, 28, 1]), tf.keras.layers.Flatten(), tf.keras.layers.Dense(10, "softmax")]
    return tf.keras.Sequential(layers)


with training.start(settings) as run:
    data = training.image_folder(run, size=(28, 28), channels=1)
    if settings.own_loop:
        loop = training.loop(run, network, data)
        for inputs, targets in loop:
            with tf.GradientTape() as tape:
                found = loop.model(tf.cast(inputs, tf.float32), training=True)
                loss = tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(targets, found))
            loop.step(loss, tape.gradient(loss, loop.model.trainable_variables))
    else:
        training.fit(run, network, data, callbacks=[StopAfter(settings.stop_after)])
