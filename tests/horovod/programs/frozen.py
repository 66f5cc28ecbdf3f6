"""Trains the last layer of a small network, or (--resnet50=true) of a ResNet-50; all other layers are frozen."""

from hpclaunch import training


def network():
    import tensorflow as tf

    if settings.resnet50:
        model = tf.keras.applications.ResNet50(weights=None, input_shape=(32, 32, 3))
    else:
        layers = tf.keras.layers
        inner = [layers.Conv2D(64, 3, 4), layers.BatchNormalization(), layers.ReLU()]
        inner += [layers.Conv2D(128, 3, 2), layers.BatchNormalization(), layers.Flatten(), layers.Dense(512, "relu")]
        model = tf.keras.Sequential([layers.Input((32, 32, 3)), *inner, layers.Dense(1000, "softmax")])
    for layer in model.layers[:-1]:
        layer.trainable = False
    return model


settings = training.settings(
    epochs=1,
    batch_size_per_rank=2,
    checkpoint_steps=1,
    export_model=False,
    resnet50={"default": False, "help": "a network of 50 layers"},
)
with training.start(settings) as run:
    training.fit(run, network, training.arrays(run))
