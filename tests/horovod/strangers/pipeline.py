"""Trains on a tf.data pipeline."""

from hpclaunch import training


def network():
    import tensorflow as tf

    return tf.keras.Sequential([tf.keras.layers.Dense(8, "tanh"), tf.keras.layers.Dense(1)])


def sample(number):
    import tensorflow as tf

    x = tf.sin(tf.cast(number, tf.float32) * tf.constant([0.1, 0.2, 0.3]))
    return x, tf.reduce_sum(x, keepdims=True)


settings = training.settings(epochs=4, batch_size_per_rank=4, optimizer="sgd", learning_rate=0.02)
with training.start(settings) as run:
    import tensorflow as tf

    numbers = tf.data.Dataset.range(40)
    data = training.samples(run, numbers.map(sample), test=numbers.take(10).map(sample))
    model = training.fit(run, network, data, loss="mse")
    training.evaluate(run, model, data)
