"""The network whose exported files are read: convolution, batch normalization, dropout and a dense layer."""


def network(normalization=None):
    """Images [b, 12, 12, 3], 0..255 -> probabilities [b, 3]."""
    import tensorflow as tf

    layers = tf.keras.layers
    image = layers.Input((12, 12, 3))
    x = layers.Rescaling(1 / 255)(image)
    x = layers.Conv2D(8, 3, name="conv")(x)
    x = layers.ReLU()((normalization or layers.BatchNormalization)()(x))
    x = layers.Dropout(0.2)(layers.GlobalAveragePooling2D()(x))
    return tf.keras.Model(image, layers.Dense(3, activation="softmax", name="out")(x), name="small")
