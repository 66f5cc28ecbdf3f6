"""The network of PyTorch's CIFAR-10 tutorial, which the article calls Net and does not publish, in Keras."""

import tensorflow as tf

from hpclaunch.training.input.source import ImageSet

CIFAR10 = ImageSet("cifar10", shape=(32, 32, 3), classes=10, job="small_cnn")


def small_cnn() -> tf.keras.Model:
    """Images uint8 [b, 32, 32, 3] -> probabilities [b, 10]; 62,006 parameters."""
    layers = tf.keras.layers
    image = layers.Input(CIFAR10.shape)
    x = layers.Rescaling(1 / 127.5, offset=-1.0, dtype="float32")(image)
    for filters in (6, 16):
        x = layers.MaxPooling2D(2)(layers.Conv2D(filters, 5, activation="relu")(x))  # 14 x 14, then 5 x 5
    x = layers.Flatten()(x)
    for units in (120, 84):
        x = layers.Dense(units, activation="relu")(x)
    x = layers.Dense(CIFAR10.classes, activation="softmax", dtype="float32")(x)
    return tf.keras.Model(image, x, name="small_cnn")
