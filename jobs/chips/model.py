"""The CNN of the article on potato chips, and the shape of its images."""

import tensorflow as tf

from hpclaunch.training.input.source import ImageSet

SIZE = 500  # pixels per side, as in the article
L2 = 0.0015


def chips_of(size: int) -> ImageSet:
    """Square images of `size` pixels per side, in two classes: good chips, and chips with a defect."""
    return ImageSet("chips", shape=(size, size, 3), classes=2, job="chips")


def cnn(size: int = SIZE, white=1) -> tf.keras.Model:
    """Images [b, size, size, 3], 0..white -> probabilities [b, 2]; 7,942,658 parameters with size 500.

    white: the value of a bright pixel, 255 for unscaled images (uint8), 1 for scaled ones. Every convolution and the
    first dense layer have L2 regularization, as in the article's program.
    """
    layers = tf.keras.layers

    def conv(filters):
        penalty = tf.keras.regularizers.L2(L2)
        return layers.Conv2D(filters, 3, padding="same", activation="relu", kernel_regularizer=penalty)

    return tf.keras.Sequential(
        [
            layers.Input((size, size, 3)),
            layers.Rescaling(1 / white, dtype="float32"),
            conv(16),
            conv(32),
            layers.MaxPooling2D(2),  # 250 x 250
            conv(32),
            layers.MaxPooling2D(2),  # 125 x 125
            conv(64),
            layers.MaxPooling2D(2),  # 62 x 62
            conv(64),
            layers.MaxPooling2D(2),  # 31 x 31
            layers.Dropout(0.5),
            layers.Flatten(),  # 61504
            layers.Dense(128, activation="relu", kernel_regularizer=tf.keras.regularizers.L2(L2)),
            layers.Dense(2, activation="softmax", dtype="float32"),
        ],
        name="chips_cnn",
    )
