"""ResNet-50, and the shape of its images."""

import tensorflow as tf

from hpclaunch.training.input.source import ImageSet

SIZE, CLASSES = 224, 1000
L2 = 5e-5  # Keras's penalty is L2 x |w|^2, so this is the paper's weight decay of 0.0001


def images_of(size: int, classes: int) -> ImageSet:
    """Square colour images of `size` pixels per side."""
    return ImageSet("imagenet", shape=(size, size, 3), classes=classes, job="resnet50")


def resnet50(normalization=tf.keras.layers.BatchNormalization, size=SIZE, classes=CLASSES, white=1) -> tf.keras.Model:
    """Images [b, size, size, 3], 0..white -> probabilities [b, classes]; 25,557,032 trainable parameters for 1000.

    He et al. 2015 (arXiv 1512.03385), with the stride in the 3 x 3 convolution ("v1.5", as in published throughputs).
    normalization: makes the layer after every convolution (training's batch_norm). white: the value of a bright pixel,
    255 for unscaled images (uint8), 1 for scaled ones.
    """
    layers = tf.keras.layers
    penalty = tf.keras.regularizers.L2(L2)

    def conv(x, filters, kernel, stride=1):
        pad = (kernel - 1) // 2  # on both sides, whatever the stride
        x = layers.ZeroPadding2D(pad)(x) if pad else x
        x = layers.Conv2D(
            filters,
            kernel,
            strides=stride,
            use_bias=False,
            kernel_initializer="he_normal",
            kernel_regularizer=penalty,
        )(x)
        return normalization()(x)

    def bottleneck(x, narrow, stride):
        y = layers.ReLU()(conv(x, narrow, 1))
        y = layers.ReLU()(conv(y, narrow, 3, stride))
        y = conv(y, 4 * narrow, 1)
        if stride > 1 or x.shape[-1] != 4 * narrow:
            x = conv(x, 4 * narrow, 1, stride)
        return layers.ReLU()(layers.Add()([x, y]))

    image = layers.Input((size, size, 3))
    x = layers.Rescaling(2 / white, offset=-1, dtype="float32")(image)
    x = layers.ReLU()(conv(x, 64, 7, stride=2))  # 112 x 112
    x = layers.MaxPooling2D(3, strides=2)(layers.ZeroPadding2D(1)(x))  # 56 x 56
    for stage, blocks in enumerate((3, 4, 6, 3)):  # 56, 28, 14 and 7 pixels per side
        for block in range(blocks):
            x = bottleneck(x, 64 * 2**stage, stride=2 if stage and not block else 1)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dense(classes, activation="softmax", kernel_regularizer=penalty, dtype="float32")(x)
    return tf.keras.Model(image, x, name="resnet50")
