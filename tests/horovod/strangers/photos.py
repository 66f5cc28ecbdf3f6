"""Classifies photographs of any size, in class folders."""

from hpclaunch import training


def network():
    import tensorflow as tf

    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Input((24, 32, 3)),
            layers.Rescaling(1 / 255),
            layers.Conv2D(4, 3, strides=2, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(2, "softmax"),
        ]
    )


settings = training.settings(epochs=4, batch_size_per_rank=4, optimizer="sgd", learning_rate=0.05, flip_horizontal=True)
with training.start(settings) as run:
    data = training.image_folder(run, size=(24, 32))
    model = training.fit(run, network, data)
    training.evaluate(run, model, data)
