"""Trains the last layer of a ResNet-50; all other layers are frozen."""

from hpclaunch import training


def network():
    import tensorflow as tf

    model = tf.keras.applications.ResNet50(weights=None, input_shape=(32, 32, 3))
    for layer in model.layers[:-1]:
        layer.trainable = False
    return model


settings = training.settings(epochs=1, batch_size_per_rank=2, checkpoint_steps=1, export_model=False)
with training.start(settings) as run:
    training.fit(run, network, training.arrays(run))
