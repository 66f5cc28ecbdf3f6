"""Trains a model whose dense layers the ranks share, in fit or (--own-loop=true) in a loop of its own."""

from hpclaunch import training


def network():
    keras, shared = tf.keras.layers, training.layers
    if settings.wrong:
        return tf.keras.Sequential([tf.keras.Input(6), shared.ColumnParallelDense(16), keras.Dense(1)])
    return tf.keras.Sequential(
        [
            tf.keras.Input(6),
            keras.Dense(8, "tanh"),
            keras.Dropout(settings.rate),
            shared.ColumnParallelDense(settings.units, "relu"),
            shared.ParallelBatchNormalization(),
            shared.ParallelDropout(settings.rate),
            shared.RowParallelDense(8, "tanh"),
            keras.Dense(settings.outputs, "softmax" if settings.outputs > 1 else None, dtype="float32"),
        ]
    )


settings = training.settings(
    epochs=4,
    batch_size_per_rank=4,
    optimizer="lamb",
    learning_rate=0.01,
    weight_decay=0.01,
    decay="cosine",
    rate={"default": 0.0, "help": "of the dropout"},
    units={"default": 16, "help": "of the layer that is shared"},
    outputs={"default": 1, "help": "3: classes"},
    own_loop={"default": False, "help": "a loop of its own in place of fit"},
    wrong={"default": False, "help": "a model with a dense layer that does not know that its inputs are divided"},
)
with training.start(settings) as run:
    import tensorflow as tf

    data = training.arrays(run, inputs="features", targets="price" if settings.outputs == 1 else "kind")
    if settings.own_loop:
        loop = training.loop(run, network, data)
        for inputs, targets in loop:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((loop.model(inputs, training=True)[:, 0] - targets) ** 2)
            loop.step(loss, tape.gradient(loss, loop.model.trainable_variables))
        model = loop.model
    else:
        model = training.fit(run, network, data, loss="mse" if settings.outputs == 1 else None)
    training.evaluate(run, model, data)
