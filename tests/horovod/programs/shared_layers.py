"""As docs/training.md shows it: a model whose dense layers two ranks share."""

from hpclaunch import training


def network():
    import tensorflow as tf

    inputs = tf.keras.Input(6)
    x = training.layers.ColumnParallelDense(1024, "gelu")(inputs)  # each of two ranks has 512 of the units
    x = training.layers.ParallelDropout(0.1)(x)
    x = training.layers.RowParallelDense(64, "gelu")(x)  # the sum, on every rank
    return tf.keras.Model(inputs, tf.keras.layers.Dense(1)(x))


settings = training.settings(epochs=2, batch_size_per_rank=8, tensor_parallel=2)
with training.start(settings) as run:
    data = training.arrays(run, inputs="features", targets="price")
    model = training.fit(run, network, data, loss="mse")
    training.evaluate(run, model, data)
