"""Classifies signals in TFRecords with feature names of their own."""

from hpclaunch import training


def network():
    import tensorflow as tf

    return tf.keras.Sequential([tf.keras.layers.Dense(8, "relu"), tf.keras.layers.Dense(3, "softmax")])


settings = training.settings(epochs=4, batch_size_per_rank=4, optimizer="lamb", learning_rate=0.02, input="stream")
with training.start(settings) as run:
    import tensorflow as tf

    schema = {"wave": tf.io.FixedLenFeature([12], tf.float32), "kind": tf.io.FixedLenFeature([], tf.int64)}
    data = training.records(run, schema, lambda found: (found["wave"], found["kind"]))
    model = training.fit(run, network, data)
    training.evaluate(run, model, data)
