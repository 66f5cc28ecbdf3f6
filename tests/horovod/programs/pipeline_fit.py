"""Trains a model in blocks, which can be stages of a pipeline, compute again, and share their dense layers."""

from hpclaunch import training


def network():
    keras, shared = tf.keras.layers, training.layers

    def begin(x):
        return keras.Dropout(settings.rate)(keras.Dense(8, "tanh")(x))

    def block(x):
        y = shared.ColumnParallelDense(16, "relu")(x)
        y = shared.ParallelDropout(settings.rate)(shared.ParallelBatchNormalization()(y))
        return x + keras.BatchNormalization()(shared.RowParallelDense(8, "tanh")(y))

    def end(x):
        return keras.Dense(1, dtype="float32")(x)

    return shared.in_blocks(tf.keras.Input(6), [begin, *[block] * settings.blocks, end], [8])


settings = training.settings(
    epochs=4,
    batch_size_per_rank=2,
    accumulation=4,
    optimizer="lamb",
    learning_rate=0.01,
    weight_decay=0.01,
    decay="cosine",
    rate={"default": 0.0, "help": "of the dropout"},
    blocks={"default": 3, "help": "between the first and the last one"},
)
with training.start(settings) as run:
    import tensorflow as tf

    data = training.arrays(run, inputs="features", targets="price")
    model = training.fit(run, network, data, loss="mse", metrics=["mae"])
    training.evaluate(run, model, data)
