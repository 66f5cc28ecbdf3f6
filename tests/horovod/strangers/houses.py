"""Predicts prices from an npz file of numbers."""

from hpclaunch import training


def network():
    import tensorflow as tf

    return tf.keras.Sequential([tf.keras.layers.Dense(16, "relu"), tf.keras.layers.Dense(1)])


settings = training.settings(epochs=4, batch_size_per_rank=4, optimizer="adam", learning_rate=0.01)
with training.start(settings) as run:
    data = training.arrays(run, inputs="features", targets="price")
    model = training.fit(run, network, data, loss="mse", metrics=["mae"])
    training.evaluate(run, model, data)
