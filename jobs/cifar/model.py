"""The mini-ResNet of the reference notebooks for CIFAR-10, and the shape of its images."""

import tensorflow as tf

from hpclaunch.training.input.source import ImageSet

CIFAR10 = ImageSet("cifar10", shape=(32, 32, 3), classes=10, job="cifar")


def mini_resnet(normalization=tf.keras.layers.BatchNormalization, white=1) -> tf.keras.Model:
    """Images [b, 32, 32, 3], 0..white -> probabilities [b, 10]; 482,442 parameters, with batch norm 490,378.

    white: the value of a bright pixel, 255 for unscaled images (uint8), 1 for scaled ones.

    normalization: makes the layer after every convolution (training's batch_norm). The momentum of its statistics only
    determines how fast they follow. Keras's 0.99 would need hundreds of steps, but with a global batch of 4096 an epoch
    has 13.
    """
    layers = tf.keras.layers

    def conv(x, filters, size, stride=1, padding="valid"):
        kernel = tf.keras.initializers.GlorotUniform(seed=0)
        x = layers.Conv2D(filters, size, strides=stride, padding=padding, kernel_initializer=kernel)(x)
        return normalization()(x)

    def residual(x, narrow, wide, stride):
        # Only the pixels that a 1 x 1 convolution with this stride reads: oneDNN is slow at its gradients in bfloat16.
        x = layers.MaxPooling2D(1, strides=stride)(x) if stride > 1 else x
        y = layers.ReLU()(conv(x, narrow, 1))
        y = layers.ReLU()(conv(y, narrow, 3, padding="same"))
        y = conv(y, wide, 1)
        return layers.ReLU()(layers.Add()([y, conv(x, wide, 1)]))

    image = layers.Input(CIFAR10.shape)
    x = layers.Rescaling(1 / white, dtype="float32")(image)
    x = layers.ZeroPadding2D(3)(x)
    x = layers.ReLU()(conv(x, 64, 7, stride=2))  # 16 x 16
    x = layers.MaxPooling2D(3, strides=2)(x)  # 7 x 7
    x = residual(x, 64, 256, stride=1)
    x = residual(x, 128, 512, stride=2)  # 4 x 4
    x = layers.AveragePooling2D(2, padding="same")(x)  # 2 x 2
    x = layers.Flatten()(x)
    kernel = tf.keras.initializers.GlorotUniform(seed=0)
    x = layers.Dense(CIFAR10.classes, activation="softmax", kernel_initializer=kernel, dtype="float32")(x)
    return tf.keras.Model(image, x, name="mini_resnet")
