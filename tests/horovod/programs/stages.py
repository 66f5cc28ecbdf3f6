"""As docs/training.md shows it: a model of which each of two ranks has a stage."""

from hpclaunch import training


def network():
    import tensorflow as tf

    def begin(x):
        return tf.keras.layers.Dense(64, "gelu")(x)

    def block(x):
        return x + tf.keras.layers.Dense(64, "gelu")(tf.keras.layers.LayerNormalization()(x))

    def end(x):
        return tf.keras.layers.Dense(1)(x)

    return training.layers.in_blocks(tf.keras.Input(6), [begin, *[block] * 8, end], between=[64])


settings = training.settings(epochs=2, batch_size_per_rank=2, accumulation=4, pipeline_stages=2, recompute=True)
with training.start(settings) as run:
    data = training.arrays(run, inputs="features", targets="price")
    model = training.fit(run, network, data, loss="mse")
    training.evaluate(run, model, data)
