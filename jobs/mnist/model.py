"""The CNN of the reference notebooks for MNIST and Fashion-MNIST, and the shape of their images."""

import tensorflow as tf

from hpclaunch.training.input.source import ImageSet

MNIST = ImageSet("mnist", shape=(28, 28, 1), classes=10, job="mnist", others=("fashion_mnist",))
FASHION_MNIST = ImageSet(
    "fashion_mnist",
    shape=MNIST.shape,
    classes=MNIST.classes,
    job="mnist",
    others=("mnist",),
    fetch="mnist --set dataset=fashion_mnist",
)
DATASETS = {one.name: one for one in (MNIST, FASHION_MNIST)}


def cnn(white=1) -> tf.keras.Model:
    """Images [b, 28, 28, 1], 0..white -> probabilities [b, 10]; 1,199,882 parameters.

    white: the value of a bright pixel, 255 for unscaled images (uint8), 1 for scaled ones.
    """
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Input(MNIST.shape),
            layers.Rescaling(1 / white, dtype="float32"),
            layers.Conv2D(32, 3, activation="relu"),  # 26 x 26
            layers.Conv2D(64, 3, activation="relu"),  # 24 x 24
            layers.MaxPooling2D(2),  # 12 x 12
            layers.Dropout(0.25),
            layers.Flatten(),  # 9216
            layers.Dense(128, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(MNIST.classes, activation="softmax", dtype="float32"),
        ],
        name="mnist_cnn",
    )
