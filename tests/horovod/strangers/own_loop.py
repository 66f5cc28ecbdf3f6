"""Trains with a loop of its own."""

from hpclaunch import training


class Network:
    """Makes a subclass of Keras's Model, which has no Input."""

    def __new__(cls):
        import tensorflow as tf

        class TwoLayers(tf.keras.Model):
            def __init__(self):
                super().__init__()
                self.hidden, self.out = tf.keras.layers.Dense(16, "relu"), tf.keras.layers.Dense(1)

            def call(self, inputs, training=False):
                return self.out(self.hidden(inputs))

        return TwoLayers()


settings = training.settings(epochs=4, batch_size_per_rank=4, optimizer="adam", learning_rate=0.01)
with training.start(settings) as run:
    import tensorflow as tf

    data = training.arrays(run, inputs="features", targets="price")
    loop = training.loop(run, Network, data)
    for inputs, targets in loop:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((loop.model(inputs, training=True)[:, 0] - targets) ** 2)
        loop.step(loss, tape.gradient(loss, loop.model.trainable_variables))
    training.evaluate(run, loop.model, data)
